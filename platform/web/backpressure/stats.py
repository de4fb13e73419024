"""Figures of the running server, for whatever exports metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """What only grows."""

    accepted: int = 0
    refused_connections: int = 0
    refused_bodies: int = 0
    timed_out_requests: int = 0
    evicted_stalls: int = 0


@dataclass(frozen=True, slots=True)
class FlowStats:
    """http_connections: idle ones included; the first five are of now, the others since the start
    buffered_bytes: output waiting in the process, all connections together
    """

    http_connections: int
    websocket_connections: int
    requests: int
    waiting_sends: int
    buffered_bytes: int
    accepted: int
    refused_connections: int
    refused_bodies: int
    timed_out_requests: int
    evicted_stalls: int
    draining: bool


Observer = Callable[[FlowStats], None]

_source: Callable[[], FlowStats] | None = None
_observers: list[Observer] = []


def publish(source: Callable[[], FlowStats] | None) -> None:
    """Called by the server: one runs in a process."""
    global _source
    _source = source


def observe(observer: Observer) -> None:
    """Have the figures told about once a second, from a running server's sweep."""
    _observers.append(observer)


def tell(figures: FlowStats) -> None:
    """Called by the server."""
    for observer in _observers:
        observer(figures)


def current() -> FlowStats | None:
    """Figures of the server of this process; None where none runs. Costs a microsecond a
    connection.
    """
    return _source() if _source else None
