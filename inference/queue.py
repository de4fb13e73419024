"""The admission queue of a release: bounded, first come first served, in Redis.

A replica takes a request only when it can start it; taking, leasing and the log's Started entry are
one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings

from inference import leases, messages, redis_keys, scripts, token_log
from inference.messages import Failed, Final, Opened, QueuedRequest, Started, Suspended
from inference.token_log import Position
from kernel.errors import QueueFull
from kernel.redis import Client

# A request may wait for its whole queue time and then stream; its log must outlive both.
LOG_RESERVE_S = 60


async def enqueue(redis: Client, request: QueuedRequest) -> int:
    """Queue a request and open its log; its place in the queue, 1 being next. Raises QueueFull."""
    opened = Opened(prompt_tokens=len(request.engine_request.prompt_token_ids))
    accepted, detail = await scripts.run(
        redis,
        "enqueue",
        _keys(request),
        [
            request.generation_id,
            request.tenant_id,
            messages.encode(request),
            messages.encode(opened),
            settings.QUEUE_LIMIT,
            settings.QUEUE_LIMIT_PER_TENANT,
            _reserve_s(),
        ],
    )
    if not accepted:
        whose = "The queue of your organisation" if detail == b"tenant" else "The model's queue"
        raise QueueFull(f"{whose} is full. Try again in a few seconds.", retry_after_s=5)
    return int(detail)


async def claim(redis: Client, release_id: str, incarnation: str) -> QueuedRequest | None:
    """The request that waits longest, now leased to this incarnation, or None."""
    taken = await scripts.run(
        redis,
        "claim",
        [
            redis_keys.queue(release_id),
            redis_keys.queue_tenants(release_id),
            redis_keys.running(incarnation),
        ],
        [incarnation, messages.encode(Started(incarnation)), redis_keys.PREFIX],
    )
    return messages.decode_request(taken) if taken else None


async def wait_for_arrival(redis: Client, release_id: str, *, timeout_s: float) -> None:
    """Return when something may have arrived, or after the timeout."""
    await redis.blpop([redis_keys.queue_bell(release_id)], timeout=timeout_s)


async def ring(redis: Client, release_id: str) -> None:
    """Wake a waiting replica: one that leaves may have taken the bell and not the request."""
    await redis.lpush(redis_keys.queue_bell(release_id), "1")


async def waiting(redis: Client, generation_id: str) -> QueuedRequest | None:
    """The request of a generation that waits in a queue."""
    raw = await redis.get(redis_keys.request(generation_id))
    return messages.decode_request(raw) if raw else None


async def withdraw(redis: Client, request: QueuedRequest, final: Final) -> bool:
    """Take a waiting request out and close its log with `final`; False if it doesn't wait."""
    done = await scripts.run(
        redis,
        "withdraw",
        _keys(request),
        [
            request.generation_id,
            request.tenant_id,
            messages.encode(final),
            settings.LOG_TTL_S,
            f"{final.seq}-*",
        ],
    )
    return bool(done == 1)


async def place(redis: Client, release_id: str, generation_id: str) -> int | None:
    """Place in the queue, 1 being next; None if it doesn't wait (any more)."""
    rank = await redis.zrank(redis_keys.queue(release_id), generation_id)
    return None if rank is None else int(rank) + 1


async def overdue(redis: Client, release_id: str) -> list[QueuedRequest]:
    """Requests that have waited longer than `QUEUE_TIMEOUT_S`."""
    seconds, _ = await redis.time()
    before = (seconds - settings.QUEUE_TIMEOUT_S) * 1_000_000
    ids = await redis.zrangebyscore(redis_keys.queue(release_id), "-inf", before, start=0, num=1000)
    requests = await redis.mget([redis_keys.request(name.decode()) for name in ids]) if ids else []
    return [messages.decode_request(raw) for raw in requests if raw]


@dataclass(frozen=True, slots=True)
class LostLease:
    """What a lost replica had: its log ended with the entry at `last`; `entry` tells readers."""

    incarnation: str
    last: Position
    entry: Suspended


async def requeue(redis: Client, request: QueuedRequest, lost: LostLease | None = None) -> bool:
    """Put a suspended generation, or one of a lost replica, back, where its admission puts it.
    False if it isn't suspended in this turn; or not lost, or not as it was read.
    """
    keys = [redis_keys.lease(request.generation_id), *_keys(request)]
    args: list[Any] = [
        request.generation_id,
        request.tenant_id,
        messages.encode(msgspec.structs.replace(request, turn=request.turn + 1)),
        int(request.admitted_at * 1_000_000),
        _reserve_s(),
        settings.QUEUE_TIMEOUT_S * 1_000_000 // 2,
        request.turn,
    ]
    if lost is not None:
        keys += [redis_keys.replica(lost.incarnation), redis_keys.running(lost.incarnation)]
        entry, entry_id = messages.encode(lost.entry), f"{lost.entry.seq}-*"
        holder = leases.holder(lost.incarnation, request.turn)
        args += [holder, token_log.as_id(lost.last), entry, entry_id]
    return bool(await scripts.run(redis, "requeue", keys, args) == 1)


def _keys(request: QueuedRequest) -> list[str]:
    """What a request has in Redis while it waits, in the order the scripts take it."""
    return [
        redis_keys.queue(request.release_id),
        redis_keys.queue_tenants(request.release_id),
        redis_keys.queue_bell(request.release_id),
        redis_keys.request(request.generation_id),
        redis_keys.log(request.tenant_id, request.generation_id),
    ]


def _reserve_s() -> int:
    """How long a request and its log are kept while it waits and streams."""
    return int(settings.QUEUE_TIMEOUT_S + settings.LOG_TTL_S + LOG_RESERVE_S)


def timed_out(request: QueuedRequest) -> Failed:
    return Failed(
        seq=request.seq,
        code="queue_timeout",
        message="The request waited too long in the queue and was given up. Try again later.",
        retryable=True,
        usage=request.usage,
    )
