"""What the page is sent, once a second: wire shapes, and how they are made of what is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

import msgspec

from console.replicas.latency import LatencyRow, latency_rows
from console.replicas.shares import ReleaseShares, share_rows
from console.replicas.supervision import (
    EngineProcess,
    NoSupervisor,
    NotDone,
    Supervised,
    supervision,
)
from inference.messages import ReplicaRecord
from inference.services import replicas as service
from inference.services import shares as sharing
from inference.services.queue_view import QueueView, Share
from inference.services.replicas import LOST, ReplicaView, slot
from kernel.database import database
from kernel.redis import OUTAGE, client
from tenants.models import Tenant

# Shorter than the page waits for all of it.
REDIS_WITHIN_S = 3.0
# Of a process that no record speaks for, by the supervisor's word.
PHASES = {
    "idle": "starting",
    "running": "starting",
    "waiting": "failing",
    "stopping": "draining",
    "stopped": "stopped",
}


class ReplicaRow(msgspec.Struct, frozen=True):
    """key: the same for the same place as long as one stands in it
    process: by which the supervisor knows it, None if it doesn't
    since: in Unix seconds; rates: tokens a second in the last spans, the oldest first
    kv_total_blocks: 0 if its engine can't tell
    """

    key: str
    replica: str
    process: str | None
    release: str
    state: str
    since: float
    running: int = 0
    waiting: int = 0
    held: int = 0
    tokens_per_s: float = 0.0
    holds: int = 0
    yields: int = 0
    restores: int = 0
    takeovers: int = 0
    kv_used_blocks: int = 0
    kv_total_blocks: int = 0
    rates: list[float] = []


class ShareRow(msgspec.Struct, frozen=True):
    """begins: when the last of them is likely to, and in nine of ten cases, in seconds"""

    tenant: str
    priority_class: str
    waiting: int
    oldest_s: float
    begins_p50_s: float | None
    begins_p90_s: float | None


class QueueRow(msgspec.Struct, frozen=True):
    release: str
    waiting: int
    shares: list[ShareRow]


class State(msgspec.Struct, frozen=True):
    """now: in Unix seconds, by the clock that `since` is told by
    redis: whether it answers; supervisor: whether one runs here, None if it can't be asked
    """

    now: float
    redis: bool
    supervisor: bool | None
    going_on: str
    failed: str
    replicas: list[ReplicaRow]
    latency: list[LatencyRow]
    queues: list[QueueRow]
    shares: list[ReleaseShares]


async def state() -> State:
    (supervised, known), told = await asyncio.gather(_supervised(), _told())
    views, queues, shares = told or ([], [], [])
    tenants = {share.tenant_id for share in _shares(queues)}
    tenants |= {share.tenant_id for _, of_release in shares for share in of_release}
    names = await database(_tenant_names, tenants)
    return State(
        now=time.time(),
        redis=told is not None,
        supervisor=known,
        going_on=supervised.going_on,
        failed=supervised.failed,
        replicas=replica_rows(views, supervised.engines),
        latency=latency_rows(views),
        queues=[_queue(release, view, names) for release, view in queues],
        shares=share_rows(shares, names),
    )


async def _told() -> (
    tuple[list[ReplicaView], list[tuple[str, QueueView]], list[tuple[str, list[sharing.Share]]]]
    | None
):
    """None while Redis doesn't answer."""
    try:
        async with asyncio.timeout(REDIS_WITHIN_S):
            return await asyncio.gather(
                service.replicas(client()), service.queues(client()), sharing.shares(client())
            )
    except OUTAGE:
        return None


async def _supervised() -> tuple[Supervised, bool | None]:
    try:
        return await asyncio.to_thread(supervision().state), True
    except NoSupervisor:
        return Supervised([]), False
    except NotDone:
        return Supervised([]), None


def replica_rows(
    views: Iterable[ReplicaView], engines: Iterable[EngineProcess]
) -> list[ReplicaRow]:
    """A row for each replica, and for each process that no replica speaks for."""
    processes = {each.name: each for each in engines}
    shown = [view for view in views if not _stopped_since(view, processes)]
    rows: dict[str, ReplicaRow] = {}
    for view in shown:
        row = _replica(view, processes)
        key = row.key if row.key not in rows else f"{row.key} {view.record.incarnation}"
        rows[key] = msgspec.structs.replace(row, key=key)
    spoken_for = {row.process for row in rows.values()}
    alone = [_process(each) for each in processes.values() if each.name not in spoken_for]
    return sorted([*rows.values(), *alone], key=lambda row: (row.release, row.replica))


def _process_of(
    record: ReplicaRecord, processes: Mapping[str, EngineProcess]
) -> EngineProcess | None:
    found = processes.get(slot(record.replica))
    return found if found and found.release == record.release_name else None


def _stopped_since(view: ReplicaView, processes: Mapping[str, EngineProcess]) -> bool:
    """Lost, and then its process was stopped for good."""
    process = _process_of(view.record, processes)
    return view.record.state == LOST and process is not None and process.phase == "stopped"


def _replica(view: ReplicaView, processes: Mapping[str, EngineProcess]) -> ReplicaRow:
    record = view.record
    process = _process_of(record, processes)
    return ReplicaRow(
        key=f"{record.release_name} {record.replica}",
        replica=record.replica,
        process=process.name if process else None,
        release=record.release_name,
        state=record.state,
        since=record.since,
        running=record.running,
        waiting=record.waiting,
        held=record.held,
        tokens_per_s=record.tokens_per_s,
        holds=record.holds,
        yields=record.yields,
        restores=record.restores,
        takeovers=record.takeovers,
        kv_used_blocks=record.kv_used_blocks,
        kv_total_blocks=record.kv_total_blocks,
        rates=view.rates,
    )


def _process(process: EngineProcess) -> ReplicaRow:
    return ReplicaRow(
        key=f"{process.release} {process.name}",
        replica=process.name,
        process=process.name,
        release=process.release,
        state=PHASES.get(process.phase, "starting"),
        since=process.since,
    )


def _shares(queues: Iterable[tuple[str, QueueView]]) -> Iterable[Share]:
    return (share for _, view in queues for share in view.shares)


def _tenant_names(tenant_ids: set[str]) -> dict[str, str]:
    return dict(Tenant.objects.filter(pk__in=tenant_ids).values_list("pk", "name"))


def _queue(release: str, view: QueueView, names: Mapping[str, str]) -> QueueRow:
    return QueueRow(release, view.waiting, [_share(share, names) for share in view.shares])


def _share(share: Share, names: Mapping[str, str]) -> ShareRow:
    begins = share.last_begins
    return ShareRow(
        tenant=names.get(share.tenant_id, share.tenant_id),
        priority_class=share.priority_class,
        waiting=share.waiting,
        oldest_s=share.oldest_s,
        begins_p50_s=begins.p50_s if begins else None,
        begins_p90_s=begins.p90_s if begins else None,
    )
