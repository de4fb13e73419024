"""The replicas and the queues before them, as operators see them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from inference import registry, replica_history
from inference.messages import ReplicaRecord
from inference.models import Release
from inference.replica_history import LatencySpan, Seen
from inference.services.queue_view import QueueView, queue_view
from kernel.database import database
from kernel.redis import Client

LOST = "lost"


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """record: its own account, or the last one with state `lost`, since it was last heard of
    rates: tokens a second in the last spans of `replica_history.SPAN_S`, the oldest first
    latencies: at the end of each of these
    """

    record: ReplicaRecord
    rates: list[float]
    latencies: list[LatencySpan] = field(default_factory=list)


async def replicas(redis: Client) -> list[ReplicaView]:
    """All that are heard of, and those lost lately whose place no other has taken; by name."""
    # The records last: a replica that leaves between the two is in neither, not lost.
    seen = {each.record.incarnation: each for each in await replica_history.seen(redis)}
    live = await registry.replicas(redis)
    gone = seen.keys() - {record.incarnation for record in live}
    # One that left in order meanwhile has been forgotten.
    still = {each.record.incarnation for each in await replica_history.seen(redis)} if gone else ()
    lost = [seen[name] for name in gone if name in still and not _followed(seen[name], live)]
    views = [
        *(_view(record, seen.get(record.incarnation)) for record in live),
        *(_view(_as_lost(each), each) for each in lost),
    ]
    return sorted(views, key=_order)


async def forget_followed(redis: Client, record: ReplicaRecord) -> None:
    """Forget the lost ones whose place this one has taken: they stay forgotten when it leaves."""
    others = [each for each in await replica_history.seen(redis) if _followed(each, [record])]
    names = {each.record.incarnation for each in others} - {record.incarnation}
    # In a restart the one before it is still there.
    if gone := await registry.lost(redis, names):
        pipeline = redis.pipeline(transaction=False)
        for name in gone:
            replica_history.forget(pipeline, name)
        await pipeline.execute()


async def queues(redis: Client) -> list[tuple[str, QueueView]]:
    """Every release that something waits for, by name, with what waits."""
    releases = await database(_releases)
    views = await asyncio.gather(*(queue_view(redis, release_id) for release_id, _ in releases))
    return [(name, view) for (_, name), view in zip(releases, views, strict=True) if view.waiting]


def _releases() -> list[tuple[str, str]]:
    return list(Release.objects.order_by("name").values_list("id", "name"))


def slot(replica: str) -> str:
    """The place of a replica: in a restart two stand in one, the second under its other name."""
    return replica.removesuffix("@2")


def _followed(lost: Seen, live: Iterable[ReplicaRecord]) -> bool:
    return any(
        (slot(record.replica), record.release_id)
        == (slot(lost.record.replica), lost.record.release_id)
        and record.since >= lost.record.since
        for record in live
    )


def _as_lost(seen: Seen) -> ReplicaRecord:
    return msgspec.structs.replace(
        seen.record,
        state=LOST,
        since=seen.at,
        running=0,
        held=0,
        waiting=0,
        tokens_per_s=0.0,
        kv_used_blocks=0,
        itl_p95_s=0.0,
    )


def _view(record: ReplicaRecord, seen: Seen | None) -> ReplicaView:
    return ReplicaView(record, seen.rates, seen.latencies) if seen else ReplicaView(record, [])


def _order(view: ReplicaView) -> tuple[str, str, float]:
    return view.record.release_name, view.record.replica, view.record.since
