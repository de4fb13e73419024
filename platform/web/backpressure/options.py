"""How much a server holds and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """high_water_bytes: a connection's own output buffer; `send` waits above it. Also what is read
        from a socket at once, as Twisted has one number for both
    send_buffer_bytes: what the kernel keeps unsent besides
    stall_timeout_s: a reader that took nothing of what waits for this long is cut off; 0: no limit
    drain_grace_s: from the signal until applications are cancelled
    cancel_grace_s: from there until they are left behind; also for the last close handshakes
    close_timeout_s: how long a WebSocket's close handshake may take
    header_timeout_s: for a request's headers; 0: no limit
    body_bytes_per_s: below this rate, after a first header_timeout_s, a body counts as stuck
    max_body_bytes: of a request; 0: no limit
    max_connections: beyond them new ones get 503; 0: no limit
    inbound_messages, inbound_bytes: what waits for an application that does not receive
    """

    high_water_bytes: int = 64 * KIB
    send_buffer_bytes: int = 128 * KIB
    stall_timeout_s: float = 60.0
    drain_grace_s: float = 20.0
    cancel_grace_s: float = 2.0
    close_timeout_s: float = 5.0
    header_timeout_s: float = 20.0
    body_bytes_per_s: int = 512
    max_body_bytes: int = 0
    max_connections: int = 0
    inbound_messages: int = 64
    inbound_bytes: int = 256 * KIB

    @property
    def sweep_interval_s(self) -> float:
        """How often connections are looked at, so that no limit is overrun by more than a half."""
        limits = [limit for limit in (self.stall_timeout_s, self.header_timeout_s) if limit]
        return min([1.0, *(limit / 2 for limit in limits)])
