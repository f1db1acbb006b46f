"""The server: builds a service from files, and runs it in uvicorn with time limits on slow clients.

Uvicorn waits without limit for a client that sends only part of a request, or does not read its response. Here, the
head of a request, its body, and the reading of its response are each limited to `REQUEST_TIMEOUT`. Connections are
checked once a second, which adds no cost per request. The number of connections per address is limited, and the number
of pipelined requests per connection.

Requests are parsed by httptools if it is installed, otherwise by h11, in pure Python, at four times the cost. h11
refuses an endless head; httptools would read on without limit, so this module limits the head's length. Both would drop
a request
whose client closes its sending side: here the request is answered, then the connection is closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from asyncio import Protocol
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from causalbandits._files import parse_path
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.service.app import Service
from causalbandits.service.auth import Keys
from causalbandits.service.commands import validate_study_name
from causalbandits.service.dashboard import warm_up
from causalbandits.service.telemetry import logger, logging_to_stderr
from causalbandits.study import Study
from causalbandits.study.storage import default_keys_path, location_name

REQUEST_TIMEOUT = 30.0
"""The time limit in seconds for the head of a request to arrive, for its body, and for its response to be read."""

MAX_DRAIN_SECONDS = 3600.0

SHUTDOWN_GRACE_PERIOD = 3.0
"""Seconds at shutdown for started requests to arrive completely, and for responses to be read."""


MAX_UNWANTED_BYTES = 2**24
"""The number of body bytes that are read after the response, because a client may still be sending when it is
refused."""

MAX_PIPELINED = 64
"""The maximum number of requests that a connection may send ahead of their responses."""


def max_connections_per_address() -> int:
    """The maximum number of connections per address: half of the files that the process may open, at most 4,096."""
    try:
        import resource
    except ImportError:  # Windows
        return 512
    soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4096 if soft_limit == resource.RLIM_INFINITY else min(4096, soft_limit // 2)


class ConnectionCounts(ServerState):
    """The state that a server shares with its connections, with the number of connections per address."""

    def __init__(self) -> None:
        super().__init__()
        self.by_address: Counter[str] = Counter()
        self.max_by_address = max_connections_per_address()


class BoundedServer(uvicorn.Server):
    """A server on which an incomplete request neither holds a connection nor delays shutdown."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        request_timeout: float = REQUEST_TIMEOUT,
        drain_seconds: float = 0.0,
    ) -> None:
        super().__init__(config)
        self.server_state = ConnectionCounts()
        self._service, self._request_timeout, self._drain_seconds = service, request_timeout, drain_seconds
        self._drained_at: float | None = None
        """The time at which the service stops accepting connections; None while it runs."""
        self._client_steps: dict[Any, tuple[tuple[Any, str], float]] = {}
        """Connections that wait for their client: the request, the expected step, and the start of the wait."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Become unready; stop after `drain_seconds`, or at once on a second signal.

        Uvicorn would raise the signal again after it has stopped, and the process would end before its studies are
        closed.
        """
        context = self._service.context
        self.force_exit = self.should_exit  # a second signal while requests in progress are finished
        if context.draining.is_set():
            self._drained_at = 0.0
        else:
            self._drained_at = time.monotonic() + self._drain_seconds
        context.draining.set()
        if time.monotonic() >= self._drained_at:
            self._stop()

    def _stop(self) -> None:
        self._service.context.closing.set()  # open pages hold a connection each, so their streams must end
        for writer in list(self._service.context.writers.values()):
            writer.stop_scans()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._abort_slow_connections()
        if self._drained_at is not None and time.monotonic() >= self._drained_at:
            self._stop()
        return await super().on_tick(counter)

    def _connections(self) -> list[Any]:
        return list(self.server_state.connections)

    def _abort_slow_connections(self) -> None:
        now, previous = time.monotonic(), self._client_steps
        self._client_steps = {}
        for connection in self._connections():
            if (client_step := _client_step(connection)) is None:
                continue  # computing a response may take long
            step = connection.cycle, client_step
            previous_step, since = previous.get(connection, (step, now))
            since = since if previous_step == step else now
            self._client_steps[connection] = (step, since)
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
    """Whether the client has to send: a head, or the rest of a body."""
    cycle = connection.cycle
    return cycle is None or bool(cycle.response_complete or cycle.more_body)


def _client_step(connection: Any) -> str | None:
    """The expected step of a client: read a response, or send a request or the rest of its body; None if it waits for a
    response."""
    if connection.transport.get_write_buffer_size():
        return "reading"
    if not _awaits_client(connection):
        return None
    return "request" if connection.cycle is None or connection.cycle.response_complete else "body"


MAX_HEAD_BYTES = 2**16
"""The maximum length of a head in bytes, as in h11; slightly more if further bytes arrive with it."""

HEAD_TOO_LONG_MESSAGE = f"The limit of the head of a request is {MAX_HEAD_BYTES} bytes."


def http_protocol() -> type[Protocol]:
    """The uvicorn protocol class that parses requests."""
    try:
        return httptools_protocol()
    except ImportError:
        return h11_protocol()


class _BoundedConnection:
    """A connection with limits: on the number per address, and on the rest of a refused body.

    A client that closes its sending side receives its response.
    """

    unwanted: tuple[Any, int] = None, 0
    """A request that was answered before the end of its body, and the number of bytes received since."""

    cycle: Any
    client: Any
    transport: Any
    server_state: Any

    def connection_made(self, transport: Any) -> None:
        """Count the connection, and close it if its address has too many."""
        super().connection_made(transport)  # type: ignore[misc]
        state = self.server_state
        self._address = self.client[0] if self.client else ""
        state.by_address[self._address] += 1
        if state.by_address[self._address] > state.max_by_address:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Count bytes after a refusal, and close the connection if they are too many."""
        cycle = self.cycle
        if cycle is not None and cycle.response_complete and cycle.more_body:
            request, count = self.unwanted
            self.unwanted = cycle, len(data) + (count if request is cycle else 0)
            if self.unwanted[1] > MAX_UNWANTED_BYTES:
                self.transport.abort()
                return
        super().data_received(data)  # type: ignore[misc]

    def connection_lost(self, error: Exception | None) -> None:
        """Remove the connection from the count."""
        super().connection_lost(error)  # type: ignore[misc]
        counts = self.server_state.by_address
        counts[self._address] -= 1
        if not counts[self._address]:
            del counts[self._address]

    def eof_received(self) -> bool:
        """Whether the connection stays open, for one response."""
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.response_complete:
            return False
        cycle.keep_alive = False
        return True


def h11_protocol() -> type[Protocol]:
    """The pure Python parser."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LenientH11Protocol(_BoundedConnection, H11Protocol):  # type: ignore[misc]
        """Invalid bytes after an answered request receive no second response."""

        def send_400_response(self, msg: str) -> None:
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.close()

    return LenientH11Protocol


def httptools_protocol() -> type[Protocol]:
    """The compiled parser."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttpToolsProtocol(_BoundedConnection, HttpToolsProtocol):  # type: ignore[misc]
        """A limit on the length of a head: bytes are counted until a body or the end of a request.

        The limit also applies to pipelined requests; h11 reads no request before it has answered the previous one.
        """

        unread = 0
        unanswered: tuple[Any, ...] | list[Any] = ()
        """The requests of this connection without a complete response."""

        def data_received(self, data: bytes) -> None:
            self.unread += len(data)
            super().data_received(data)
            if self.unread > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(HEAD_TOO_LONG_MESSAGE)

        def on_message_begin(self) -> None:
            self.unread = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            self.unanswered = [cycle for cycle in (*self.unanswered, self.cycle) if not cycle.response_complete]
            if len(self.pipeline) > MAX_PIPELINED:
                self.transport.abort()

        def connection_lost(self, error: Exception | None) -> None:
            """Notify every pipelined request of the disconnection; uvicorn notifies the last one only."""
            super().connection_lost(error)
            self.pipeline.clear()
            for cycle in self.unanswered:
                cycle.disconnected = not cycle.response_complete
                cycle.message_event.set()
            self.unanswered = ()

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
    *,
    without_keys: bool = False,
) -> Service:
    """A service for the studies in some files (or databases), each by its name, and in a directory."""
    files = list(files)
    folders = [file for file in files if os.path.isdir(file)]
    if len(folders) + (directory is not None) > 1:
        raise StateError(f"A service has one directory of studies; got {[*folders, directory]}.")
    if folders:
        (directory,) = folders
        files.remove(directory)
    folder = None if directory is None else parse_path(directory, "studies")
    if folder is not None and not folder.is_dir():
        raise StateError(
            f"{folder} is not a directory. Create it first; studies that are created over HTTP are stored there."
        )
    named, found = list(files), [] if folder is None else sorted(folder.glob("*.db"))
    locations: list[str | os.PathLike[str]] = [*named, *found]
    names = [location_name(location) for location in locations]
    if (not locations and folder is None) or len(set(names)) < len(names):
        raise StateError(f"Pass one or more studies whose files have different names; got {names}.")
    for location in named:
        validate_study_name(location_name(location))
    default_keys = default_keys_path(locations[0]) if folder is None else folder / "keys.json"
    service_keys = Keys(parse_path(keys, "keys.json") if keys is not None else default_keys)
    if without_keys:
        _confirm_without_keys(service_keys, is_named=keys is not None)
    else:
        _require_key(service_keys, is_named=keys is not None)
    with ExitStack() as stack:  # opened studies are closed again if a named file is refused
        studies = {location_name(location): stack.enter_context(Study.open(location)) for location in named}
        unavailable: dict[str, str] = {}
        for file in found:
            try:
                validate_study_name(file.stem)
                studies[file.stem] = stack.enter_context(Study.open(file))
            except Exception as error:  # any error: a damaged file must not prevent the others from being served
                is_known = isinstance(error, CausalBanditsError)
                unavailable[file.stem] = str(error) if is_known else f"{file} is damaged: {error!r:.200}."
                logger.error(
                    "%s is not served: %s",
                    file,
                    unavailable[file.stem],
                    exc_info=None if is_known else error,
                    extra={"fields": {"event": "error"}},
                )
        stack.pop_all()
    return Service(studies, service_keys, folder, unavailable)


def _require_key(keys: Keys, *, is_named: bool) -> None:
    """Raise an error if an expected key file is missing, so that a mistyped name or a lost file opens no study."""
    if len(keys):
        keys.mark_required()
        return
    is_there, had_keys = keys.path.exists(), keys.marker.exists()
    if not (is_named or is_there or had_keys):
        return
    state = "contains no key" if is_there else "does not exist"
    marked = f", although the service had keys (marker file {keys.marker})" if had_keys and not is_there else ""
    obstacles = [str(path) for path in (keys.path, keys.marker) if path.exists()]
    steps = [f"remove {' and '.join(obstacles)}"] if obstacles else []
    steps += ["leave out --keys"] if is_named else []
    raise StateError(
        f"The file of keys, {keys.path}, {state}{marked}; without keys every client would be an admin. Restore the "
        f"file, or create a key: causalbandits study keys make {keys.path} NAME --role admin. To serve without keys "
        f"on this machine only, {' and '.join(steps)}."
    )


WITHOUT_KEYS_VARIABLE, WITHOUT_KEYS_VALUE = "CAUSALBANDITS_WITHOUT_KEYS", "everybody-is-admin"
"""The environment variable that confirms a service without keys; a single setting might be copied by mistake."""


def _confirm_without_keys(keys: Keys, *, is_named: bool) -> None:
    """Admit every client, if the operator has confirmed it twice and there are no keys."""
    if os.environ.get(WITHOUT_KEYS_VARIABLE) != WITHOUT_KEYS_VALUE:
        raise StateError(
            "Every client of a service without keys is an admin. To confirm --without-keys, set the environment "
            f"variable {WITHOUT_KEYS_VARIABLE} to {WITHOUT_KEYS_VALUE}; or create a key, `causalbandits study keys "
            f"make {keys.path} NAME --role writer`."
        )
    if is_named or keys.path.exists():
        raise StateError(
            f"--without-keys contradicts the file of keys, {keys.path}. Leave out --without-keys, or remove the file"
            + (" and leave out --keys." if is_named else ".")
        )
    keys.admits_everybody = True
    logger.warning("This service has no keys: every client is an admin.", extra={"fields": {"event": "without_keys"}})


def serve(
    files: Iterable[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    drain_seconds: float = 0.0,
    log_format: str = "text",
    log_level: str | None = None,
    without_keys: bool = False,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve studies until SIGTERM or SIGINT; finish queued requests, then stop.

    On a signal, readiness turns to 503 at once, and requests are answered for another `drain_seconds`. Then requests in
    progress are finished, and the studies are closed. A second signal ends the wait. `ready` is called once all studies
    are open. `without_keys` gives every client from any machine the role admin; the environment variable
    `CAUSALBANDITS_WITHOUT_KEYS=everybody-is-admin` has to confirm it.
    """
    if not 0 <= drain_seconds <= MAX_DRAIN_SECONDS:
        raise StateError(f"drain_seconds must be from 0 to {MAX_DRAIN_SECONDS:g}; got {drain_seconds!r}.")
    with logging_to_stderr(log_format, log_level):
        service = build_service(files, keys, directory, without_keys=without_keys)
        _run_service(service, host, port, drain_seconds, ready)


def _run_service(service: Service, host: str, port: int, drain_seconds: float, ready: Callable[[], None]) -> None:
    keys = service.context.keys
    if not len(keys) and not keys.admits_everybody and host not in LOOPBACK_HOSTS:
        service.close()
        raise StateError(
            f"Without keys, a service listens on 127.0.0.1 only, not on {host}. Create a key: causalbandits study "
            f"keys make {keys.path} NAME --role writer."
        )
    warm_up()
    ready()
    try:
        config = uvicorn.Config(
            service, host=host, port=port, http=http_protocol(), ws="none", log_config=None, access_log=False
        )
        server = BoundedServer(config, service, drain_seconds=drain_seconds)
        with _stop_on_hangup(server):
            server.run()
    finally:
        service.close()


@contextmanager
def _stop_on_hangup(server: BoundedServer) -> Iterator[None]:
    """Stop when the terminal is closed (SIGHUP), as on SIGTERM: uvicorn does not handle that signal."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGHUP)
    if previous != signal.SIG_IGN:  # ignored by nohup, for example
        signal.signal(signal.SIGHUP, server.handle_exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, previous)
