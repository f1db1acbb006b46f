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
    is_own_form,
    list_studies,
    log_in,
    set_mode,
    show_decision,
    show_login,
    show_study,
    static_file,
    stream_changes,
    what_if,
)
from causalbandits.service.http import Answer, RequestError, error_response, header, not_found_response, request_key
from causalbandits.service.routes import ROUTES, STUDY_ROUTE, HTTPRoute
from causalbandits.service.workers import Writer
from causalbandits.study import Study

PROMETHEUS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")

UNKNOWN_KEY_MESSAGE = "This key is not known here: it was mistyped, or revoked, or is for another service."

STUDY_PATH = re.compile(f"{STUDY_ROUTE.format(study='(?P<study>[^/]+)')}/(?P<word>[^/]+)")

Endpoint = Callable[[Request], Awaitable[Response]]
PageHandler = Callable[["Service", Request], Awaitable[Response]]

PAGES: tuple[tuple[str, str, Role | None, PageHandler], ...] = (
    ("GET", "/", "reader", list_studies),
    ("GET", "/login", None, show_login),
    ("POST", "/login", None, log_in),
    ("GET", "/{study}", "reader", show_study),
    ("GET", "/{study}/decision", "reader", show_decision),
    ("GET", "/{study}/what-if", "reader", what_if),
    ("POST", "/{study}/mode", "admin", set_mode),
    ("GET", "/{study}/live", "reader", stream_changes),
)
"""What people look at, likewise with the role that it needs."""


class Service:
    """Some studies over HTTP: an ASGI application."""

    def __init__(self, studies: Mapping[str, Study], keys: Keys, directory: Path | None = None) -> None:
        self.keys, self.directory = keys, directory
        self.writers = {name: Writer(study) for name, study in studies.items()}
        self.is_closing = False
        endpoints = {(route.method, route.path): self._endpoint(route) for route in ROUTES}
        self._direct_endpoints = {
            (method, path.removeprefix(f"{STUDY_ROUTE}/")): endpoint
            for (method, path), endpoint in endpoints.items()
            if path.startswith(f"{STUDY_ROUTE}/")
        }
        """What is asked of a study as a whole, by method and last word; without a framework's detours, which took a
        third of the time of an answer."""
        self.app = Starlette(
            routes=[
                *(Route(path, endpoint, methods=[method]) for (method, path), endpoint in endpoints.items()),
                Route("/static/{file}", static_file),
                *(self._page_route(*route) for route in PAGES),
            ],
            exception_handlers={404: not_found_response, 405: not_found_response},
        )
        self.app.router.redirect_slashes = False  # which fails where a query is no text

    def close(self) -> None:
        """Finish what waits."""
        self.is_closing = True
        for writer in self.writers.values():
            writer.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (path_match := STUDY_PATH.fullmatch(scope["path"])):
            endpoint = self._direct_endpoints.get((scope["method"], path_match["word"]))
            if endpoint is not None:
                scope["path_params"] = {"study": path_match["study"]}
                response = await endpoint(Request(scope, receive))
                return await response(scope, receive, send)
        await self.app(scope, receive, send)

    def _endpoint(self, route: HTTPRoute) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                answer = await self._handle(route, request)
                if isinstance(answer.content, str):
                    return Response(answer.content, answer.status, media_type=PROMETHEUS_MEDIA_TYPE)
                return Response(msgspec.json.encode(answer.content), answer.status, media_type="application/json")
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                return error_response(error)

        return endpoint

    def _page_route(self, method: str, path: str, role: Role | None, handler: PageHandler) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                if role is not None:
                    self._authorize(role, request, by_cookie=method == "GET" or is_own_form(request))
                self._find_writer(request)
                return await handler(self, request)
            except ClientDisconnect:
                return Response(status_code=400)
            except RequestError as error:
                if error.status == 401:
                    return RedirectResponse("/login", 303)
                return error_response(error)
            except Exception as error:
                return error_response(error)

        return Route(path, endpoint, methods=[method])

    def _find_writer(self, request: Request) -> Writer | None:
        """The study that a path names."""
        name = request.path_params.get("study")
        if name is not None and name not in self.writers:
            raise RequestError(404, f"There is no study {name!r:.80} here.")
        return None if name is None else self.writers[name]

    async def _handle(self, route: HTTPRoute, request: Request) -> Answer:
        if route.role is not None:
            self._authorize(route.role, request, by_cookie=request.method == "GET")
        return await route.handler(self, self._find_writer(request), request)  # type: ignore[arg-type]

    def is_still_authorized(self, request: Request) -> bool:
        """Whether one who was let in to look would be let in again."""
        try:
            self._authorize("reader", request, by_cookie=True)
        except RequestError:
            return False
        return True

    def _authorize(self, required_role: Role, request: Request, *, by_cookie: bool) -> None:
        if not self.keys.are_needed and header(request, b"host").rsplit(":", 1)[0] not in LOCAL_HOSTS:
            raise RequestError(403, "Without keys, this service answers to this machine alone.")
        bearer_key = request_key(request)
        cookie_key = request.cookies.get(COOKIE) if by_cookie else None
        key_record = self.keys.record_of(bearer_key or cookie_key)
        if key_record is None:
            raise RequestError(
                401,
                UNKNOWN_KEY_MESSAGE if bearer_key or cookie_key else "This needs a key: Authorization: Bearer cb_...",
            )
        if not allows(key_record.role, required_role):
            raise RequestError(403, f"This needs a key with the role {required_role}; yours has {key_record.role}.")
        if "study" in request.path_params and not key_record.opens(request.path_params["study"]):
            raise RequestError(403, "Your key is for other studies.")
        request.state.key = key_record

    def accessible_writers(self, request: Request) -> dict[str, Writer]:
        """The studies that a request's key opens, by their names."""
        return {name: writer for name, writer in sorted(self.writers.items()) if request.state.key.opens(name)}
