"""The pages: tables and pictures rendered here, brought up to date by a small script where there is one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from causalbandits.errors import CausalBanditsError, UnknownDecisionError
from causalbandits.service.dashboard.panels import panels_of
from causalbandits.service.http import RefusedError
from causalbandits.study import Study
from causalbandits.study.analysis import By

if TYPE_CHECKING:
    from causalbandits.service.app import Service

COOKIE = "causalbandits_key"
STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
OFFERED = ("online", "frozen", "paused", "closed")
"""Modes that a page can change to."""

EVALUATED = 20_000
"""So many outcomes a page looks at for what another way of deciding would have brought."""

GUARD = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(loader=jinja2.PackageLoader("causalbandits.service.dashboard"), autoescape=True)
    found.filters["number"] = lambda value: "" if value is None else f"{value:.4g}"
    found.filters["moment"] = lambda at: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else ""
    found.filters["share"] = lambda value: f"{value:.1%}"
    found.filters["chance"] = lambda value: "> 99.9%" if value > 0.999 else f"{value:.1%}"  # draws tell no more
    found.filters["assignment"] = lambda given: ", ".join(f"{k} = {v}" for k, v in dict(given).items()) or "nothing set"
    return found


def prepare() -> None:
    """What the first who looks would wait for, a fifth of a second: templates are compiled, and statistics imported."""
    import scipy.special  # noqa: F401

    for name in _templates().list_templates():
        _templates().get_template(name)


def page(template: str, status: int = 200, **values: Any) -> Response:
    """A page, guarded against everything that does not come from here."""
    return HTMLResponse(_templates().get_template(template).render(**values), status, GUARD)


def static(request: Request) -> Response:
    """The style and the script; nothing else."""
    name = request.path_params["file"]
    if name not in STATIC:
        return Response(status_code=404)
    content = resources.files("causalbandits.service.dashboard").joinpath("static", name).read_bytes()
    return Response(content, media_type=STATIC[name], headers={**GUARD, "Cache-Control": "max-age=300"})


async def listed(service: Service, request: Request) -> Response:
    """The studies, and how they stand."""
    open_to = service.open_to(request)
    counts = await asyncio.gather(*(writer.reader.look(_counts) for writer in open_to.values()))
    return page("studies.html", studies=dict(zip(open_to, counts, strict=True)))


def _counts(study: Study) -> dict[str, Any]:
    found = study.counts()
    told, total = found["outcomes"], found["reward_sum"] or 0.0
    return {**found, "mean": total / told if told else None, "mode": study.mode, "policy": study.policy.id}


async def shown(service: Service, request: Request) -> Response:
    """A study, on one page; as a fragment for the script that brings it up to date."""
    name = request.path_params["study"]
    values = await service.writers[name].reader.look(panels_of)
    template = "panels.html" if "fragment" in request.query_params else "study.html"
    may_change = request.state.key.role == "admin"
    return page(template, name=name, writer=service.writers[name], may_change=may_change, modes=OFFERED, **values)


async def what_if(service: Service, request: Request) -> Response:
    """What always doing something else would have brought, from what was logged."""
    name = request.path_params["study"]
    typed = {knob: value for knob, value in request.query_params.items() if value}
    status, found = await service.writers[name].reader.look(lambda study: _what_if(study, typed))
    return page("what_if.html", status, name=name, typed=typed, **found)


def _what_if(study: Study, typed: dict[str, str]) -> tuple[int, dict[str, Any]]:
    try:
        if study.rounds > EVALUATED:
            raise CausalBanditsError(
                f"The log has more than {EVALUATED:,} outcomes, and each is looked at: that would keep others waiting. "
                "Ask study.evaluate(...) in Python, of a backup."
            )
        target = {knob: _state(study, knob, value) for knob, value in typed.items()}
        by: By = "actions" if study.problem.learns == "actions" else "configurations"
        return 200, {"found": study.evaluate(target, by=by), "logged": study.evaluate("logged"), "why": ""}
    except CausalBanditsError as error:
        return 400, {"found": None, "logged": None, "why": str(error)}


def _state(study: Study, knob: str, text: str) -> Any:
    known = {str(state): state for state in study.problem.knowledge[knob].states}
    if text not in known:
        raise CausalBanditsError(f"{knob} is one of {', '.join(known)}; got {text!r:.60}.")
    return known[text]


def is_own_form(request: Request) -> bool:
    """Whether a form was sent from a page of ours: browsers say from which, and a page elsewhere cannot change that."""
    return request.headers.get("origin", "").partition("://")[2] == request.headers.get("host")


async def set_mode(service: Service, request: Request) -> Response:
    """Pause, freeze, go on or close: by a form, logged with the key's name."""
    if not is_own_form(request):
        raise RefusedError(403, "A form on a page of another place was used.")
    name, given = request.path_params["study"], await _form(request)
    if given.get("mode") not in OFFERED or (given["mode"] == "closed") != ("sure" in given):
        raise RefusedError(400, f"A mode is one of {', '.join(OFFERED)}; to close for good, and only then, say so.")
    by, mode, why = request.state.key.name, given["mode"], given.get("why", "")[:500]
    await service.writers[name].do(lambda study: study.set_mode(mode, by=by, why=why))  # type: ignore[arg-type]
    return RedirectResponse(f"/{quote(name)}", 303, GUARD)


async def _form(request: Request) -> dict[str, str]:
    body = (await request.body())[:2000].decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(body).items()}


async def decision(service: Service, request: Request) -> Response:
    """A decision, explained."""
    name, asked = request.path_params["study"], request.query_params.get("id", "")
    try:
        found = await service.writers[name].reader.look(lambda study: study.explain(study.id_of(asked)))
    except UnknownDecisionError as error:
        return page("decision.html", 404, name=name, asked=asked, found=None, why=str(error))
    except CausalBanditsError as error:
        return page("decision.html", 400, name=name, asked=asked, found=None, why=str(error))
    return page("decision.html", name=name, asked=asked, found=found, why="")


async def live(service: Service, request: Request) -> Response:
    """A line each second in which something happened."""
    reader = service.writers[request.path_params["study"]].reader

    async def lines() -> AsyncIterator[str]:
        before = -1
        while not service.is_closing and service.still_admits(request) and not await request.is_disconnected():
            now = await reader.look(lambda study: study.version)
            yield f"data: {json.dumps(now)}\n\n" if now != before else ": still here\n\n"
            before = now
            await asyncio.sleep(1.0)

    return StreamingResponse(lines(), media_type="text/event-stream", headers=GUARD)


async def login(service: Service, request: Request) -> Response:
    """Where a key is asked for."""
    return page("login.html", wrong=False)


async def enter(service: Service, request: Request) -> Response:
    """A key is kept by the browser, out of reach of scripts and of other sites."""
    key = (await _form(request)).get("key", "")
    if service.keys.role_of(key) is None:
        return page("login.html", 401, wrong=True)
    answer = RedirectResponse("/", 303, GUARD)
    answer.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=request.scope["scheme"] == "https")
    return answer
