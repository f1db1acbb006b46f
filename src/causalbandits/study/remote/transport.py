"""Requests to a service, with retries; uses only the standard library."""

from __future__ import annotations

import functools
import http.client
import io
import json
import random
import socket
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from causalbandits._typing import is_real
from causalbandits.errors import CausalBanditsError, StorageError, TellError, short_repr
from causalbandits.study.remote.wire import decode_problem

INITIAL_WAIT, MAX_WAIT = 0.1, 2.0
"""The first and the maximum wait between two attempts, in seconds, if the service is unreachable or busy.

The wait doubles up to the maximum. Each pause is drawn from the upper half, so that clients do not return all at once.
"""

RETRIED_STATUSES = (429, 502, 503, 504)
"""The HTTP statuses of a service that is busy or temporarily unavailable."""

CHUNK = 2**16
MAX_TIMEOUT = 86_400.0

Timeout = float | tuple[float, float]
"""The timeout in seconds of a whole call, or a pair for connecting and for the whole call."""


class Unavailable(NamedTuple):
    """A service that was unreachable or busy for the whole timeout; the error has the reason."""

    error: CausalBanditsError


class Response(NamedTuple):
    """A response of the service."""

    status: int
    content: Any
    retry_after: float | None
    """The number of seconds after which the service asks for a retry; None without a Retry-After header."""


class _DeadlineReader(io.RawIOBase):
    """The bytes that a socket receives until a deadline, regardless of the size of the pieces."""

    def __init__(self, received_from: socket.socket, file: Any, deadline: float) -> None:
        self._socket, self._file, self._deadline = received_from, file, deadline

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes, waiting at most until the deadline."""
        self._socket.settimeout(_remaining(self._deadline))
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        """Release the socket, which stays open as long as its file does."""
        self._file.close()
        super().close()


class _DeadlineResponse(http.client.HTTPResponse):
    """A response whose head and body must arrive before a deadline.

    The timeout of a socket alone would restart with every received byte.
    """

    def __init__(self, received_from: socket.socket, *args: Any, deadline: float, **options: Any) -> None:
        super().__init__(received_from, *args, **options)
        self.fp = io.BufferedReader(_DeadlineReader(received_from, self.fp, deadline))


class Transport:
    """The connections to one study, one for each thread."""

    def __init__(self, url: str, key: str | None = None, timeout: Timeout = 30.0) -> None:
        if key is not None and (not isinstance(key, str) or not key.isascii() or not key.isprintable()):
            raise CausalBanditsError(
                "key must be a text such as 'cb_...', as printed by causalbandits study keys make."
            )
        self._connect_timeout, self._timeout = _parse_timeout(timeout)
        parts = _parse_url(url)
        self._secure, self._host, self._port = parts.scheme == "https", str(parts.hostname), parts.port
        leading_path, _, name = parts.path.strip("/").rpartition("/")
        prefix = f"/{leading_path}" if leading_path else ""
        self._path, self._key = f"{prefix}/v1/studies/{quote(name)}", key
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._connections:
            self._connections.pop().close()

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """The response; raises an error if the service rejects the request or does not answer in time."""
        answer = self.send_if_available(method, path, body)
        if isinstance(answer, Unavailable):
            raise answer.error
        return answer

    def send_if_available(self, method: str, path: str, body: Any = None) -> Any:
        """The response, or `Unavailable` after the timeout; raises an error if the service rejects the request.

        A request is retried until the timeout rather than for a number of attempts, because a restarted service is back
        within seconds. If the service sends `Retry-After`, the retry waits at least that long, and is omitted if that
        exceeds the timeout.
        """
        content = None if body is None else _encode_body(body)
        wait, deadline = INITIAL_WAIT, time.monotonic() + self._timeout
        while True:
            retry_after = None
            try:
                response = self._exchange(method, self._path + path, content, deadline)
            except (OSError, http.client.HTTPException) as error:
                self._drop_connection()
                failure: CausalBanditsError = StorageError(f"The service at {self._host} cannot be reached: {error!r}.")
                failure.__cause__ = error
            else:
                if response.status < 300:
                    return response.content
                failure = decode_problem(response.status, response.content)
                if response.status not in RETRIED_STATUSES:
                    raise failure
                retry_after = response.retry_after
            pause = wait * random.uniform(0.5, 1.0) + (retry_after or 0.0)
            if time.monotonic() + pause >= deadline:
                return Unavailable(failure)
            time.sleep(pause)
            wait = min(MAX_WAIT, 2.0 * wait)

    def _drop_connection(self) -> None:
        """Close this thread's connection, which is no longer usable."""
        connection, self._local.connection = getattr(self._local, "connection", None), None
        if connection is not None:
            connection.close()
            self._connections.remove(connection)

    def _exchange(self, method: str, path: str, content: str | None, deadline: float) -> Response:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port)
            self._connections.append(connection)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        connection.timeout = min(self._connect_timeout, _remaining(deadline))
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(_remaining(deadline))
        connection.request(method, path, content, headers)
        connection.response_class = functools.partial(_DeadlineResponse, deadline=deadline)
        response = connection.getresponse()
        parts = []
        while part := response.read1(CHUNK):
            parts.append(part)
        if response.length:  # the connection ended early, which read1 does not report
            raise http.client.IncompleteRead(b"".join(parts), response.length)
        response.read()  # reads no more data, but completes the exchange, so that the connection can be reused
        retry_after = _parse_retry_after(response.headers.get("Retry-After"), time.time())
        try:
            return Response(response.status, json.loads(b"".join(parts)), retry_after)
        except ValueError:
            if response.status < 300:
                raise http.client.HTTPException(f"HTTP {response.status}: no JSON") from None
            return Response(response.status, {"detail": f"HTTP {response.status}: no JSON"}, retry_after)


def _parse_retry_after(header: str | None, now: float) -> float | None:
    """The seconds of `Retry-After`, or those until its date (RFC 9110); None if it has neither.

    >>> _parse_retry_after("3", 0.0), _parse_retry_after("Thu, 01 Jan 1970 00:00:07 GMT", 2.0)
    (3.0, 5.0)
    >>> _parse_retry_after("Thu, 01 Jan 1970 00:00:07 GMT", 9.0), _parse_retry_after("soon", 0.0)
    (0.0, None)
    """
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _remaining(deadline: float) -> float:
    """The remaining seconds; raises a TimeoutError if there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


def _parse_timeout(timeout: object) -> tuple[float, float]:
    """The timeouts in seconds for connecting and for the whole call, from one number or both."""
    pair = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    if len(pair) != 2 or not all(is_real(seconds) and 0 < seconds <= MAX_TIMEOUT for seconds in pair):
        raise CausalBanditsError(
            "timeout must be the number of seconds of a call including retries, or a pair of seconds for the "
            f"connection and for the whole call, above 0 and up to {MAX_TIMEOUT:g}; got {short_repr(timeout)}."
        )
    return float(pair[0]), float(pair[1])


def _parse_url(url: object) -> SplitResult:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts and parts.scheme in ("http", "https") and parts.hostname and parts.path.strip("/"):
            _ = parts.port  # may raise a ValueError
            return parts
    except ValueError:
        pass  # the error below is raised
    raise CausalBanditsError(
        f"The address of a study must have the form http://127.0.0.1:8000/campaign; got {short_repr(url)}."
    )


def _encode_body(body: Any) -> str:
    try:
        return json.dumps(body, default=_plain_value, allow_nan=False)
    except ValueError:
        raise TellError(
            "Values in a request must be finite numbers, texts, true or false. Nothing was changed."
        ) from None


def _plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
