"""What replicas do at the queue of a release: wait, take, leave to another, and leave.

A replica takes whose turn it is. If another has served more of that one's prompt, so that its
engine has the beginning in its prefix cache, and has room, it is left for that one for a moment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from django.conf import settings

from inference import messages, prefixes, redis_keys, scripts
from inference.messages import QueuedRequest, Started
from kernel.redis import Client
from tenants.priority import CLASSES, PriorityClass

# A request may wait for its whole queue time and then stream; its log must outlive both.
LOG_RESERVE_S = 60

# Of the prompt it has served most, another has, nobody has any, or it is too short to tell.
Match = Literal["hit", "elsewhere", "miss", "short"]


@dataclass(frozen=True, slots=True)
class Claimed:
    request: QueuedRequest
    match: Match


@dataclass(frozen=True, slots=True)
class Left:
    """Whose turn it is is left for another replica, for so long at most."""

    wait_s: float


async def claim_or_leave(
    redis: Client,
    release_id: str,
    incarnation: str,
    *,
    room: int,
    prefixes_kept: int,
    classes: Sequence[PriorityClass] = CLASSES,
    kept: Sequence[PriorityClass] = (),
    tenants: Collection[str] = (),
    now_us: int | None = None,
) -> Claimed | Left | None:
    """As `claim`, for a host that can take `room` requests; unless another that has room as well
    has served more of the request's prompt (`docs/adr/0012`).

    prefixes_kept: how many marks of what it serves are kept for this replica
    classes: those that the host has room for, the highest first; what is below all of them is
        passed over, and no other, so that nothing is taken while it is another's turn
    kept: those of them in which nothing is taken of `tenants`, who have their share here already
    """
    return await take(
        redis,
        release_id,
        incarnation,
        room=room,
        prefixes_kept=prefixes_kept,
        classes=classes,
        kept=kept,
        tenants=tenants,
        now_us=now_us,
    )


async def take(
    redis: Client,
    release_id: str,
    incarnation: str,
    *,
    only: str = "",
    room: int | None = None,
    prefixes_kept: int = prefixes.KEPT,
    classes: Sequence[PriorityClass] = CLASSES,
    kept: Sequence[PriorityClass] = (),
    tenants: Collection[str] = (),
    now_us: int | None = None,
) -> Claimed | Left | None:
    keys = release_keys(release_id)
    reply = await scripts.run(
        redis,
        "claim",
        [*keys, redis_keys.queue_bell(release_id), redis_keys.running(incarnation)],
        [
            redis_keys.PREFIX,
            settings.INPUT_TOKEN_COST,
            settings.OUTPUT_TOKEN_COST,
            settings.CLASS_FLOOR,
            moment(now_us),
            incarnation,
            messages.encode(Started(incarnation)),
            only,
            reserve_s(),
            "" if room is None else room,
            round(settings.PREFIX_WAIT_MS * 1000),
            settings.PREFIX_SLACK,
            prefixes_kept,
            classes[-1],
            f",{','.join(classes)},",
            f",{','.join(kept)},",
            f",{','.join(tenants)},",
        ],
    )
    if not reply:
        return None
    taken, told = reply
    if taken is None:
        return Left(told / 1e6)
    return Claimed(messages.decode_request(taken), told.decode())


async def next_class(redis: Client, release_id: str) -> PriorityClass | None:
    """The class of the request whose turn it is; None if none waits."""
    args = [redis_keys.PREFIX, settings.INPUT_TOKEN_COST, CLASSES[-1]]
    found = await scripts.run(redis, "next_class", release_keys(release_id), args)
    return cast(PriorityClass, found.decode()) if found else None


async def wait_for_arrival(
    redis: Client, release_id: str, incarnation: str, *, timeout_s: float
) -> None:
    """Return when something may have arrived, or is left for this replica, or after the timeout."""
    bells = [redis_keys.host_bell(incarnation), redis_keys.queue_bell(release_id)]
    # Redis counts milliseconds, and 0 is for ever.
    await redis.blpop(bells, timeout=max(timeout_s, 0.001))


async def stop_claiming(redis: Client, release_id: str, incarnation: str) -> None:
    """Nothing is left for this replica any more, and another is woken: one that leaves may have
    taken the bell and not the request.
    """
    pipeline = redis.pipeline(transaction=False)
    pipeline.hdel(f"{redis_keys.share(release_id)}:room", incarnation)
    pipeline.lpush(redis_keys.queue_bell(release_id), "1")
    await pipeline.execute()


def release_keys(release_id: str) -> list[str]:
    """What a queue has in Redis, in the order the scripts take it that look for who comes next."""
    return [
        redis_keys.queue(release_id),
        redis_keys.queue_tenants(release_id),
        redis_keys.queue_sizes(release_id),
        redis_keys.share(release_id),
    ]


def moment(now_us: int | None) -> str | int:
    return "" if now_us is None else now_us


def reserve_s() -> int:
    """How long a request and its log are kept while it waits and streams."""
    return int(settings.QUEUE_TIMEOUT_S + settings.LOG_TTL_S + LOG_RESERVE_S)
