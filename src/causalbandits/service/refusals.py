"""Refusals are answers, too.

400 what cannot be read, 401 no key or one that is not known, 403 a key that does not allow it, 404, 405 with the
methods that there are, 409 what contradicts what was told or asked before, or the study's mode, 413 too long, 415 no
JSON, 422 what was understood and cannot be, 429 too much waits, 503 the database did not do it.
"""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    StorageError,
    StudyModeError,
    UnknownDecisionError,
)
from causalbandits.service.reader import BusyError

logger = logging.getLogger("causalbandits.service")


class RefusedError(Exception):
    def __init__(self, status: int, why: str, kind: str | None = None) -> None:
        super().__init__(why)
        self.status, self.kind = status, kind


def refusal(error: Exception) -> Response:
    headers: dict[str, str] = {}
    if isinstance(error, RefusedError):
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
    kind = error.kind if isinstance(error, RefusedError) else type(error).__name__
    return JSONResponse({"error": str(error), **({} if kind is None else {"kind": kind})}, status, headers)


async def nothing(request: Request, error: Exception) -> Response:
    if getattr(error, "status_code", 404) == 404:
        return JSONResponse({"error": "There is nothing here; GET /openapi.json says what there is."}, 404)
    here = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    allowed = ", ".join(sorted({method for route in here for method in route.methods}))
    return JSONResponse({"error": f"Not with this method; with {allowed}."}, 405, {"Allow": allowed})
