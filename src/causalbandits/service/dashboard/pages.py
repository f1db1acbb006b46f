"""The pages of the dashboard: handlers that render templates; a small script updates open pages."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from causalbandits.errors import CausalBanditsError, UnknownDecisionError
from causalbandits.service.auth import COOKIE, is_reader
from causalbandits.service.dashboard.panels import build_panels
from causalbandits.service.group_commit import Writer
from causalbandits.service.http import ServiceContext
from causalbandits.service.problems import PROBLEM_TYPES, RequestError, request_terms
from causalbandits.service.schemas import FieldError, ProblemDetails
from causalbandits.study import Study
from causalbandits.study.analysis import By
from causalbandits.study.remote import PROBLEM_TYPE_PREFIX

STATIC_FILES = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
OFFERED_MODES = ("online", "frozen", "paused", "closed")
"""The modes that a page offers."""

ESTIMATORS = {"direct": "direct method", "ips": "IPS", "snips": "self-normalised IPS", "dr": "doubly robust"}
"""Labels of the estimates of an off-policy evaluation."""

STUDIES_PER_PAGE = 50

MAX_EVALUATED_OUTCOMES = 20_000
"""The maximum number of outcomes for an off-policy evaluation on a page, because it reads every outcome."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send a null Origin with the service's own forms
    "Cache-Control": "no-store",
}


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(loader=jinja2.PackageLoader("causalbandits.service.dashboard"), autoescape=True)
    environment.filters["number"] = lambda value: "" if value is None else f"{value:.4g}"
    environment.filters["moment"] = lambda at: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else ""
    environment.filters["share"] = lambda value: f"{value:.1%}"
    # the samples have no higher resolution
    environment.filters["chance"] = lambda value: "> 99.9%" if value > 0.999 else f"{value:.1%}"
    environment.filters["estimator"] = lambda name: ESTIMATORS.get(name, name)
    environment.filters["code"] = _mark_code
    environment.filters["request_terms"] = lambda text: request_terms(text) or "The outcome contradicts the decision."
    environment.filters["assignment"] = lambda assignment: (
        ", ".join(f"{k} = {v}" for k, v in dict(assignment).items()) or "no intervention"
    )
    return environment


def _mark_code(text: str) -> Markup:
    """HTML of a text in which parts between backticks are marked as code.

    >>> _mark_code("`a < b` holds")
    Markup('<code>a &lt; b</code> holds')
    """
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup(f"<code>{part}</code>") if k % 2 else part for k, part in enumerate(parts))


def warm_up() -> None:
    """Compile the templates and import scipy, which would otherwise delay the first page by a fifth of a second."""
    import scipy.special  # noqa: F401

    for name in _templates().list_templates():
        _templates().get_template(name)


def render_page(template: str, status: int = 200, **values: Any) -> Response:
    """A page with headers that forbid loading external resources."""
    return HTMLResponse(_templates().get_template(template).render(**values), status, SECURITY_HEADERS)


@cache
def _static_content(name: str) -> bytes:
    return resources.files("causalbandits.service.dashboard").joinpath("static", name).read_bytes()


READER_REMEDIES = {
    "authentication-required": "Enter your key.",
    "forbidden": "Enter a key with the required role, or ask the operator of the service for one.",
    "cross-site-request": "Open the page of this service, and use the form there.",
    "not-found": "Check the address, or choose a study from the list.",
    "unknown-study": "Check the address, or choose a study from the list.",
    "method-not-allowed": "Open the study's page, and use the form there.",
    "too-large": "Enter a shorter text.",
    "invalid-mode": 'Go back to the study and choose a mode. To close the study, also tick "close permanently".',
    "invalid-value": "Choose a study from the list.",
    "too-many-requests": "Wait a second, then load the page again.",
    "busy": "Wait a second, then load the page again.",
    "storage-unavailable": "Wait a few seconds, then load the page again. If the error persists, inform the operator.",
    "keys-unavailable": "Inform the operator of the service. The operator can restore the file or create new keys.",
    "internal-error": "Load the page again. If the error persists, send the request id below to the operator.",
}
"""Remedies of errors for readers of a page; other errors keep the remedy for programs."""


def error_page(problem: ProblemDetails, request: Request, headers: Mapping[str, str]) -> Response:
    """The page of an error."""
    kind = PROBLEM_TYPES[problem.type.removeprefix(PROBLEM_TYPE_PREFIX)]
    response = render_page(
        "error.html",
        problem.status,
        problem=problem,
        remedy=READER_REMEDIES.get(kind.name, kind.remedy),
        request_id=getattr(request.state, "request_id", None),
        study=None if kind.name == "unknown-study" else request.path_params.get("study"),
    )
    response.headers.update(headers)
    return response


def static_file(request: Request) -> Response:
    """The style sheet, the script and the icon."""
    name = request.path_params["file"]
    if name not in STATIC_FILES:
        return Response(status_code=404)
    return Response(
        _static_content(name),
        media_type=STATIC_FILES[name],
        headers={**SECURITY_HEADERS, "Cache-Control": "max-age=300"},
    )


async def list_problem_types(context: ServiceContext, request: Request) -> Response:
    """The documentation of all types of problem details."""
    return render_page("problems.html", kinds=list(PROBLEM_TYPES.values()))


async def show_problem_type(context: ServiceContext, request: Request) -> Response:
    """The documentation of a type of problem details."""
    name = request.path_params["name"]
    if name not in PROBLEM_TYPES:
        raise RequestError("not-found", "No error type has this name. /problems lists all types.")
    return render_page("problems.html", kinds=[PROBLEM_TYPES[name]])


async def list_studies(context: ServiceContext, request: Request) -> Response:
    """The list of studies, with their counts: a page of it."""
    writers = context.accessible_writers(request)
    pages, page = max(1, math.ceil(len(writers) / STUDIES_PER_PAGE)), request.query_params.get("page", "1")
    if not (page.isascii() and page.isdigit() and len(page) < 10 and 1 <= int(page) <= pages):
        detail = f"The list of studies has the pages 1 to {pages}; got {page!r:.40}."
        raise RequestError("invalid-value", detail, [FieldError(None, detail, "page")])
    first = (int(page) - 1) * STUDIES_PER_PAGE
    listed = dict(list(writers.items())[first : first + STUDIES_PER_PAGE])
    counts = await asyncio.gather(*map(_counts_or_reason, listed.values()))
    studies = dict(zip(listed, counts, strict=True))
    unavailable = {name: why for name, why in sorted(context.unavailable.items()) if request.state.key.opens(name)}
    return render_page(
        "studies.html",
        studies=studies,
        unavailable=unavailable,
        page=int(page),
        pages=pages,
        first=first + 1,
        total=len(writers),
    )


async def _counts_or_reason(writer: Writer) -> dict[str, Any]:
    """The counts of a study, or the reason why it cannot be read, so that the other studies are still shown."""
    try:
        return await writer.reader.read(_study_counts)
    except CausalBanditsError as error:
        return {"why_not": str(error)}


def _study_counts(study: Study) -> dict[str, Any]:
    counts = study.counts()
    n_outcomes, total = counts["outcomes"], counts["reward_sum"] or 0.0
    return {**counts, "mean": total / n_outcomes if n_outcomes else None, "mode": study.mode, "policy": study.policy.id}


async def show_study(context: ServiceContext, request: Request) -> Response:
    """A study's page; for the script that updates it, the panels alone."""
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
    form_values = {variable: value for variable, value in request.query_params.items() if value}
    status, template_values = await context.writers[name].scanner.read(lambda study: _evaluate_form(study, form_values))
    return render_page("what_if.html", status, name=name, typed=form_values, **template_values)


def _evaluate_form(study: Study, form_values: dict[str, str]) -> tuple[int, dict[str, Any]]:
    try:
        if study.n_outcomes > MAX_EVALUATED_OUTCOMES:
            raise CausalBanditsError(
                f"The log has more than {MAX_EVALUATED_OUTCOMES:,} outcomes, the limit of an evaluation on this page. "
                "In Python, call study.evaluate(...) on a backup."
            )
        target = {variable: _parse_state(study, variable, value) for variable, value in form_values.items()}
        by: By = "actions" if study.problem.unit == "actions" else "configurations"
        return 200, {"evaluation": study.evaluate(target, by=by), "logged": study.evaluate("logged"), "why": ""}
    except CausalBanditsError as error:
        return 400, {"evaluation": None, "logged": None, "why": str(error)}


def _parse_state(study: Study, variable: str, text: str) -> Any:
    states_by_text = {str(state): state for state in study.problem.knowledge[variable].states}
    if text not in states_by_text:
        raise CausalBanditsError(f"{variable} must be one of {', '.join(states_by_text)}; got {text!r:.60}.")
    return states_by_text[text]


async def set_mode(context: ServiceContext, request: Request, form: Mapping[str, str]) -> Response:
    """Change the mode, by a form; logged with the key's name."""
    name = request.path_params["study"]
    if form.get("mode") not in OFFERED_MODES or (form["mode"] == "closed") != ("sure" in form):
        raise RequestError(
            "invalid-mode",
            f"The mode must be one of {', '.join(OFFERED_MODES)}. Tick 'close permanently' only to close a study.",
        )
    by, mode, why = request.state.key.name, form["mode"], form.get("why", "")[:500]
    await context.writers[name].submit(lambda study: study.set_mode(mode, by=by, why=why))  # type: ignore[arg-type]
    return RedirectResponse(f"/{quote(name)}", 303, SECURITY_HEADERS)


async def show_decision(context: ServiceContext, request: Request) -> Response:
    """The explanation of a decision."""
    name, id_text = request.path_params["study"], request.query_params.get("id", "")
    try:
        explanation = await context.writers[name].scanner.read(lambda study: study.explain(study.id_of(id_text)))
    except UnknownDecisionError as error:
        return render_page("decision.html", 404, name=name, asked=id_text, explanation=None, why=str(error))
    except CausalBanditsError as error:
        return render_page("decision.html", 400, name=name, asked=id_text, explanation=None, why=str(error))
    return render_page("decision.html", name=name, asked=id_text, explanation=explanation, why="")


async def stream_changes(context: ServiceContext, request: Request) -> Response:
    """Server-sent events: the study's version, sent whenever it has changed in the last second."""
    reader = context.writers[request.path_params["study"]].reader
    request.state.streams = True

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


async def log_in(context: ServiceContext, request: Request, form: Mapping[str, str]) -> Response:
    """Set the key as a cookie that is hidden from scripts and other sites."""
    key = form.get("key", "")
    if context.keys.role_of(key) is None:
        return render_page("login.html", 401, wrong=True)
    answer = RedirectResponse("/", 303, SECURITY_HEADERS)
    answer.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=request.scope["scheme"] == "https")
    return answer
