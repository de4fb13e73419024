"""A host charges for what it makes: while it makes it, once, and whatever happens to a call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from redis.exceptions import ConnectionError as RedisAway

from inference import queue, redis_keys
from inference.host.charging import Charging
from inference.host.run import Run
from inference.messages import Progress, QueuedRequest
from kernel.redis import Client
from tests.inference.making import leased, request


async def counter(redis: Client, tenant: str = "ten_a") -> float:
    key = f"{redis_keys.share('rel_a')}:standard:counters"
    return float(await redis.zscore(key, tenant) or 0)


async def running(redis: Client, asked: QueuedRequest | None = None) -> Run:
    return Run.of(await leased(redis, "inc_a", asked), now=0)


@pytest.fixture
def charging(redis: Client) -> Charging:
    return Charging(redis, "rel_a", "fake")


async def test_what_was_made_since_the_last_time_is_charged(
    redis: Client, charging: Charging
) -> None:
    run = await running(redis)
    charging.add(run)
    assert await counter(redis) == 3
    run.tail.seq = 5
    await charging.charge()
    assert await counter(redis) == 3 + 2 * 5
    run.tail.seq = 7
    await charging.charge()
    await charging.charge()
    assert await counter(redis) == 3 + 2 * 7


async def test_one_call_charges_for_all(
    redis: Client, charging: Charging, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge, calls = queue.charge, []

    async def counted(*args: Any, **more: Any) -> None:
        calls.append(args)
        await charge(*args, **more)

    monkeypatch.setattr(queue, "charge", counted)
    runs = [await running(redis, request(tenant)) for tenant in ("ten_a", "ten_b", "ten_b")]
    for run in runs:
        charging.add(run)
        run.tail.seq = 4
    await charging.charge()
    assert len(calls) == 1
    assert (await counter(redis), await counter(redis, "ten_b") >= 3 + 2 * 8) == (11, True)
    await charging.charge()
    assert len(calls) == 1, "nothing was made since"


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_call_that_fails_is_made_up_for_and_charges_once(
    redis: Client, charging: Charging, monkeypatch: pytest.MonkeyPatch, *, arrives: bool
) -> None:
    run = await running(redis)
    charging.add(run)
    run.tail.seq = 5
    charge = queue.charge

    async def failing(*args: Any, **more: Any) -> None:
        if arrives:
            await charge(*args, **more)
        raise RedisAway

    monkeypatch.setattr(queue, "charge", failing)
    with pytest.raises(RedisAway):
        await charging.charge()
    monkeypatch.setattr(queue, "charge", charge)
    run.tail.seq, run.ending = 6, True
    await charging.charge()
    assert await counter(redis) == 3 + 2 * 6


async def test_what_another_host_was_charged_for_is_not_charged_again(
    redis: Client, charging: Charging
) -> None:
    asked = request()
    progress = Progress(token_ids=[1, 2, 3, 4], text="four")
    # So long ago that nothing is known of it any more but its progress.
    run = await running(redis, msgspec.structs.replace(asked, progress=progress))
    charging.add(run)
    assert await counter(redis) == 0
    run.tail.seq = 6
    await charging.charge()
    assert await counter(redis) == 2 * 2


async def test_what_has_ended_and_is_charged_is_let_go(redis: Client, charging: Charging) -> None:
    run = await running(redis)
    charging.add(run)
    run.tail.seq, run.ending = 5, True
    await charging.charge()
    assert charging._runs == {}
