"""The ASGI application: it dispatches requests to the handlers of `ROUTES` and `PAGES`, and there are no others.

A request is authorized for the role that its route needs, its body is decoded by the route's schema, the handler is
called with it, and what that returns is encoded.
"""

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

from causalbandits.service.auth import AuthorizationError, Keys, authorize
from causalbandits.service.dashboard import is_own_form, static_file
from causalbandits.service.group_commit import Writer
from causalbandits.service.http import DECODE_ERRORS, RequestError, ServiceContext, error_response, not_found_response
from causalbandits.service.openapi import build_document
from causalbandits.service.routes import PAGES, ROUTES, STUDY_ROUTE, HTTPRoute, PageRoute
from causalbandits.study import Study

STUDY_PATH = re.compile(f"{STUDY_ROUTE.format(study='(?P<study>[^/]+)')}/(?P<word>[^/]+)")

MAX_BODY_BYTES = 2**20

Endpoint = Callable[[Request], Awaitable[Response]]


class Service:
    """An ASGI application that serves studies over HTTP."""

    def __init__(self, studies: Mapping[str, Study], keys: Keys, directory: Path | None = None) -> None:
        writers = {name: Writer(study) for name, study in studies.items()}
        self.context = ServiceContext(writers, keys, directory, build_document(ROUTES))
        endpoints = {(route.method, route.path): self._endpoint(route) for route in ROUTES}
        self._direct_endpoints = {
            (method, path.removeprefix(f"{STUDY_ROUTE}/")): endpoint
            for (method, path), endpoint in endpoints.items()
            if path.startswith(f"{STUDY_ROUTE}/")
        }
        """The endpoints of a study, by method and last segment of the path: called directly, because Starlette's router
        took a third of the time of a response."""
        self.app = Starlette(
            routes=[
                *(Route(path, endpoint, methods=[method]) for (method, path), endpoint in endpoints.items()),
                Route("/static/{file}", static_file),
                *(self._page_route(route) for route in PAGES),
            ],
            exception_handlers={404: not_found_response, 405: not_found_response},
        )
        self.app.router.redirect_slashes = False  # which fails where a query is not text

    def close(self) -> None:
        """Write what waits, then close every study."""
        self.context.closing.set()
        for writer in self.context.writers.values():
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
                content = await self._handle(route, request)
                if isinstance(content, Response):
                    return content
                return Response(msgspec.json.encode(content), route.status, media_type="application/json")
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                return error_response(error)

        return endpoint

    async def _handle(self, route: HTTPRoute, request: Request) -> Any:
        if route.role is not None:
            authorize(self.context.keys, route.role, request, by_cookie=request.method == "GET")
        target: Any = self._find_writer(request) if "study" in request.path_params else self.context
        schema = route.decoded_as or route.request_schema
        if schema is None:
            return await route.handler(target, request)
        return await route.handler(target, request, await _decode_body(request, schema))

    def _find_writer(self, request: Request) -> Writer:
        """The study that a request's path names."""
        name = request.path_params["study"]
        if name not in self.context.writers:
            raise RequestError(404, f"There is no study {name!r:.80} here.")
        return self.context.writers[name]

    def _page_route(self, page: PageRoute) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                if page.role is not None:
                    by_cookie = page.method == "GET" or is_own_form(request)
                    authorize(self.context.keys, page.role, request, by_cookie=by_cookie)
                if "study" in request.path_params:
                    self._find_writer(request)
                return await page.handler(self.context, request)
            except ClientDisconnect:
                return Response(status_code=400)
            except AuthorizationError as error:
                return RedirectResponse("/login", 303) if error.status == 401 else error_response(error)
            except Exception as error:
                return error_response(error)

        return Route(page.path, endpoint, methods=[page.method])


async def _decode_body(request: Request, schema: type) -> Any:
    """A request's body, decoded strictly."""
    content_type = dict(reversed(request.scope["headers"])).get(b"content-type", b"")
    if content_type.split(b";")[0].strip() != b"application/json":
        raise RequestError(415, "The body must be JSON: Content-Type: application/json.")
    try:
        return msgspec.json.decode(await _read_body(request), type=schema)
    except DECODE_ERRORS as error:
        raise RequestError(400, str(error)) from None


async def _read_body(request: Request) -> bytes:
    """The whole body, or an error as soon as it is too long."""
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            raise RequestError(413, f"A body has {MAX_BODY_BYTES} bytes at most.")
    return body
