"""HTTP requests and responses: the context that handlers share, authorization, request bodies, and errors.

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
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from causalbandits.errors import CausalBanditsError, ConflictError, StorageError, StudyModeError, UnknownDecisionError
from causalbandits.service.auth import Keys, Role, allows
from causalbandits.service.schemas import ErrorResponse
from causalbandits.service.workers import BusyError, Writer

logger = logging.getLogger("causalbandits.service")


COOKIE = "causalbandits_key"
"""Where a browser keeps its key."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")

UNKNOWN_KEY_MESSAGE = "This key is not known here: it was mistyped, or revoked, or is for another service."


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

    def find_writer(self, request: Request) -> Writer:
        """The study that a request's path names."""
        name = request.path_params["study"]
        if name not in self.writers:
            raise RequestError(404, f"There is no study {name!r:.80} here.")
        return self.writers[name]

    def accessible_writers(self, request: Request) -> dict[str, Writer]:
        """The studies that a request's key opens, by name."""
        return {name: writer for name, writer in sorted(self.writers.items()) if request.state.key.opens(name)}

    def authorize(self, required_role: Role, request: Request, *, by_cookie: bool) -> None:
        """Refuse a request whose key does not have the role, or is for other studies; keep the key in its state."""
        if not self.keys.are_needed and header(request, b"host").rsplit(":", 1)[0] not in LOCAL_HOSTS:
            raise RequestError(403, "Without keys, this service answers to this machine alone.")
        bearer_key = _bearer_key(request)
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

    def is_still_authorized(self, request: Request) -> bool:
        """Whether the key of a request that was allowed to read still allows it."""
        try:
            self.authorize("reader", request, by_cookie=True)
        except RequestError:
            return False
        return True


def error_response(error: Exception) -> Response:
    """The response to a request that failed: the error's text and, for a client in Python, its class."""
    headers: dict[str, str] = {}
    if isinstance(error, RequestError):
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
    kind = error.kind if isinstance(error, RequestError) else type(error).__name__
    return json_response(ErrorResponse(str(error), kind), status, headers)


async def not_found_response(request: Request, error: Exception) -> Response:
    """The response where no route matches: 404, or 405 where one matches with another method."""
    if getattr(error, "status_code", 404) == 404:
        return json_response(ErrorResponse("There is nothing here; GET /openapi.json says what there is."), 404)
    matching_routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    allowed = ", ".join(sorted({method for route in matching_routes for method in route.methods}))
    return json_response(ErrorResponse(f"Not with this method; with {allowed}."), 405, {"Allow": allowed})


MAX_BODY_BYTES = 2**20
MAX_ITEMS, MAX_RECOMMENDED_CONTEXTS = 1000, 100
"""So many outcomes may be told at once, and decisions asked for; so many contexts have a recommendation."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A schema's struct, or a record, as JSON."""
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def header(request: Request, name: bytes) -> str:
    """The first one of a name (in small letters), or nothing."""
    for header_name, content in request.scope["headers"]:
        if header_name == name:
            return str(content, "latin-1")
    return ""


def _bearer_key(request: Request) -> str | None:
    """The key in a request's Authorization header."""
    scheme, _, credentials = header(request, b"authorization").partition(" ")
    return credentials if scheme.lower() == "bearer" else None


async def _read_body(request: Request) -> bytes:
    """All of it, or a refusal as soon as it is too long."""
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            raise RequestError(413, f"A body has {MAX_BODY_BYTES} bytes at most.")
    return body


DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What JSON that is none, or nested too deeply, ends in."""


async def decode_body(request: Request, schema: type) -> Any:
    """The body, read strictly."""
    if header(request, b"content-type").split(";")[0].strip() != "application/json":
        raise RequestError(415, "The body must be JSON: Content-Type: application/json.")
    try:
        return msgspec.json.decode(await _read_body(request), type=schema)
    except DECODE_ERRORS as error:
        raise RequestError(400, str(error)) from None


def parse_decision_id(request: Request) -> tuple[str, str | None]:
    """Which decision is meant, and by what: ?key= and ?number= are exact, and the path is whichever it is."""
    for by in ("key", "number"):
        if by in request.query_params:
            return request.query_params[by], by
    return request.path_params["decision"], None
