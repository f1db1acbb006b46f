"""The service: every way in stands in `ROUTES` or `PAGES` with the role that it needs; there is no other."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from causalbandits.service.auth import Keys, Role, allows
from causalbandits.service.dashboard import (
    COOKIE,
    decision,
    enter,
    is_own_form,
    listed,
    live,
    login,
    set_mode,
    shown,
    static,
    what_if,
)
from causalbandits.service.http import Answer, RefusedError, given_key, header, nothing, refusal
from causalbandits.service.routes import ROUTES, STUDY, HTTPRoute
from causalbandits.service.workers import Writer
from causalbandits.study import Study

TEXT = "text/plain; version=0.0.4; charset=utf-8"

LOCAL = ("127.0.0.1", "localhost", "[::1]")

NOT_KNOWN = "This key is not known here: it was mistyped, or revoked, or is for another service."

OF_A_STUDY = re.compile(f"{STUDY.format(study='(?P<study>[^/]+)')}/(?P<word>[^/]+)")

Endpoint = Callable[[Request], Awaitable[Response]]
Page = Callable[["Service", Request], Awaitable[Response]]

PAGES: tuple[tuple[str, str, Role | None, Page], ...] = (
    ("GET", "/", "reader", listed),
    ("GET", "/login", None, login),
    ("POST", "/login", None, enter),
    ("GET", "/{study}", "reader", shown),
    ("GET", "/{study}/decision", "reader", decision),
    ("GET", "/{study}/what-if", "reader", what_if),
    ("POST", "/{study}/mode", "admin", set_mode),
    ("GET", "/{study}/live", "reader", live),
)
"""What people look at, likewise with the role that it needs."""


class Service:
    """Some studies over HTTP: an ASGI application."""

    def __init__(self, studies: Mapping[str, Study], keys: Keys, directory: Path | None = None) -> None:
        self.keys, self.directory = keys, directory
        self.writers = {name: Writer(study) for name, study in studies.items()}
        self.is_closing = False
        answers = {(one.method, one.path): self._endpoint(one) for one in ROUTES}
        self._straight = {
            (method, path.removeprefix(f"{STUDY}/")): answer
            for (method, path), answer in answers.items()
            if path.startswith(f"{STUDY}/")
        }
        """What is asked of a study as a whole, by method and last word; without a framework's detours, which took a
        third of the time of an answer."""
        self.app = Starlette(
            routes=[
                *(Route(path, answer, methods=[method]) for (method, path), answer in answers.items()),
                Route("/static/{file}", static),
                *(self._page(*one) for one in PAGES),
            ],
            exception_handlers={404: nothing, 405: nothing},
        )
        self.app.router.redirect_slashes = False  # which fails where a query is no text

    def close(self) -> None:
        """Finish what waits."""
        self.is_closing = True
        for writer in self.writers.values():
            writer.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (found := OF_A_STUDY.fullmatch(scope["path"])):
            straight = self._straight.get((scope["method"], found["word"]))
            if straight is not None:
                scope["path_params"] = {"study": found["study"]}
                response = await straight(Request(scope, receive))
                return await response(scope, receive, send)
        await self.app(scope, receive, send)

    def _endpoint(self, route: HTTPRoute) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                answer = await self._answer(route, request)
                if isinstance(answer.content, str):
                    return Response(answer.content, answer.status, media_type=TEXT)
                return Response(msgspec.json.encode(answer.content), answer.status, media_type="application/json")
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                return refusal(error)

        return endpoint

    def _page(self, method: str, path: str, role: Role | None, make: Page) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                if role is not None:
                    self._admit(role, request, by_cookie=method == "GET" or is_own_form(request))
                self._named(request)
                return await make(self, request)
            except ClientDisconnect:
                return Response(status_code=400)
            except RefusedError as error:
                if error.status == 401:
                    return RedirectResponse("/login", 303)
                return refusal(error)
            except Exception as error:
                return refusal(error)

        return Route(path, endpoint, methods=[method])

    def _named(self, request: Request) -> Writer | None:
        """The study that a path names."""
        name = request.path_params.get("study")
        if name is not None and name not in self.writers:
            raise RefusedError(404, f"There is no study {name!r:.80} here.")
        return None if name is None else self.writers[name]

    async def _answer(self, route: HTTPRoute, request: Request) -> Answer:
        if route.role is not None:
            self._admit(route.role, request, by_cookie=request.method == "GET")
        return await route.handler(self, self._named(request), request)  # type: ignore[arg-type]

    def still_admits(self, request: Request) -> bool:
        """Whether one who was let in to look would be let in again."""
        try:
            self._admit("reader", request, by_cookie=True)
        except RefusedError:
            return False
        return True

    def _admit(self, needed: Role, request: Request, *, by_cookie: bool) -> None:
        if not self.keys.are_needed and header(request, b"host").rsplit(":", 1)[0] not in LOCAL:
            raise RefusedError(403, "Without keys, this service answers to this machine alone.")
        bearer = given_key(request)
        looking = request.cookies.get(COOKIE) if by_cookie else None
        own = self.keys.record_of(bearer or looking)
        if own is None:
            raise RefusedError(
                401, NOT_KNOWN if bearer or looking else "This needs a key: Authorization: Bearer cb_..."
            )
        if not allows(own.role, needed):
            raise RefusedError(403, f"This needs a key with the role {needed}; yours has {own.role}.")
        if "study" in request.path_params and not own.opens(request.path_params["study"]):
            raise RefusedError(403, "Your key is for other studies.")
        request.state.key = own

    def open_to(self, request: Request) -> dict[str, Writer]:
        """The studies that a request's key opens, by their names."""
        return {name: own for name, own in sorted(self.writers.items()) if request.state.key.opens(name)}
