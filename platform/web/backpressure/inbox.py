"""What has arrived for one application and wasn't received yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import IO, Any

from .options import FlowOptions

Message = dict[str, Any]
ENDINGS = ("http.disconnect", "websocket.disconnect")
BODY_PIECE_BYTES = 64 * 1024


class Inbox:
    """A queue that says when it is full, and calls `on_room` when half of it is free again.

    The disconnect message is repeated to an application that goes on receiving.
    """

    __slots__ = ("_bytes", "_full", "_last", "_messages", "_on_room", "_options", "_waiters")

    def __init__(self, options: FlowOptions, on_room: Callable[[], None]) -> None:
        self._options = options
        self._on_room = on_room
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._full = False
        self._last: Message | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def full(self) -> bool:
        return self._full

    def put_nowait(self, message: Message) -> None:
        """Never refuses: who puts looks at `full` and stops reading its socket."""
        if message["type"] in ENDINGS:
            self._last = message
        self._messages.append(message)
        self._bytes += _size(message)
        self._full = self._full or self._over(1.0)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def get(self) -> Message:
        while not self._messages:
            if self._last is not None:
                return self._last
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
        message = self._messages.popleft()
        self._bytes -= _size(message)
        if self._full and not self._over(0.5):
            self._full = False
            self._on_room()
        return message

    def _over(self, share: float) -> bool:
        return (
            len(self._messages) >= self._options.inbound_messages * share
            or self._bytes >= self._options.inbound_bytes * share
        )


class BodyInbox(Inbox):
    """An HTTP request's: its body stays where it was spooled until it is received."""

    __slots__ = ("_body",)

    def __init__(self, options: FlowOptions, body: IO[bytes]) -> None:
        super().__init__(options, lambda: None)
        self._body: IO[bytes] | None = body

    def put_nowait(self, message: Message) -> None:
        if message["type"] == "http.request":
            return  # Daphne's copy of a body; ours comes from the spool
        self._close_body()
        super().put_nowait(message)

    async def get(self) -> Message:
        if self._body is None:
            return await super().get()
        piece = self._body.read(BODY_PIECE_BYTES)
        more = len(piece) == BODY_PIECE_BYTES
        if not more:
            self._close_body()
        return {"type": "http.request", "body": piece, "more_body": more}

    def _close_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None


def _size(message: Message) -> int:
    return len(message.get("bytes") or message.get("text") or b"")
