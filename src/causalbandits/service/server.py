"""The server: uvicorn's, which waits for whoever has begun to send, for ever; here, so long and no longer.

It looks at its connections once a second: a request costs nothing more.
"""

from __future__ import annotations

import asyncio
import socket
import time
from types import FrameType
from typing import Any

import uvicorn

from causalbandits.service.app import Service

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
