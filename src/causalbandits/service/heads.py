"""How requests are read: by httptools, where it is installed, else in pure Python, by h11, at four times the cost.

h11 gives up on a head that does not end; httptools would read on for ever, so that here it is stopped.
"""

from __future__ import annotations

from asyncio import Protocol

LONGEST_HEAD = 2**16
"""Bytes, as h11 has it; some more where they come together with others."""

TOO_LONG = f"The head of a request has {LONGEST_HEAD} bytes at most."


def reading() -> type[Protocol] | str:
    """What uvicorn is to read requests with."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class BoundedHeads(HttpToolsProtocol):
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
