"""HTTP for handlers: the shared context, pages of lists, and errors as problem details (RFC 9457)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from causalbandits.errors import CausalBanditsError, StorageError, UnknownDecisionError, unknown_name_message
from causalbandits.service.auth import AuthorizationError, Keys
from causalbandits.service.group_commit import BusyError, Writer
from causalbandits.service.problems import (
    PROBLEM_TYPES,
    RETRY_AFTER_SECONDS,
    FieldsError,
    RequestError,
    problem_of,
    request_terms,
)
from causalbandits.service.schemas import FieldError, ProblemDetails
from causalbandits.service.telemetry import RequestStatistics, logger
from causalbandits.study import Study

PROBLEM_MEDIA_TYPE = "application/problem+json"

ProblemRenderer = Callable[[ProblemDetails, Request, Mapping[str, str]], Response]
"""A function that renders problem details, for the failed request and with headers, as a response."""


READINESS_SECONDS = 0.5
"""The lifetime in seconds of a readiness probe: clients need no key for it, and each probe waits for the disk."""


class Readiness:
    """The latest readiness probe of all studies, shared by concurrent and recent requests."""

    def __init__(self) -> None:
        self._probe: asyncio.Task[list[str]] | None = None
        self._finished_at = -math.inf
        self.unavailable: list[str] = []
        """The studies that were not writable in the latest probe."""

    async def latest(self, probe: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
        """The result of the running or most recent probe; an outdated one is replaced by a new probe."""
        is_over = self._probe is None or self._probe.done()
        if self._probe is None or (is_over and time.monotonic() - self._finished_at >= READINESS_SECONDS):
            self._probe = asyncio.ensure_future(self._run(probe))
        return await asyncio.shield(self._probe)  # a client that disconnects does not cancel it for the others

    async def _run(self, probe: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
        try:
            return await probe()
        finally:
            self._finished_at = time.monotonic()


@dataclass(frozen=True)
class ServiceContext:
    """The shared objects of the handlers of a service: its studies, its keys, and its OpenAPI document."""

    writers: dict[str, Writer]
    """The served studies by name; studies created over HTTP are added."""
    keys: Keys
    directory: Path | None
    """The directory for studies created over HTTP; None if none can be created."""
    unavailable: Mapping[str, str]
    """The studies of the directory whose files could not be opened, with the reasons."""
    openapi: bytes
    """The OpenAPI document, encoded once: it is the same for all clients, and building it takes milliseconds."""
    requests: RequestStatistics = field(default_factory=RequestStatistics)
    readiness: Readiness = field(default_factory=Readiness)
    draining: threading.Event = field(default_factory=threading.Event)
    """Set when the service begins to stop: it still answers requests, but is not ready."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set when no more requests are accepted, so that streams of open pages end."""

    def accessible_writers(self, request: Request) -> dict[str, Writer]:
        """The studies that a request's key gives access to, by name."""
        return {name: writer for name, writer in sorted(self.writers.items()) if request.state.key.opens(name)}


def error_response(error: Exception, request: Request, render: ProblemRenderer | None = None) -> Response:
    """The response to a failed request: problem details, or the output of another renderer."""
    if isinstance(error, AuthorizationError):
        error = RequestError(error.kind, str(error))
    elif isinstance(error, BusyError):
        error = RequestError("busy", str(error))
    problem = problem_of(error)
    if problem is None:
        own_id = getattr(request.state, "request_id", None)
        logger.error(
            "A request failed: %r", error, exc_info=error, extra={"fields": {"event": "error", "request_id": own_id}}
        )
        kind = PROBLEM_TYPES["internal-error"]
        problem = ProblemDetails(
            kind.uri,
            kind.title,
            500,
            ("An internal error occurred. The service's log has the details."),
            request_id=own_id,
        )
    headers = {"Retry-After": str(seconds)} if (seconds := RETRY_AFTER_SECONDS.get(problem.status)) else {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    request.state.problem = problem.type
    return (render or _problem_response)(problem, request, headers)


def _problem_response(problem: ProblemDetails, request: Request, headers: Mapping[str, str]) -> Response:
    return Response(msgspec.json.encode(problem), problem.status, headers, PROBLEM_MEDIA_TYPE)


def not_found_response(request: Request, error: Exception, render: ProblemRenderer | None = None) -> Response:
    """The response if no route matches: 404, or 405 if a route matches with another method."""
    if getattr(error, "status_code", 404) == 404:
        missing = RequestError("not-found", "No route has this path; /openapi.json lists them.")
        return error_response(missing, request, render)
    matching_routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    allowed = ", ".join(sorted({method for route in matching_routes for method in route.methods}))
    response = error_response(
        RequestError("method-not-allowed", f"{request.method:.20} is not allowed here; allowed: {allowed}."),
        request,
        render,
    )
    response.headers["Allow"] = allowed
    return response


MAX_ITEMS, MAX_RECOMMENDED_CONTEXTS = 1000, 100
"""The maximum number of outcomes or decisions of a request, and of contexts with a recommendation in a response."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A schema's struct, or a record, as JSON."""
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def find_decision(study: Study, request: Request) -> Any:
    """The requested decision: ?key= and ?number= are exact, while the path may hold either."""
    by = next((name for name in ("key", "number") if name in request.query_params), None)
    text = request.path_params["decision"] if by is None else request.query_params[by]
    try:
        id = study.id_of(text, by)
        if isinstance(id, str):
            study.status(id)  # raises if the text cannot be a key
        return id
    except (StorageError, UnknownDecisionError):
        raise
    except CausalBanditsError as error:
        advice = "" if by else " Use the query parameter key or number."
        detail = f"{request_terms(str(error))}{advice}"
        raise FieldsError(CausalBanditsError(detail), [FieldError(None, detail, by or "decision")]) from None


# Lists are paged: at most `limit` items after `cursor`, with the address of the next page in `next`.

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
PAGE_PARAMETERS = ("limit", "cursor")


def refuse_unknown_parameters(request: Request, known: Sequence[str]) -> None:
    """Refuse a query with a parameter that the route does not have; otherwise a typing error would be ignored."""
    for name in request.query_params:
        if name not in known:
            detail = request_terms(unknown_name_message("query parameter", name, known))
            raise RequestError("invalid-value", detail, [FieldError(None, detail, name)])


def page_limit(request: Request) -> int:
    """The maximum number of items that a request wants."""
    text = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise _parameter_error("limit", f"must be a whole number from 1 to {MAX_LIMIT}; got {text!r:.40}.")
    return int(text)


def number_cursor(request: Request) -> int:
    """The cursor of a list of numbered items: the number of the previous page's last item."""
    text = request.query_params.get("cursor", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _parameter_error(
            "cursor", (f"must be the number of an item, or the value of next of the previous page; got {text!r:.40}.")
        )
    return int(text)


def page(request: Request, items: Sequence[Any], limit: int, cursor_of: Callable[[Any], object]) -> dict[str, Any]:
    """A page of at most `limit` items; one more item was queried, to find out whether there is a next page."""
    shown = list(items[:limit])
    query = urlencode({"limit": limit, "cursor": str(cursor_of(shown[-1]))}) if len(items) > limit else None
    return {"items": shown, "next": None if query is None else f"?{query}"}


def text_cursor(request: Request) -> str:
    """The cursor of a list sorted by a text: the text of the previous page's last item, "" for the first page."""
    text = request.query_params.get("cursor", "")
    try:
        return base64.b64decode(text.encode(), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError, ValueError):
        raise _parameter_error("cursor", f"must be the value of next of the previous page; got {text!r:.40}.") from None


def encode_cursor(text: str) -> str:
    """A text as a cursor."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def page_after(request: Request, items: Sequence[Any], key_of: Callable[[Any], str]) -> dict[str, Any]:
    """A page of items sorted by a text, which the cursor holds; concurrent changes neither lose nor repeat items."""
    limit, after = page_limit(request), text_cursor(request)
    remaining = [item for item in items if key_of(item) > after] if after else list(items)
    return page(request, remaining, limit, lambda item: encode_cursor(key_of(item)))


def _parameter_error(name: str, detail: str) -> RequestError:
    return RequestError("invalid-value", f"{name} {detail}", [FieldError(None, detail, name)])
