"""The pages of the dashboard: handlers that render templates; a small script updates a page that is open."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from causalbandits.errors import CausalBanditsError, UnknownDecisionError
from causalbandits.service.auth import COOKIE, is_reader
from causalbandits.service.dashboard.panels import build_panels
from causalbandits.service.http import RequestError, ServiceContext
from causalbandits.study import Study
from causalbandits.study.analysis import By

STATIC_FILES = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
OFFERED_MODES = ("online", "frozen", "paused", "closed")
"""Modes that a page can change to."""

MAX_EVALUATED_OUTCOMES = 20_000
"""A longer log is not evaluated for a page: every outcome of it is read."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(loader=jinja2.PackageLoader("causalbandits.service.dashboard"), autoescape=True)
    environment.filters["number"] = lambda value: "" if value is None else f"{value:.4g}"
    environment.filters["moment"] = lambda at: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else ""
    environment.filters["share"] = lambda value: f"{value:.1%}"
    environment.filters["chance"] = lambda value: "> 99.9%" if value > 0.999 else f"{value:.1%}"  # draws tell no more
    environment.filters["assignment"] = lambda assignment: (
        ", ".join(f"{k} = {v}" for k, v in dict(assignment).items()) or "nothing set"
    )
    return environment


def warm_up() -> None:
    """Compile the templates and import scipy: the first page would wait a fifth of a second for them."""
    import scipy.special  # noqa: F401

    for name in _templates().list_templates():
        _templates().get_template(name)


def render_page(template: str, status: int = 200, **values: Any) -> Response:
    """A page, with headers that forbid it to load anything from elsewhere."""
    return HTMLResponse(_templates().get_template(template).render(**values), status, SECURITY_HEADERS)


def static_file(request: Request) -> Response:
    """The style sheet, the script and the icon."""
    name = request.path_params["file"]
    if name not in STATIC_FILES:
        return Response(status_code=404)
    content = resources.files("causalbandits.service.dashboard").joinpath("static", name).read_bytes()
    return Response(
        content, media_type=STATIC_FILES[name], headers={**SECURITY_HEADERS, "Cache-Control": "max-age=300"}
    )


async def list_studies(context: ServiceContext, request: Request) -> Response:
    """The list of studies, with their counts."""
    writers = context.accessible_writers(request)
    counts = await asyncio.gather(*(writer.reader.read(_study_counts) for writer in writers.values()))
    return render_page("studies.html", studies=dict(zip(writers, counts, strict=True)))


def _study_counts(study: Study) -> dict[str, Any]:
    counts = study.counts()
    n_outcomes, total = counts["outcomes"], counts["reward_sum"] or 0.0
    return {**counts, "mean": total / n_outcomes if n_outcomes else None, "mode": study.mode, "policy": study.policy.id}


async def show_study(context: ServiceContext, request: Request) -> Response:
    """A study's page, or its panels only, for the script that updates them."""
    name = request.path_params["study"]
    values = await context.writers[name].reader.read(build_panels)
    template = "panels.html" if "fragment" in request.query_params else "study.html"
    may_change = request.state.key.role == "admin"
    return render_page(
        template, name=name, writer=context.writers[name], may_change=may_change, modes=OFFERED_MODES, **values
    )


async def what_if(context: ServiceContext, request: Request) -> Response:
    """Off-policy evaluation: the mean reward of always setting the values in the form."""
    name = request.path_params["study"]
    form_values = {knob: value for knob, value in request.query_params.items() if value}
    status, template_values = await context.writers[name].reader.read(lambda study: _evaluate_form(study, form_values))
    return render_page("what_if.html", status, name=name, typed=form_values, **template_values)


def _evaluate_form(study: Study, form_values: dict[str, str]) -> tuple[int, dict[str, Any]]:
    try:
        if study.rounds > MAX_EVALUATED_OUTCOMES:
            raise CausalBanditsError(
                f"The log has more than {MAX_EVALUATED_OUTCOMES:,} outcomes, and each is looked at: that would keep "
                "others waiting. Ask study.evaluate(...) in Python, of a backup."
            )
        target = {knob: _parse_state(study, knob, value) for knob, value in form_values.items()}
        by: By = "actions" if study.problem.unit == "actions" else "configurations"
        return 200, {"evaluation": study.evaluate(target, by=by), "logged": study.evaluate("logged"), "why": ""}
    except CausalBanditsError as error:
        return 400, {"evaluation": None, "logged": None, "why": str(error)}


def _parse_state(study: Study, knob: str, text: str) -> Any:
    states_by_text = {str(state): state for state in study.problem.knowledge[knob].states}
    if text not in states_by_text:
        raise CausalBanditsError(f"{knob} is one of {', '.join(states_by_text)}; got {text!r:.60}.")
    return states_by_text[text]


def is_own_form(request: Request) -> bool:
    """Whether a form was sent from a page of this service, by the Origin header, which other sites cannot forge."""
    return request.headers.get("origin", "").partition("://")[2] == request.headers.get("host")


async def set_mode(context: ServiceContext, request: Request) -> Response:
    """Change the mode, by a form; logged with the key's name."""
    if not is_own_form(request):
        raise RequestError(403, "A form on a page of another place was used.")
    name, form = request.path_params["study"], await _read_form(request)
    if form.get("mode") not in OFFERED_MODES or (form["mode"] == "closed") != ("sure" in form):
        raise RequestError(
            400, f"A mode is one of {', '.join(OFFERED_MODES)}; to close for good, and only then, say so."
        )
    by, mode, why = request.state.key.name, form["mode"], form.get("why", "")[:500]
    await context.writers[name].submit(lambda study: study.set_mode(mode, by=by, why=why))  # type: ignore[arg-type]
    return RedirectResponse(f"/{quote(name)}", 303, SECURITY_HEADERS)


async def _read_form(request: Request) -> dict[str, str]:
    body = (await request.body())[:2000].decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(body).items()}


async def show_decision(context: ServiceContext, request: Request) -> Response:
    """The explanation of a decision."""
    name, id_text = request.path_params["study"], request.query_params.get("id", "")
    try:
        explanation = await context.writers[name].reader.read(lambda study: study.explain(study.id_of(id_text)))
    except UnknownDecisionError as error:
        return render_page("decision.html", 404, name=name, asked=id_text, explanation=None, why=str(error))
    except CausalBanditsError as error:
        return render_page("decision.html", 400, name=name, asked=id_text, explanation=None, why=str(error))
    return render_page("decision.html", name=name, asked=id_text, explanation=explanation, why="")


async def stream_changes(context: ServiceContext, request: Request) -> Response:
    """Server-sent events: the study's version, whenever it has changed in the last second."""
    reader = context.writers[request.path_params["study"]].reader

    async def lines() -> AsyncIterator[str]:
        before = -1
        while not context.closing.is_set() and is_reader(context.keys, request) and not await request.is_disconnected():
            now = await reader.read(lambda study: study.version)
            yield f"data: {json.dumps(now)}\n\n" if now != before else ": still here\n\n"
            before = now
            await asyncio.sleep(1.0)

    return StreamingResponse(lines(), media_type="text/event-stream", headers=SECURITY_HEADERS)


async def show_login(context: ServiceContext, request: Request) -> Response:
    """The form that asks for a key."""
    return render_page("login.html", wrong=False)


async def log_in(context: ServiceContext, request: Request) -> Response:
    """Set the key as a cookie that neither scripts nor other sites can read."""
    key = (await _read_form(request)).get("key", "")
    if context.keys.role_of(key) is None:
        return render_page("login.html", 401, wrong=True)
    answer = RedirectResponse("/", 303, SECURITY_HEADERS)
    answer.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=request.scope["scheme"] == "https")
    return answer
