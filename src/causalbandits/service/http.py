"""HTTP for handlers: the context that they share, and errors as responses.

Status codes of errors: 400 for what cannot be decoded, 401 without a known key, 403 where the key does not allow it,
404, 405 with the methods that are allowed, 409 for what contradicts an earlier request or the study's mode, 413 for too
much, 415 for a body that is not JSON, 422 for what was decoded and is invalid, 429 for a full queue, 503 where the
database failed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from causalbandits.errors import CausalBanditsError, ConflictError, StorageError, StudyModeError, UnknownDecisionError
from causalbandits.service.auth import AuthorizationError, Keys
from causalbandits.service.group_commit import BusyError, Writer
from causalbandits.service.schemas import ErrorResponse

logger = logging.getLogger("causalbandits.service")


class RequestError(Exception):
    """A request that is refused, with its status code."""

    def __init__(self, status: int, why: str, kind: str | None = None) -> None:
        super().__init__(why)
        self.status, self.kind = status, kind


@dataclass(frozen=True)
class ServiceContext:
    """What the handlers of a service share: its studies, its keys, and the description of its interface."""

    writers: dict[str, Writer]
    """The studies that are served, by name; a study that is created over HTTP is added."""
    keys: Keys
    directory: Path | None
    """Where studies that are created over HTTP are stored; None: none can be created."""
    openapi: Mapping[str, Any]
    """The OpenAPI document."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set when the service is to stop, so that pages which stay connected end."""

    def accessible_writers(self, request: Request) -> dict[str, Writer]:
        """The studies that a request's key opens, by name."""
        return {name: writer for name, writer in sorted(self.writers.items()) if request.state.key.opens(name)}


def error_response(error: Exception) -> Response:
    """The response to a request that failed: the error's text and, for a client in Python, its class."""
    headers: dict[str, str] = {}
    if isinstance(error, RequestError | AuthorizationError):
        status = error.status
    elif isinstance(error, UnknownDecisionError):
        status = 404
    elif isinstance(error, ConflictError | StudyModeError):
        status = 409
    elif isinstance(error, BusyError):
        status, headers = 429, {"Retry-After": "1"}
    elif isinstance(error, StorageError):
        status, headers = 503, {"Retry-After": "1"}
    elif isinstance(error, CausalBanditsError):
        status = 422
    else:
        logger.exception("A request failed", exc_info=error)
        return json_response(ErrorResponse("Something went wrong here; the log says what."), 500)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    kind = error.kind if isinstance(error, RequestError | AuthorizationError) else type(error).__name__
    return json_response(ErrorResponse(str(error), kind), status, headers)


async def not_found_response(request: Request, error: Exception) -> Response:
    """The response where no route matches: 404, or 405 where one matches with another method."""
    if getattr(error, "status_code", 404) == 404:
        return json_response(ErrorResponse("There is nothing here; GET /openapi.json says what there is."), 404)
    matching_routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    allowed = ", ".join(sorted({method for route in matching_routes for method in route.methods}))
    return json_response(ErrorResponse(f"Not with this method; with {allowed}."), 405, {"Allow": allowed})


MAX_ITEMS, MAX_RECOMMENDED_CONTEXTS = 1000, 100
"""The most outcomes or decisions of one request, and the most contexts with a recommendation in one response."""

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised by a body that is not JSON, or not of its schema, or nested too deeply."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A schema's struct, or a record, as JSON."""
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def parse_decision_id(request: Request) -> tuple[str, str | None]:
    """Which decision is meant, and by what: ?key= and ?number= are exact, and the path is whichever it is."""
    for by in ("key", "number"):
        if by in request.query_params:
            return request.query_params[by], by
    return request.path_params["decision"], None
