"""How requests are read: by httptools, where it is installed, else in pure Python, by h11, at four times the cost.

h11 gives up on a head that does not end; httptools would read on for ever, so that here it is stopped. Either would
drop a request whose sender says that nothing more will come: here it is answered, then the connection is closed.
"""

from __future__ import annotations

from asyncio import Protocol
from typing import Any

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
