"""The server: uvicorn's, which waits for whoever has begun to send, for ever; here, so long and no longer.

It looks at its connections once a second: a request costs nothing more.
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

from causalbandits._files import checked_path
from causalbandits.errors import StateError
from causalbandits.service.app import Service
from causalbandits.service.auth import Keys
from causalbandits.service.commands import check_served_name
from causalbandits.service.dashboard import prepare
from causalbandits.study import Study
from causalbandits.study.storage import keys_beside, name_of

ARRIVAL_SECONDS = 30.0
"""So long may the head of a request take to arrive, and so long its body."""

LEAVING_SECONDS = 3.0
"""So long, when the service is to stop, may what has begun to arrive still come, and what was answered be read."""


class ServerThatEnds(uvicorn.Server):
    """Nobody can keep a connection by sending half a request, and nobody can keep the service from ending."""

    def __init__(self, config: uvicorn.Config, service: Service, patience: float = ARRIVAL_SECONDS) -> None:
        super().__init__(config)
        self._service, self._patience = service, patience
        self._awaited: dict[Any, tuple[tuple[Any, bool], float]] = {}
        """Connections from which something is to come: of which request, or after it, and since when."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Pages that are looked at hold a connection each: they are told that the service is to stop."""
        self._service.is_closing = True
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._cut_the_slow()
        return await super().on_tick(counter)

    def _connections(self) -> list[Any]:
        return list(self.server_state.connections)

    def _cut_the_slow(self) -> None:
        now, before = time.monotonic(), self._awaited
        self._awaited = {}
        for connection in self._connections():
            if connection.transport.get_write_buffer_size() or not _is_to_come(connection):
                continue  # an answer may take long to make, and to read
            awaited = connection.cycle, connection.cycle is None or connection.cycle.response_complete
            same, since = before.get(connection, ((None, False), now))
            since = since if same == awaited else now
            self._awaited[connection] = (awaited, since)
            if now - since >= self._patience:
                connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        leaving = asyncio.ensure_future(self._cut_all_that_wait())
        try:
            await super().shutdown(sockets)
        finally:
            leaving.cancel()

    async def _cut_all_that_wait(self) -> None:
        await asyncio.sleep(LEAVING_SECONDS)
        while True:
            for connection in self._connections():
                if _is_to_come(connection) or connection.flow.write_paused:
                    connection.transport.abort()
            await asyncio.sleep(0.1)


def _is_to_come(connection: Any) -> bool:
    """Whether it is the client's turn: a head is awaited, or the rest of a body."""
    cycle = connection.cycle
    return cycle is None or bool(cycle.response_complete or cycle.more_body)


# How requests are read: by httptools, where it is installed, else in pure Python, by h11, at four times the cost.
#
# h11 gives up on a head that does not end; httptools would read on for ever, so that here it is stopped. Either would
# drop a request whose sender says that nothing more will come: here it is answered, then the connection is closed.

LONGEST_HEAD = 2**16
"""Bytes, as h11 has it; some more where they come together with others."""

TOO_LONG = f"The head of a request has {LONGEST_HEAD} bytes at most."


def reading() -> type[Protocol]:
    """What uvicorn is to read requests with."""
    try:
        return by_httptools()
    except ImportError:
        return by_h11()


class _AnsweredAtTheEnd:
    """Who sends no more may still listen: what came whole is answered."""

    cycle: Any

    def eof_received(self) -> bool:
        """Whether the connection is still wanted, for one answer."""
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.response_complete:
            return False
        cycle.keep_alive = False
        return True


def by_h11() -> type[Protocol]:
    """In pure Python."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PureReading(_AnsweredAtTheEnd, H11Protocol):  # type: ignore[misc]
        """Nonsense in the rest of a request that was answered already has no other answer."""

        def send_400_response(self, msg: str) -> None:
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.close()

    return PureReading


def by_httptools() -> type[Protocol]:
    """Compiled."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHeads(_AnsweredAtTheEnd, HttpToolsProtocol):  # type: ignore[misc]
        """Of what came in, no more than so much may be neither a body nor the end of a request."""

        unread = 0

        def data_received(self, data: bytes) -> None:
            self.unread += len(data)
            super().data_received(data)
            if self.unread > LONGEST_HEAD and not self.transport.is_closing():
                self.send_400_response(TOO_LONG)

        def on_message_begin(self) -> None:
            self.unread = 0
            super().on_message_begin()

        def on_body(self, body: bytes) -> None:
            self.unread = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self.unread = 0
            super().on_message_complete()

    return BoundedHeads


# Start and stop a service.

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def service_of(
    files: Iterable[str | os.PathLike[str]],
    keys: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Service:
    """A service of the studies in some files (or databases), each by its name; and of those in a directory."""
    folder = None if directory is None else checked_path(directory, "studies")
    if folder is not None and not folder.is_dir():
        raise StateError(f"{folder} is no directory. Make it first: studies that are made over HTTP are put there.")
    places: list[str | os.PathLike[str]] = [*files, *([] if folder is None else sorted(folder.glob("*.db")))]
    names = [name_of(where) for where in places]
    if (not places and folder is None) or len(set(names)) < len(names):
        raise StateError(f"Name one study or several, whose files have different names; got {names}.")
    for name in names:
        check_served_name(name)
    beside = keys_beside(places[0]) if folder is None else folder / "keys.json"
    kept = Keys(checked_path(keys, "keys.json") if keys is not None else beside)
    _refuse_no_key(kept, is_named=keys is not None)
    return Service({name: Study.open(where) for name, where in zip(names, places, strict=True)}, kept, folder)


def _refuse_no_key(keys: Keys, *, is_named: bool) -> None:
    """Who has a file of keys wants them asked for: a mistyped name, or the last one revoked, must not open all."""
    if len(keys) or not (is_named or keys.path.exists()):
        return
    found = "has no key any more" if keys.path.exists() else "is not there"
    raise StateError(
        f"{keys.path}, the file of keys, {found}, and everybody could do everything. Make a key: "
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
    service = service_of(files, keys, directory)
    if not len(service.keys) and host not in LOOPBACK:
        service.close()
        raise StateError(
            f"Without a key, a service listens on this machine alone (127.0.0.1), not on {host}. Make a key: "
            f"causalbandits study keys make {service.keys.path} NAME --role writer."
        )
    prepare()
    ready()
    try:
        config = uvicorn.Config(
            service, host=host, port=port, http=reading(), ws="none", log_level="warning", access_log=False
        )
        ServerThatEnds(config, service).run()
    except KeyboardInterrupt:
        pass  # how a service is stopped; what waited has been answered
    finally:
        service.close()
