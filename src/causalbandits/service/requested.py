"""What a request asks for: its key, its body, the decision that it means; and what is answered."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request

from causalbandits.service.refusals import RefusedError

LONGEST_BODY = 2**20
MOST_ITEMS, MOST_CONTEXTS = 1000, 100
"""So many outcomes may be told at once, and decisions asked for; so many contexts have a recommendation."""


class Answer(NamedTuple):
    """What is answered, and with which status; text, if it is no JSON, as it is."""

    content: Any
    status: int = 200


def header(request: Request, name: bytes) -> str:
    """The first one of a name (in small letters), or nothing."""
    for own, content in request.scope["headers"]:
        if own == name:
            return str(content, "latin-1")
    return ""


def given_key(request: Request) -> str | None:
    """The key that a request came with."""
    scheme, _, given = header(request, b"authorization").partition(" ")
    return given if scheme.lower() == "bearer" else None


async def _body(request: Request) -> bytes:
    """All of it, or a refusal as soon as it is too long."""
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > LONGEST_BODY:
            raise RefusedError(413, f"A body has {LONGEST_BODY} bytes at most.")
    return body


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What JSON that is none, or nested too deeply, ends in."""


async def decoded(request: Request, kind: type) -> Any:
    """The body, read strictly."""
    if header(request, b"content-type").split(";")[0].strip() != "application/json":
        raise RefusedError(415, "The body must be JSON: Content-Type: application/json.")
    try:
        return msgspec.json.decode(await _body(request), type=kind)
    except UNREADABLE as error:
        raise RefusedError(400, str(error)) from None


def named_decision(request: Request) -> tuple[str, str | None]:
    """Which decision is meant, and by what: ?key= and ?number= are exact, and the path is whichever it is."""
    for by in ("key", "number"):
        if by in request.query_params:
            return request.query_params[by], by
    return request.path_params["decision"], None
