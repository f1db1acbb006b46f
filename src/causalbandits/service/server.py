"""The server: builds a service from files, and runs it in uvicorn with time limits on slow clients.

Uvicorn waits without limit for a client that has begun to send. Here, a request's head and its body each have
`REQUEST_TIMEOUT`; connections are checked once a second, so that a request costs no more.

Requests are parsed by httptools where it is installed, else by h11, in pure Python, at four times the cost. h11 gives
up on a head that does not end; httptools would read on without limit, and is stopped here. Either would drop a request
whose client closes its side for writing: here the request is answered, then the connection is closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from asyncio import Protocol
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import uvicorn

from causalbandits._files import parse_path
from causalbandits.errors import StateError
from causalbandits.service.app import Service
from causalbandits.service.auth import Keys
from causalbandits.service.commands import validate_study_name
from causalbandits.service.dashboard import warm_up
from causalbandits.study import Study
from causalbandits.study.storage import default_keys_path, location_name

REQUEST_TIMEOUT = 30.0
"""Seconds that the head of a request may take to arrive, and then its body."""

SHUTDOWN_GRACE_PERIOD = 3.0
"""Seconds, when the service is to stop, for requests to arrive that have begun, and for responses to be read."""


class BoundedServer(uvicorn.Server):
    """A server on which half a request neither holds a connection nor keeps the service from stopping."""

    def __init__(self, config: uvicorn.Config, service: Service, request_timeout: float = REQUEST_TIMEOUT) -> None:
        super().__init__(config)
        self._service, self._request_timeout = service, request_timeout
        self._awaited_requests: dict[Any, tuple[tuple[Any, bool], float]] = {}
        """Connections whose client is to send: of which request, or after it, and since when."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Open pages hold a connection each: let them end."""
        self._service.context.closing.set()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._abort_slow_connections()
        return await super().on_tick(counter)

    def _connections(self) -> list[Any]:
        return list(self.server_state.connections)

    def _abort_slow_connections(self) -> None:
        now, previous = time.monotonic(), self._awaited_requests
        self._awaited_requests = {}
        for connection in self._connections():
            if connection.transport.get_write_buffer_size() or not _awaits_client(connection):
                continue  # a response may take long to compute, and to read
            request = connection.cycle, connection.cycle is None or connection.cycle.response_complete
            previous_request, since = previous.get(connection, ((None, False), now))
            since = since if previous_request == request else now
            self._awaited_requests[connection] = (request, since)
            if now - since >= self._request_timeout:
                connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        abort_task = asyncio.ensure_future(self._abort_waiting_connections())
        try:
            await super().shutdown(sockets)
        finally:
            abort_task.cancel()

    async def _abort_waiting_connections(self) -> None:
        await asyncio.sleep(SHUTDOWN_GRACE_PERIOD)
        while True:
            for connection in self._connections():
                if _awaits_client(connection) or connection.flow.write_paused:
                    connection.transport.abort()
            await asyncio.sleep(0.1)


def _awaits_client(connection: Any) -> bool:
    """Whether it is the client's turn to send: a head, or the rest of a body."""
    cycle = connection.cycle
    return cycle is None or bool(cycle.response_complete or cycle.more_body)


MAX_HEAD_BYTES = 2**16
"""Bytes, as h11 has it; some more where they come together with others."""

HEAD_TOO_LONG_MESSAGE = f"The head of a request has {MAX_HEAD_BYTES} bytes at most."


def http_protocol() -> type[Protocol]:
    """The protocol by which uvicorn parses requests."""
    try:
        return httptools_protocol()
    except ImportError:
        return h11_protocol()


class _AnswersAfterEOF:
    """A client that closes its side for writing still gets the response to a whole request."""

    cycle: Any

    def eof_received(self) -> bool:
        """Whether the connection stays open, for one response."""
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.response_complete:
            return False
        cycle.keep_alive = False
        return True


def h11_protocol() -> type[Protocol]:
    """The parser in pure Python."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LenientH11Protocol(_AnswersAfterEOF, H11Protocol):  # type: ignore[misc]
        """Invalid bytes after a request that was answered already get no second response."""

        def send_400_response(self, msg: str) -> None:
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.close()

    return LenientH11Protocol


def httptools_protocol() -> type[Protocol]:
    """The compiled parser."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttpToolsProtocol(_AnswersAfterEOF, HttpToolsProtocol):  # type: ignore[misc]
        """A head has a maximal length: bytes are counted until a body or the end of a request."""

        unread = 0

        def data_received(self, data: bytes) -> None:
            self.unread += len(data)
            super().data_received(data)
            if self.unread > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(HEAD_TOO_LONG_MESSAGE)

        def on_message_begin(self) -> None:
            self.unread = 0
            super().on_message_begin()

        def on_body(self, body: bytes) -> None:
            self.unread = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self.unread = 0
            super().on_message_complete()

    return BoundedHttpToolsProtocol


LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


def build_service(
    files: Iterable[str | os.PathLike[str]],
    keys: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Service:
    """A service of the studies in some files (or databases), each by its name, and of those in a directory."""
    folder = None if directory is None else parse_path(directory, "studies")
    if folder is not None and not folder.is_dir():
        raise StateError(f"{folder} is no directory. Make it first: studies that are made over HTTP are put there.")
    locations: list[str | os.PathLike[str]] = [*files, *([] if folder is None else sorted(folder.glob("*.db")))]
    names = [location_name(location) for location in locations]
    if (not locations and folder is None) or len(set(names)) < len(names):
        raise StateError(f"Name one study or several, whose files have different names; got {names}.")
    for name in names:
        validate_study_name(name)
    default_keys = default_keys_path(locations[0]) if folder is None else folder / "keys.json"
    service_keys = Keys(parse_path(keys, "keys.json") if keys is not None else default_keys)
    _require_key(service_keys, is_named=keys is not None)
    return Service(
        {name: Study.open(location) for name, location in zip(names, locations, strict=True)}, service_keys, folder
    )


def _require_key(keys: Keys, *, is_named: bool) -> None:
    """Raise an error where there is a file of keys without a key: a mistyped name must not open all studies."""
    if len(keys) or not (is_named or keys.path.exists()):
        return
    state = "has no key any more" if keys.path.exists() else "is not there"
    raise StateError(
        f"{keys.path}, the file of keys, {state}, and everybody could do everything. Make a key: "
        f"causalbandits study keys make {keys.path} NAME --role admin; or serve without keys, on this machine alone: "
        + ("leave --keys out." if not keys.path.exists() else "remove the file.")
    )


def serve(
    files: Iterable[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve studies until interrupted; finish what waits, then stop. `ready` is called once all studies are open."""
    service = build_service(files, keys, directory)
    if not len(service.context.keys) and host not in LOOPBACK_HOSTS:
        service.close()
        raise StateError(
            f"Without a key, a service listens on this machine alone (127.0.0.1), not on {host}. Make a key: "
            f"causalbandits study keys make {service.context.keys.path} NAME --role writer."
        )
    warm_up()
    ready()
    try:
        config = uvicorn.Config(
            service, host=host, port=port, http=http_protocol(), ws="none", log_level="warning", access_log=False
        )
        BoundedServer(config, service).run()
    except KeyboardInterrupt:
        pass  # how a service is stopped; what waited has been answered
    finally:
        service.close()
