"""Requests to a service, sent again where that helps. Needs nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from causalbandits import errors
from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    StorageError,
    TellError,
    UnknownDecisionError,
    short_repr,
)

MAX_TRIES, INITIAL_WAIT = 6, 0.1
"""A request is sent so often, at intervals that double, if the service cannot be reached or is busy."""

ERRORS_BY_STATUS = {404: UnknownDecisionError, 409: ConflictError, 422: TellError}
"""Where the service does not say which kind of error it is."""


class Transport:
    """The connections to one study, one for each thread."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        if key is not None and (not isinstance(key, str) or not key.isascii() or not key.isprintable()):
            raise CausalBanditsError("A key is text such as 'cb_...', as causalbandits study keys make shows it.")
        parts = _parse_url(url)
        self._secure, self._host, self._port = parts.scheme == "https", str(parts.hostname), parts.port
        leading_path, _, name = parts.path.strip("/").rpartition("/")
        prefix = f"/{leading_path}" if leading_path else ""
        self._path, self._key, self._timeout = f"{prefix}/v1/studies/{quote(name)}", key, timeout
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Close the connections, of all threads."""
        while self._connections:
            self._connections.pop().close()

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """What is answered, sooner or later; what is refused there is raised here."""
        content = None if body is None else _encode_body(body)
        wait = INITIAL_WAIT
        for last in [False] * (MAX_TRIES - 1) + [True]:
            try:
                status, answer = self._exchange(method, self._path + path, content)
            except (OSError, http.client.HTTPException) as error:
                self._drop_connection()
                if last:
                    raise StorageError(f"{self._host} cannot be reached: {error!r}.") from error
            else:
                if status < 300:
                    return answer
                if last or status not in (429, 502, 503, 504):
                    raise _decode_error(status, answer)
            time.sleep(wait)
            wait *= 2
        raise AssertionError  # the last try ends above

    def _drop_connection(self) -> None:
        """This thread's connection is of no more use."""
        connection, self._local.connection = getattr(self._local, "connection", None), None
        if connection is not None:
            connection.close()
            self._connections.remove(connection)

    def _exchange(self, method: str, path: str, content: str | None) -> tuple[int, Any]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port, timeout=self._timeout)
            self._connections.append(connection)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        text = response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, {"error": f"HTTP {response.status}: no JSON"}


def _decode_error(status: int, answer: Any) -> CausalBanditsError:
    """What was refused there is refused here, by the same kind of error."""
    content = answer if isinstance(answer, dict) else {}
    stated_kind = getattr(errors, str(content.get("kind")), None)
    kind: type[CausalBanditsError] = ERRORS_BY_STATUS.get(status, CausalBanditsError)
    if isinstance(stated_kind, type) and issubclass(stated_kind, CausalBanditsError):
        kind = stated_kind
    return kind(str(content.get("error", f"HTTP {status}")))


def _parse_url(url: object) -> SplitResult:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts and parts.scheme in ("http", "https") and parts.hostname and parts.path.strip("/"):
            _ = parts.port  # which may be none
            return parts
    except ValueError:
        pass  # refused below
    raise CausalBanditsError(f"A study's address is like http://127.0.0.1:8000/campaign; got {short_repr(url)}.")


def _encode_body(body: Any) -> str:
    try:
        return json.dumps(body, default=_plain_value, allow_nan=False)
    except ValueError:
        raise TellError("What is sent must be finite numbers, text, true and false. Nothing was changed.") from None


def _plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
