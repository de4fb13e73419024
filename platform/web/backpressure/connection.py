"""One accepted socket, whichever protocol speaks over it at the moment."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import termios
from typing import Any, Protocol

from twisted.protocols.policies import ProtocolWrapper

from .eager import EagerWriting
from .gate import FlowGate
from .options import FlowOptions

_INT = struct.Struct("i")

# What Linux fills one segment up to before it is on its way.
SEGMENT_BYTES = 64 * 1024


class Holder(Protocol):
    """The protocol that speaks over a connection: HTTP, and WebSocket after an upgrade."""

    def check(self, now: float) -> None:
        """Called by the sweep; `now` in seconds of the loop's clock."""

    def end(self) -> None:
        """Called when a drain's grace is over."""


def socket_of(transport: Any) -> Any:
    """The transport that owns the socket, below TLS."""
    while isinstance(transport, ProtocolWrapper):
        transport = transport.transport
    return transport


class Connection:
    """Bounds what one socket buffers, and sees whether its reader takes anything."""

    __slots__ = (
        "_accepted_bytes",
        "_drained_bytes",
        "_stuck_since",
        "eager",
        "gate",
        "holder",
        "transport",
    )

    def __init__(self, transport: Any, holder: Holder, options: FlowOptions) -> None:
        self.transport = transport
        self.holder = holder
        self.gate = FlowGate()
        self._accepted_bytes = 0
        self._drained_bytes = 0
        self._stuck_since: float | None = None
        transport.bufferSize = options.high_water_bytes
        self._bound_kernel_buffer(options.send_buffer_bytes)
        self._count_writes()
        self.eager = EagerWriting(transport)

    @property
    def buffered_bytes(self) -> int:
        """Output that waits in this process."""
        transport = self.transport
        waiting = len(transport.dataBuffer) - transport.offset + transport._tempDataLen  # noqa: SLF001
        return int(waiting)

    @property
    def pending_bytes(self) -> int:
        """Output that waits here or in the kernel for the reader to take it."""
        return self.buffered_bytes + self._kernel_queue_bytes()

    def stalled(self, now: float, timeout_s: float) -> bool:
        """Whether the reader took nothing for timeout_s although something waits for it."""
        in_kernel = self._kernel_queue_bytes()
        if not self.buffered_bytes and not in_kernel:
            self._stuck_since = None
            return False
        drained = self._accepted_bytes - in_kernel
        if self._stuck_since is None or drained != self._drained_bytes:
            self._drained_bytes, self._stuck_since = drained, now
        return now - self._stuck_since >= timeout_s

    def abort(self) -> None:
        self.transport.abortConnection()

    def end_with_output(self) -> None:
        """Let what waits to be sent and the connection's end, which must follow, travel together: a
        client that sees the one sees the other, and sends no request in between.
        """
        if self.transport.socket.family != socket.AF_UNIX and hasattr(socket, "TCP_CORK"):
            with contextlib.suppress(OSError):
                self.transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)

    def closed(self) -> None:
        self.gate.stopProducing()
        self.eager.undo()
        del self.transport.writeSomeData  # else the two keep each other alive

    def _bound_kernel_buffer(self, size_bytes: int) -> None:
        """Or the kernel hides megabytes more a connection."""
        handle = self.transport.socket
        # A client may be gone by now; then nothing of this matters.
        with contextlib.suppress(OSError):
            counts_unsent = handle.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT")
            if counts_unsent:
                # Bounds what is unsent, not what is under way, so that long fat pipes stay full.
                handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, size_bytes)
            if not counts_unsent or size_bytes < SEGMENT_BYTES:
                # The first is looked at only between segments.
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size_bytes)

    def _count_writes(self) -> None:
        write = self.transport.writeSomeData

        def counted(data: bytes) -> Any:
            written = write(data)
            if isinstance(written, int):
                self._accepted_bytes += written
            return written

        self.transport.writeSomeData = counted

    def _kernel_queue_bytes(self) -> int:
        """What the kernel accepted and the peer didn't acknowledge."""
        try:
            answer = fcntl.ioctl(self.transport.fileno(), termios.TIOCOUTQ, bytes(_INT.size))
        except OSError:
            return 0  # not every system counts it: then progress is what the kernel accepts
        return int(_INT.unpack(answer)[0])
