from __future__ import annotations

import asyncio

import pytest
from pytest_django.fixtures import Settings

from inference import metrics, queue, queue_snapshot, redis_keys
from inference.forecast import Wait
from inference.queue import Charge
from inference.services import estimates
from kernel.redis import Client
from tests.inference.crowd import RELEASE, Crowd


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases whose queues were read."""
    read, seen = queue_snapshot.read, []

    async def counted(
        redis: Client, release_id: str, *, now_us: int | None = None
    ) -> queue_snapshot.Snapshot:
        seen.append(release_id)
        return await read(redis, release_id, now_us=now_us)

    monkeypatch.setattr(queue_snapshot, "read", counted)
    return seen


async def busy(redis: Client, waiting: int) -> None:
    """Requests that wait behind some that were served lately, by the server's own clock."""
    await estimates.note_outputs(redis, RELEASE, [100] * 10)
    seconds, _ = await redis.time()
    crowd = Crowd(redis, now_us=(seconds - 10) * 1_000_000)
    running = [await crowd.arrive("ten_a", out=4) for _ in range(3)]
    for _ in range(waiting):
        await crowd.arrive("ten_a")
    for second in range(9):
        crowd.now_us += 1_000_000
        if second < 3:
            await crowd.take()
        made = [Charge(job.request, second * 100, second * 100 + 100) for job in running]
        await queue.charge(redis, RELEASE, made, now_us=crowd.now_us)


async def test_all_that_wait_share_one_forecast(redis: Client, reads: list[str]) -> None:
    await busy(redis, 30)
    forecasts = estimates.Forecasts()
    made = await asyncio.gather(*(forecasts.of(redis, RELEASE) for _ in range(50)))
    assert reads == [RELEASE]
    assert all(each is made[0] for each in made)
    assert len(made[0].waits) == len(made[0].positions) == 30


async def test_another_is_made_when_the_last_is_old(
    redis: Client, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forecasts = estimates.Forecasts()
    monkeypatch.setattr(estimates, "FRESH_S", -1e9)
    monkeypatch.setattr(estimates, "PAUSE", 0)
    await forecasts.of(redis, RELEASE)
    await forecasts.of(redis, RELEASE)
    assert len(reads) == 2


async def test_what_came_corrects_what_is_told_next_and_is_counted(redis: Client) -> None:
    await busy(redis, 3)
    forecasts = estimates.Forecasts()
    first = (await forecasts.make(redis, RELEASE)).waits
    told = Wait(1.0, 2.0, "standard")
    counted = metrics.WAIT_ESTIMATES.labels("fake", "standard", "missed")
    before = counted._value.get()
    for _ in range(20):
        forecasts.came(RELEASE, "fake", told, waited_s=9.0)
    second = (await forecasts.make(redis, RELEASE)).waits
    assert counted._value.get() == before + 20
    correction = float(await redis.hget(redis_keys.corrections(RELEASE), "standard"))
    assert correction == pytest.approx(20 * 0.05 * 0.9)
    for name, wait in second.items():
        assert wait.p50_s == pytest.approx(first[name].p50_s, rel=0.3)
        assert wait.p90_s > first[name].p90_s * 1.5


async def test_a_client_that_is_refused_is_told_when_places_will_be_free(
    redis: Client, settings: Settings
) -> None:
    assert await estimates.retry_after_s(redis, "rel_unknown", "ten_a") is None
    await busy(redis, 100)
    whole = await estimates.retry_after_s(redis, RELEASE, "ten_b")
    settings.QUEUE_LIMIT_PER_TENANT = 100
    own = await estimates.retry_after_s(redis, RELEASE, "ten_a")
    made = await estimates.forecasts().of(redis, RELEASE)
    latest = max(wait.p50_s for wait in made.waits.values())
    assert whole is not None
    assert own is not None
    assert 1 <= whole <= latest / 5 + 1, "rounded up"
    assert own == whole
