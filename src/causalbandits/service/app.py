"""The ASGI application: it dispatches requests to the handlers of `ROUTES` and `PAGES`; there are no other endpoints.

A request is authorized for the role that its route needs, its body is decoded by the route's schema, the handler is
called, and its result is encoded.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from causalbandits._files import has_duplicate_keys
from causalbandits.service.auth import (
    AuthorizationError,
    Keys,
    RateLimit,
    Role,
    authorize,
    client_address,
    is_same_origin,
    refuse_cross_site,
)
from causalbandits.service.dashboard import error_page, static_file
from causalbandits.service.group_commit import Writer
from causalbandits.service.http import ServiceContext, error_response, not_found_response, refuse_unknown_parameters
from causalbandits.service.openapi import build_document
from causalbandits.service.problems import RequestError
from causalbandits.service.request_errors import DECODE_ERRORS, decode_error, duplicate_key_errors, pointer, summary_of
from causalbandits.service.routes import PAGES, ROUTES, STUDY_ROUTE, HTTPRoute, PageRoute
from causalbandits.service.schemas import RawTellRequest
from causalbandits.service.telemetry import request_id
from causalbandits.study import Study

STUDY_PATH = re.compile(f"{STUDY_ROUTE.format(study='(?P<study>[^/]+)')}/(?P<word>[^/]+)")

MAX_BODY_BYTES, MAX_FORM_BYTES = 2**20, 10_000

REFUSAL_DELAY = 1.0
"""Delay in seconds of the refusal of an address that sends too many requests without a key; its connection stays
occupied."""

HEALTH_ROUTES = ("/livez", "/readyz")
"""Health checks are exempt from the rate limit of requests without a key."""

Endpoint = Callable[[Request], Awaitable[Response]]


class Service:
    """An ASGI application that serves studies over HTTP."""

    def __init__(
        self,
        studies: Mapping[str, Study],
        keys: Keys,
        directory: Path | None = None,
        unavailable: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        writers = {name: Writer(study, name=name) for name, study in studies.items()}
        self.context = ServiceContext(
            writers, keys, directory, unavailable, msgspec.json.encode(build_document(ROUTES))
        )
        self.anonymous_rates = RateLimit()
        """The rate limit of requests without a known key, by address."""
        endpoints = {(route.method, route.path): self._endpoint(route) for route in ROUTES}
        self._direct_endpoints = {
            (method, path.removeprefix(f"{STUDY_ROUTE}/")): endpoint
            for (method, path), endpoint in endpoints.items()
            if path.startswith(f"{STUDY_ROUTE}/")
        }
        """The endpoints of a study, by method and last segment of the path. They are called directly, because
        Starlette's router took a third of the response time."""
        self.app = Starlette(
            routes=[
                *(Route(path, endpoint, methods=[method]) for (method, path), endpoint in endpoints.items()),
                Route("/static/{file}", static_file),
                *(self._page_route(route) for route in PAGES),
            ],
            exception_handlers={404: _not_found, 405: _not_found},
        )
        self.app.router.redirect_slashes = False  # redirects fail if a query is not text

    def close(self) -> None:
        """Write queued requests, then close every study."""
        self.context.closing.set()
        with ExitStack() as stack:  # a failure to close one study does not prevent closing the others
            for writer in self.context.writers.values():
                stack.callback(writer.close)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond to a request, with its id in a header; count and log it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, own_id = time.perf_counter(), 500, request_id(scope["headers"])
        scope.setdefault("state", {})["request_id"] = own_id

        async def send_with_id(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", own_id.encode())]
            await send(message)

        try:
            await self._dispatch(scope, receive, send_with_id)
        finally:
            self.context.requests.record(scope, status, started)

    async def _dispatch(self, scope: Any, receive: Any, send: Any) -> None:
        if path_match := STUDY_PATH.fullmatch(scope["path"]):
            endpoint = self._direct_endpoints.get((scope["method"], path_match["word"]))
            if endpoint is not None:
                scope["path_params"] = {"study": path_match["study"]}
                response = await endpoint(Request(scope, receive))
                return await response(scope, receive, send)
        await self.app(scope, receive, send)

    def _endpoint(self, route: HTTPRoute) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            request.state.route = route.path
            if route.change is not None:
                request.state.change = route.change
            try:
                content = await self._handle(route, request)
                if isinstance(content, Response):
                    return content
                return Response(msgspec.json.encode(content), route.status, media_type="application/json")
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                return error_response(error, request)

        return endpoint

    async def _handle(self, route: HTTPRoute, request: Request) -> Any:
        refuse_cross_site(request)
        if route.role is not None:
            await self._authorize(route.role, request, by_cookie=request.method == "GET")
        elif route.path not in HEALTH_ROUTES:
            await self._limit_anonymous(request)
        if route.role is not None and request.scope["query_string"]:
            refuse_unknown_parameters(request, route.query_parameters)
        target: Any = self._find_writer(request) if "study" in request.path_params else self.context
        schema = route.decoded_as or route.request_schema
        if schema is None:
            return await route.handler(target, request)
        return await route.handler(target, request, await _decode_body(request, schema))

    async def _authorize(self, role: Role, request: Request, *, by_cookie: bool) -> None:
        try:
            authorize(self.context.keys, role, request, by_cookie=by_cookie)
        except AuthorizationError as error:
            if error.kind == "authentication-required":
                await self._limit_anonymous(request)
            raise

    async def _limit_anonymous(self, request: Request) -> None:
        """Raise an error if an address sends too many requests without a key; the error is raised after a delay."""
        keys = self.context.keys
        if not keys.are_needed or self.anonymous_rates.allows(client_address(request), time.monotonic()):
            return
        await asyncio.sleep(REFUSAL_DELAY)
        raise AuthorizationError(
            "too-many-requests",
            ("This address sends too many requests without a key. Send a key, or try again in a second."),
        )

    def _find_writer(self, request: Request) -> Writer:
        """The study that a request's path names."""
        name = request.path_params["study"]
        if name in self.context.unavailable:
            detail = (
                f"The file of study {name!r:.80} could not be opened when the service was started. The service's log "
                "has the reason."
            )
            raise RequestError("storage-unavailable", detail)
        if name not in self.context.writers:
            raise RequestError(
                "unknown-study",
                (f"The service has no study {name!r:.80}. GET /v1/studies lists the studies that your key may access."),
            )
        return self.context.writers[name]

    def _page_route(self, page: PageRoute) -> Route:
        async def endpoint(request: Request) -> Response:
            request.state.route = page.path
            if page.change is not None:
                request.state.change = page.change
            try:
                refuse_cross_site(request)
                if page.role is None:
                    await self._limit_anonymous(request)
                else:
                    by_cookie = page.method == "GET" or is_same_origin(request) is True
                    await self._authorize(page.role, request, by_cookie=by_cookie)
                if "study" in request.path_params:
                    self._find_writer(request)
                if page.method == "GET":
                    return await page.handler(self.context, request)
                return await page.handler(self.context, request, await _decode_form(request))
            except ClientDisconnect:
                return Response(status_code=400)
            except AuthorizationError as error:
                if error.kind == "authentication-required":
                    return RedirectResponse("/login", 303)
                return error_response(error, request, error_page)
            except Exception as error:
                return error_response(error, request, error_page)

        return Route(page.path, endpoint, methods=[page.method])


async def _not_found(request: Request, error: Exception) -> Response:
    """The response if no route matches: a page for browsers, except for paths of the API."""
    is_for_reader = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    return not_found_response(request, error, error_page if is_for_reader else None)


async def _decode_body(request: Request, schema: type) -> Any:
    """A request's body, decoded strictly; if all fields are optional, an empty body is an empty object."""
    body = await _read_body(request, MAX_BODY_BYTES)
    if not body:
        with suppress(msgspec.ValidationError):
            return msgspec.convert({}, schema)
    content_type = dict(reversed(request.scope["headers"])).get(b"content-type", b"")
    if content_type.split(b";")[0].strip() != b"application/json":
        raise RequestError(
            "unsupported-media-type", ("The body must be JSON. Send the header Content-Type: application/json.")
        )
    try:
        content: Any = msgspec.json.decode(body, type=schema)
    except DECODE_ERRORS as error:
        raise decode_error(body, schema, error) from None
    if has_duplicate_keys(body):
        errors = duplicate_key_errors(body)
        if schema is RawTellRequest:  # its items are refused individually
            errors = [error for error in errors if error.field == pointer("items")]
        if errors:
            raise RequestError("invalid-value", summary_of(errors), errors)
    return content


async def _decode_form(request: Request) -> dict[str, str]:
    """The fields of a form; if a name occurs more than once, the first value."""
    body = (await _read_body(request, MAX_FORM_BYTES)).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(body).items()}


async def _read_body(request: Request, limit: int) -> bytes:
    """The whole body; an error is raised as soon as it exceeds the size limit."""
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > limit:
            raise RequestError(
                "too-large", (f"The limit of the body of this request is {limit} bytes. Send several smaller requests.")
            )
    return body
