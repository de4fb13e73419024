"""What the page is sent of latency: what is delivered, what is wanted, and how many may run."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from inference.services.replicas import LOST, ReplicaView


class LatencyRow(msgspec.Struct, frozen=True):
    """p95_ms: between tokens lately, 0 while none come; objective_ms: of it, 0 for none
    limit: how many may run of slots; p95s_ms, limits: in the last spans, the oldest first
    """

    key: str
    replica: str
    release: str
    p95_ms: float
    objective_ms: float
    running: int
    limit: int
    slots: int
    p95s_ms: list[float]
    limits: list[int]


def latency_rows(views: Iterable[ReplicaView]) -> list[LatencyRow]:
    """Of the replicas that serve, and tell of it."""
    return [_row(view) for view in views if view.record.state != LOST and view.record.slots]


def _row(view: ReplicaView) -> LatencyRow:
    record = view.record
    return LatencyRow(
        key=record.incarnation,
        replica=record.replica,
        release=record.release_name,
        p95_ms=_ms(record.itl_p95_s),
        objective_ms=_ms(record.objective_s),
        running=record.running,
        limit=record.limit,
        slots=record.slots,
        p95s_ms=[_ms(each.itl_p95_s) for each in view.latencies],
        limits=[each.limit for each in view.latencies],
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
