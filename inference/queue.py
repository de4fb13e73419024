"""The admission queue of a release, bounded, in Redis: priority class, then fair share between
tenants, then arrival. `lua/fair_share.lua` decides; nothing else does.

A replica takes a request only when it can start it; taking, leasing and the log's Started entry are
one step. Moments are microseconds of Unix time; without one the server's own clock counts, which is
the same for all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings

from inference import (
    forecast,
    leases,
    messages,
    prefixes,
    queue_snapshot,
    redis_keys,
    scripts,
    token_log,
)
from inference.claiming import Claimed, moment, release_keys, reserve_s, take
from inference.forecast import Costs
from inference.messages import Failed, Final, Opened, QueuedRequest, Suspended
from inference.token_log import Position
from kernel.errors import QueueFull
from kernel.redis import Client
from tenants.priority import CLASSES, PriorityClass


async def enqueue(redis: Client, request: QueuedRequest, *, now_us: int | None = None) -> int:
    """Queue a request and open its log; how many wait now, it included. Raises QueueFull."""
    opened = Opened(prompt_tokens=len(request.engine_request.prompt_token_ids))
    accepted, detail = await scripts.run(
        redis,
        "enqueue",
        _keys(request),
        [
            *_who(request),
            moment(now_us),
            messages.encode(request),
            _size(request),
            messages.encode(opened),
            settings.QUEUE_LIMIT,
            settings.QUEUE_LIMIT_PER_TENANT,
            reserve_s(),
            prefixes.of(request),
        ],
    )
    if not accepted:
        whose = "The queue of your organisation" if detail == b"tenant" else "The model's queue"
        raise QueueFull(f"{whose} is full. Try again in a few seconds.", retry_after_s=5)
    return int(detail)


async def claim(
    redis: Client,
    release_id: str,
    incarnation: str,
    *,
    takes: Callable[[QueuedRequest], bool] | None = None,
    classes: Sequence[PriorityClass] = CLASSES,
    now_us: int | None = None,
) -> QueuedRequest | None:
    """The request whose turn it is, now leased to this incarnation, or None.

    takes: whether the host has room for it; None then, since nobody is passed over
    classes: as `claiming.claim_or_leave`
    """
    only = ""
    if takes is not None:
        following = await scripts.run(
            redis,
            "next",
            release_keys(release_id),
            [redis_keys.PREFIX, settings.INPUT_TOKEN_COST, classes[-1]],
        )
        if not following or not takes(seen := messages.decode_request(following)):
            return None
        only = seen.generation_id
    taken = await take(redis, release_id, incarnation, only=only, classes=classes, now_us=now_us)
    return taken.request if isinstance(taken, Claimed) else None


@dataclass(frozen=True, slots=True)
class Charge:
    """A generation's tokens: how many its replica knows to be charged, and how many it has made."""

    request: QueuedRequest
    charged: int
    made: int


async def charge(
    redis: Client, release_id: str, charges: Sequence[Charge], *, now_us: int | None = None
) -> None:
    """Charge tenants for what their generations have made, in one call for all."""
    args: list[str | int | float] = [
        redis_keys.PREFIX,
        settings.OUTPUT_TOKEN_COST,
        settings.CLASS_FLOOR,
        moment(now_us),
        reserve_s(),
    ]
    for each in charges:
        request = each.request
        args += [request.generation_id, request.priority_class, request.tenant_id, request.weight]
        args += [each.charged, each.made]
    await scripts.run(redis, "charge", [redis_keys.share(release_id)], args)


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
        [*_who(request), messages.encode(final), settings.LOG_TTL_S, f"{final.seq}-*"],
    )
    return bool(done == 1)


async def place(redis: Client, release_id: str, generation_id: str) -> int | None:
    """Place in the queue, 1 being next, if nobody else comes; None if it doesn't wait (any more).

    Reads the whole queue: for one look. Readers are told by `services.estimates`.
    """
    ahead = forecast.order(await queue_snapshot.read(redis, release_id), costs())
    ids = [each.generation_id for each in ahead]
    return ids.index(generation_id) + 1 if generation_id in ids else None


def costs() -> Costs:
    return Costs(settings.INPUT_TOKEN_COST, settings.OUTPUT_TOKEN_COST, settings.CLASS_FLOOR)


async def overdue(
    redis: Client, release_id: str, *, now_us: int | None = None
) -> list[QueuedRequest]:
    """Requests that have waited longer than `QUEUE_TIMEOUT_S`."""
    if now_us is None:
        seconds, microseconds = await redis.time()
        now_us = seconds * 1_000_000 + microseconds
    before = now_us - settings.QUEUE_TIMEOUT_S * 1_000_000
    ids = await redis.zrangebyscore(redis_keys.queue(release_id), "-inf", before, start=0, num=1000)
    requests = await redis.mget([redis_keys.request(name.decode()) for name in ids]) if ids else []
    return [messages.decode_request(raw) for raw in requests if raw]


@dataclass(frozen=True, slots=True)
class LostLease:
    """What a lost replica had: its log ended with the entry at `last`; `entry` tells readers."""

    incarnation: str
    last: Position
    entry: Suspended


async def requeue(
    redis: Client,
    request: QueuedRequest,
    lost: LostLease | None = None,
    *,
    interrupted: bool = True,
    now_us: int | None = None,
) -> bool:
    """Put a suspended generation, or one of a lost replica, back, where its admission puts it.
    False if it isn't suspended in this turn; or not lost, or not as it was read.

    interrupted: by the platform, so it goes before those of its class that have not begun; else it
    waits where its admission puts it among its tenant's
    """
    keys = [*_keys(request), redis_keys.lease(request.generation_id)]
    args: list[Any] = [
        *_who(request),
        moment(now_us),
        messages.encode(msgspec.structs.replace(request, turn=request.turn + 1)),
        _size(request),
        int(request.admitted_at * 1_000_000),
        reserve_s(),
        settings.QUEUE_TIMEOUT_S * 1_000_000 // 2,
        int(interrupted),
        request.turn,
        prefixes.of(request),
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
        redis_keys.queue_sizes(request.release_id),
        redis_keys.share(request.release_id),
        redis_keys.request(request.generation_id),
        redis_keys.log(request.tenant_id, request.generation_id),
    ]


def _who(request: QueuedRequest) -> list[str]:
    return [request.generation_id, request.tenant_id, request.priority_class]


def _size(request: QueuedRequest) -> str:
    """What forecasting and charging need, without the request's own bulk."""
    engine = request.engine_request
    prompt, most = len(engine.prompt_token_ids), engine.sampling.max_tokens
    return f"{prompt} {most} {request.weight} {request.priority_class} {request.tenant_id}"


def timed_out(request: QueuedRequest) -> Failed:
    return Failed(
        seq=request.seq,
        code="queue_timeout",
        message="The request waited too long in the queue and was given up. Try again later.",
        retryable=True,
        usage=request.usage,
    )
