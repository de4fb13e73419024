"""Clocks that jump: a web process's, an engine host's, Redis's. Durations are measured by monotonic
clocks and by Redis; the time of day only dates records, and puts nobody out of place.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec
import pytest
from pytest_django.fixtures import Settings

from inference import queue, redis_keys
from inference.engine.protocol import Sampling
from inference.host import engine_host
from inference.messages import QueuedRequest, encode
from inference.models import State
from inference.pipeline.admission import Admission
from inference.services import generations, recovery
from kernel.clock import SystemClock
from kernel.database import database
from kernel.redis import Client
from streaming.answer import Stopwatch
from tenants.principal import Principal
from tests.inference.making import Records, StoppedClock, request
from tests.inference.test_engine_host import ended, hosting, quick
from tests.inference.test_takeover import lose, next_turn, running

DAY = timedelta(days=1)
BOTH_WAYS = pytest.mark.parametrize("jump", [DAY, -DAY], ids=["forward", "back"])


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(engine_host, "BLOCK_S", 0.1)


class JumpingClock(SystemClock):
    """The time of day is set while it runs; its monotonic time isn't touched by that."""

    def __init__(self) -> None:
        self.by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.by


@BOTH_WAYS
async def test_a_host_whose_clock_jumps_finishes_what_it_runs(
    redis: Client, records: Records, settings: Settings, jump: timedelta
) -> None:
    settings.DETACH_GRACE_S = 30
    clock = JumpingClock()
    asked = request(max_tokens=40)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    async with hosting(quick(itl_s=0.01), redis, clock=clock):
        while not await redis.exists(redis_keys.lease(asked.generation_id)):
            await asyncio.sleep(0.005)
        clock.by = jump
        found = await ended(records, asked)
        later = request()
        await database(records.open, later)
        await queue.enqueue(redis, later)
        assert (await ended(records, later)).state == State.FINISHED
    assert (found.state, found.output_tokens) == (State.FINISHED, 40)


@BOTH_WAYS
async def test_a_web_process_whose_clock_is_wrong_is_served_like_the_others(
    redis: Client, records: Records, jump: timedelta
) -> None:
    clock = JumpingClock()
    clock.by = jump
    principal = Principal("ten_a", "service_account", "sva_a", key_id="key_a")
    say = [{"role": "user", "content": "hi"}]
    asked = Admission(principal, "fake", say, Sampling(5), 5, now=clock.now())
    admitted = await generations.admit(asked, clock)
    # Its time to first token is never negative, whenever the clock is put right.
    assert Stopwatch(admitted, SystemClock(), "json")._seconds() >= 0
    assert await queue.overdue(redis, "rel_a") == []
    assert asked.request is not None
    async with hosting(quick(), redis):
        found = await ended(records, asked.request)
    assert (found.state, found.output_tokens) == (State.FINISHED, 5)


@BOTH_WAYS
async def test_what_goes_on_comes_neither_too_late_nor_is_it_given_up(
    redis: Client, records: Records, jump: timedelta
) -> None:
    """Admitted by a clock that was wrong, then taken over: it goes before what has not begun, waits
    no longer than others may, and is not overdue as soon as it waits.
    """
    seconds, _ = await redis.time()
    asked = msgspec.structs.replace(
        await running(redis, records, tokens=3), admitted_at=seconds + jump.total_seconds()
    )
    await redis.hset(redis_keys.running("inc_a"), asked.generation_id, encode(asked))
    await queue.enqueue(redis, request())
    assert await lose(redis) == 1
    assert await queue.overdue(redis, "rel_a") == []
    moment = int(await redis.zscore(redis_keys.queue("rel_a"), asked.generation_id))
    seconds, microseconds = await redis.time()
    assert moment <= seconds * 1_000_000 + microseconds
    assert (await next_turn(redis)).generation_id == asked.generation_id


async def test_redis_whose_clock_goes_forward_gives_up_what_waits_and_keeps_what_runs(
    redis: Client, records: Records, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.QUEUE_TIMEOUT_S = 60
    runs = await running(redis, records, tokens=3)
    waits = await enqueued(redis, records)
    seconds, _ = await redis.time()
    overdue = queue.overdue

    async def a_day_later(client: Client, release_id: str) -> list[QueuedRequest]:
        return await overdue(client, release_id, now_us=(seconds + 86_400) * 1_000_000)

    monkeypatch.setattr(queue, "overdue", a_day_later)
    assert await recovery.close_overdue(redis, StoppedClock()) == 1
    given_up = await database(records.of, waits)
    assert (given_up.state, given_up.error_code) == (State.FAILED, "queue_timeout")
    assert (await database(records.of, runs)).state == State.OPEN
    assert await redis.exists(redis_keys.lease(runs.generation_id))


async def test_redis_whose_clock_goes_back_serves_what_waits_and_what_comes(
    redis: Client, records: Records
) -> None:
    """Two that came before it and one after: each once, and none is given up."""
    seconds, _ = await redis.time()
    asked = []
    for moment in (seconds, seconds + 1, seconds - 86_400):
        each = request()
        await database(records.open, each)
        await queue.enqueue(redis, each, now_us=moment * 1_000_000)
        asked.append(each)
    async with hosting(quick(), redis):
        for each in asked:
            assert (await ended(records, each)).state == State.FINISHED


async def enqueued(redis: Client, records: Records) -> QueuedRequest:
    asked = request()
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    return asked
