"""The gate through which everything goes that an application sends over one connection."""

from __future__ import annotations

import asyncio

# A sender whom nobody blocks would keep the loop to itself.
YIELD_BYTES = 64 * 1024
# Writing costs time too: this many bytes' worth a message, so that small ones yield as well.
MESSAGE_BYTES = 1024


class ClientGone(ConnectionResetError):
    """`send` after the client left, or while it left: nobody will read this."""

    def __init__(self) -> None:
        super().__init__("the client has disconnected")


class FlowGate:
    """Twisted's push producer of one connection: closed by the transport when its buffer is above
    the high-water mark, opened when that has drained.

    lock: held for the length of one message, so that messages sent at once don't mix
    """

    __slots__ = ("_closed", "_gone", "_unyielded_bytes", "_waiters", "lock")

    def __init__(self) -> None:
        self._closed = False
        self._gone = False
        self._unyielded_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.lock = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """Sends that wait for the reader."""
        return len(self._waiters)

    async def opened(self) -> None:
        """Return once the reader has drained what it was sent.

        Raises ClientGone when it leaves before, or has left.
        """
        while self._closed and not self._gone:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
        if self._gone:
            raise ClientGone

    async def passed(self, size_bytes: int) -> None:
        """Count what went through, and let others have the loop from time to time."""
        self._unyielded_bytes += max(size_bytes, MESSAGE_BYTES)
        if self._unyielded_bytes >= YIELD_BYTES:
            self._unyielded_bytes = 0
            await asyncio.sleep(0)

    # -- Twisted's IPushProducer

    def pauseProducing(self) -> None:
        self._closed = True

    def resumeProducing(self) -> None:
        self._closed = False
        self._wake()

    def stopProducing(self) -> None:
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
