"""What a request asks for: its key, its body, the decision that it means; and what is answered."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from causalbandits.errors import CausalBanditsError, ConflictError, StorageError, StudyModeError, UnknownDecisionError
from causalbandits.service.workers import BusyError

# Refusals are answers, too.
#
# 400 what cannot be read, 401 no key or one that is not known, 403 a key that does not allow it, 404, 405 with the
# methods that there are, 409 what contradicts what was told or asked before, or the study's mode, 413 too long, 415 no
# JSON, 422 what was understood and cannot be, 429 too much waits, 503 the database did not do it.

logger = logging.getLogger("causalbandits.service")


class RequestError(Exception):
    def __init__(self, status: int, why: str, kind: str | None = None) -> None:
        super().__init__(why)
        self.status, self.kind = status, kind


def error_response(error: Exception) -> Response:
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
        return JSONResponse({"error": "Something went wrong here; the log says what."}, 500)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    kind = error.kind if isinstance(error, RequestError) else type(error).__name__
    return JSONResponse({"error": str(error), **({} if kind is None else {"kind": kind})}, status, headers)


async def not_found_response(request: Request, error: Exception) -> Response:
    if getattr(error, "status_code", 404) == 404:
        return JSONResponse({"error": "There is nothing here; GET /openapi.json says what there is."}, 404)
    matching_routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    allowed = ", ".join(sorted({method for route in matching_routes for method in route.methods}))
    return JSONResponse({"error": f"Not with this method; with {allowed}."}, 405, {"Allow": allowed})


MAX_BODY_BYTES = 2**20
MAX_ITEMS, MAX_RECOMMENDED_CONTEXTS = 1000, 100
"""So many outcomes may be told at once, and decisions asked for; so many contexts have a recommendation."""


class Answer(NamedTuple):
    """What is answered, and with which status; text, if it is no JSON, as it is."""

    content: Any
    status: int = 200


def header(request: Request, name: bytes) -> str:
    """The first one of a name (in small letters), or nothing."""
    for header_name, content in request.scope["headers"]:
        if header_name == name:
            return str(content, "latin-1")
    return ""


def request_key(request: Request) -> str | None:
    """The key that a request came with."""
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
