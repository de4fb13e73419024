"""What fair sharing means, one statement a test."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import cycle, islice

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as thoroughly
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from inference import queue, redis_keys
from inference.messages import QueuedRequest
from inference.queue import Charge
from kernel.redis import Client, client
from tenants.priority import PriorityClass
from tests.inference.crowd import MOST_OUTPUT, MOST_PROMPT, POOL, RELEASE, Crowd, Job

# Of a virtual counter among those that wait.
GAP = max(MOST_PROMPT, 2 * POOL)


@pytest.fixture
async def crowd(redis: Client) -> Crowd:
    return Crowd(redis)


async def taken(crowd: Crowd, most: int = 100) -> list[str]:
    """The tenants of what is taken now, in order, each ended at once without a token."""
    found = []
    while len(found) < most and (job := await crowd.take()):
        found.append(job.who[1])
        del crowd.running[job.id]
    return found


async def spend(crowd: Crowd, tenant: str, service: int) -> None:
    """Let a tenant have so much service alone."""
    job = await crowd.arrive(tenant, prompt=1)
    assert await crowd.take()
    await queue.charge(
        crowd.redis, RELEASE, [Charge(job.request, 0, service // 2)], now_us=crowd.now_us
    )
    del crowd.running[job.id]


JOBS = st.lists(
    st.tuples(st.integers(1, MOST_PROMPT), st.integers(1, MOST_OUTPUT)), min_size=1, max_size=12
)


@given(one=JOBS, other=JOBS, pace=st.integers(1, MOST_OUTPUT))
@thoroughly(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_two_that_both_wait_stay_within_the_bound_for_as_long_as_they_do(
    one: list[tuple[int, int]], other: list[tuple[int, int]], pace: int
) -> None:
    async def spell() -> None:
        redis = client()
        await redis.flushall()
        crowd, ahead = Crowd(redis), [0.0]
        for tenant, jobs in (("ten_a", one), ("ten_b", other)):
            for prompt, out in islice(cycle(jobs), 150):
                await crowd.arrive(tenant, prompt=prompt, out=out)
        while len(await crowd.counters("standard")) == 2 and len(ahead) < 60:
            while await crowd.take():
                pass
            crowd.make(pace)
            await crowd.end()
            had = [crowd.service.get(("standard", name), 0.0) for name in ("ten_a", "ten_b")]
            ahead.append(had[0] - had[1])
            counters = (await crowd.counters("standard")).values()
            assert max(counters, default=0) - min(counters, default=0) <= GAP
        assert max(ahead) - min(ahead) <= 2 * GAP
        await redis.aclose()

    asyncio.run(spell())


async def test_who_was_idle_has_saved_nothing_up(crowd: Crowd) -> None:
    await spend(crowd, "ten_b", 4)
    await spend(crowd, "ten_a", 5_000)
    for _ in range(6):
        await crowd.arrive("ten_a")
    for _ in range(6):
        await crowd.arrive("ten_b")
    assert Counter((await taken(crowd))[:6]) == {"ten_a": 3, "ten_b": 3}


async def test_who_comes_when_nobody_waits_begins_where_the_last_that_left_is(crowd: Crowd) -> None:
    await spend(crowd, "ten_a", 5_000)
    await crowd.arrive("ten_b")
    assert (await crowd.counters("standard"))["ten_b"] == 5_001


async def test_who_has_had_much_waits_until_the_others_have_had_as_much(crowd: Crowd) -> None:
    first = await crowd.arrive("ten_a")
    for tenant in ["ten_b", "ten_a"] * 20:
        await crowd.arrive(tenant)
    assert await crowd.take() is first
    await queue.charge(crowd.redis, RELEASE, [Charge(first.request, 0, 18)], now_us=crowd.now_us)
    del crowd.running[first.id]
    # 40 for a; 4 for each prompt of b.
    assert (await taken(crowd))[:11] == [*["ten_b"] * 10, "ten_a"]


async def test_shares_are_by_weight(crowd: Crowd) -> None:
    for _ in range(30):
        await crowd.arrive("ten_a")
        await crowd.arrive("ten_c")
    first = Counter(await taken(crowd, 30))
    assert first == {"ten_a": 10, "ten_c": 20}


async def test_where_counters_are_equal_the_earlier_comes_first(crowd: Crowd) -> None:
    for tenant in ("ten_z", "ten_m", "ten_a"):
        await crowd.arrive(tenant)
    assert await taken(crowd) == ["ten_z", "ten_m", "ten_a"]


async def test_nobody_is_passed_over_because_there_is_no_room_for_it(crowd: Crowd) -> None:
    large = await crowd.arrive("ten_a", prompt=8, out=20)
    await crowd.arrive("ten_b", prompt=1, out=1)
    crowd.running["other"] = Job(large.request, tokens=10)
    assert await crowd.take() is None
    del crowd.running["other"]
    assert await crowd.take() is large


# -- Classes


async def arrive_in_classes(crowd: Crowd, *classes: PriorityClass) -> None:
    for each in classes:
        await crowd.arrive(f"ten_{each}", each)


async def test_a_higher_class_comes_first(crowd: Crowd, settings: Settings) -> None:
    settings.CLASS_FLOOR = 0
    await arrive_in_classes(crowd, "batch", "standard", "interactive", "batch", "interactive")
    assert [name[4:] for name in await taken(crowd)] == [
        *("interactive", "interactive", "standard", "batch", "batch")
    ]


@pytest.mark.parametrize("floor", [0.05, 0.1, 0.25])
async def test_a_lower_class_gets_its_floor_and_never_starves(
    crowd: Crowd, settings: Settings, floor: float
) -> None:
    settings.CLASS_FLOOR = floor
    await arrive_in_classes(crowd, *["batch"] * 300, *["interactive"] * 300)  # type: ignore[list-item]
    first = Counter(await taken(crowd, 200))
    assert first["ten_batch"] / first["ten_interactive"] == pytest.approx(floor, rel=0.1)


async def test_what_a_class_is_owed_is_not_kept_while_it_does_not_wait(
    crowd: Crowd, settings: Settings
) -> None:
    settings.CLASS_FLOOR = 0.1
    await arrive_in_classes(crowd, "batch", *["interactive"] * 9)  # type: ignore[list-item]
    await taken(crowd, 9)
    await taken(crowd)
    await arrive_in_classes(crowd, *["interactive"] * 8, "batch")  # type: ignore[list-item]
    assert (await taken(crowd))[-1] == "ten_batch"


async def test_classes_share_apart(crowd: Crowd) -> None:
    """What a tenant has had in one class is not held against it in another."""
    job = await crowd.arrive("ten_a", "interactive")
    await taken(crowd)
    charge = Charge(job.request, 0, 5_000)
    await queue.charge(crowd.redis, RELEASE, [charge], now_us=crowd.now_us)
    await crowd.arrive("ten_a", "batch")
    await crowd.arrive("ten_b", "batch")
    assert await taken(crowd) == ["ten_a", "ten_b"]


# -- What goes on


async def test_what_was_interrupted_goes_before_what_has_not_begun(crowd: Crowd) -> None:
    running = await crowd.arrive("ten_a")
    await crowd.take()
    crowd.make(5)
    await crowd.end()
    await crowd.arrive("ten_b")
    await crowd.interrupt(running, interrupted=True, charged=True)
    assert await crowd.take() is running


async def test_what_its_reader_left_waits_its_tenants_turn(crowd: Crowd) -> None:
    running = await crowd.arrive("ten_a")
    await crowd.take()
    await crowd.arrive("ten_b")
    await crowd.arrive("ten_a")
    crowd.make(5)
    await crowd.interrupt(running, interrupted=False, charged=True)
    assert [(await crowd.take()).who[1] for _ in range(2)] == ["ten_b", "ten_a"]  # type: ignore[union-attr]
    assert running.id in crowd.running


@pytest.mark.parametrize("charged", [True, False])
async def test_an_interrupted_generation_is_charged_once_for_everything(
    crowd: Crowd, *, charged: bool
) -> None:
    """Though its first host, that was taken for dead, charges late, and the second one twice."""
    job = await crowd.arrive("ten_a", prompt=8, out=12)
    await crowd.take("inc_a")
    crowd.make(3)
    await crowd.charge()
    crowd.make(2)
    await crowd.interrupt(job, interrupted=True, charged=charged)
    await crowd.take("inc_b")
    late = Charge(job.request, 3, 5)
    await queue.charge(crowd.redis, RELEASE, [late, late], now_us=crowd.now_us)
    crowd.make(MOST_OUTPUT)
    await crowd.charge(again=True)
    counter = await crowd.redis.zscore(f"{redis_keys.share(RELEASE)}:standard:counters", "ten_a")
    assert counter == 8 + 2 * 12


async def test_what_was_taken_without_having_made_a_token_has_paid_for_its_prompt(
    crowd: Crowd,
) -> None:
    job = await crowd.arrive("ten_a", prompt=8)
    await crowd.take("inc_a")
    await crowd.interrupt(job, interrupted=True, charged=True)
    await crowd.take("inc_b")
    counter = await crowd.redis.zscore(f"{redis_keys.share(RELEASE)}:standard:counters", "ten_a")
    assert counter == 8


# -- Several hosts, and how much is kept


async def test_hosts_that_race_take_what_they_looked_at_and_each_of_it_once(crowd: Crowd) -> None:
    for number in range(40):
        await crowd.arrive(f"ten_{number % 3}", ("batch", "interactive")[number % 2])

    async def host(incarnation: str) -> list[str]:
        found: list[str] = []
        looked_at = ""

        def takes(request: QueuedRequest) -> bool:
            nonlocal looked_at
            looked_at = request.generation_id
            return True

        while len(crowd.waiting) > len(everything):
            if job := await queue.claim(
                crowd.redis, RELEASE, incarnation, takes=takes, now_us=crowd.now_us
            ):
                assert job.generation_id == looked_at
                found.append(job.generation_id)
                everything.append(job.generation_id)
                await queue.charge(crowd.redis, RELEASE, [Charge(job, 0, 3)], now_us=crowd.now_us)
        return found

    everything: list[str] = []
    hosts = [f"inc_{number}" for number in range(4)]
    for incarnation, mine in zip(hosts, await asyncio.gather(*map(host, hosts)), strict=True):
        held = await crowd.redis.hkeys(redis_keys.running(incarnation))
        assert sorted(name.decode() for name in held) == sorted(mine)
    assert sorted(everything) == sorted(crowd.waiting)


async def test_put_there_twice_it_waits_once(crowd: Crowd) -> None:
    job = await crowd.arrive("ten_a")
    assert await queue.enqueue(crowd.redis, job.request, now_us=crowd.now_us) == 1
    assert await taken(crowd) == ["ten_a"]
    assert await crowd.redis.hgetall(redis_keys.queue_tenants(RELEASE)) == {}


async def test_idle_tenants_are_forgotten_once_their_counters_mean_nothing(crowd: Crowd) -> None:
    patient = await crowd.arrive("ten_patient")
    for number in range(300):
        await crowd.withdraw(await crowd.arrive(f"ten_{number}"))
    rich = await crowd.arrive("ten_rich")
    await queue.charge(crowd.redis, RELEASE, [Charge(rich.request, 0, 900)], now_us=crowd.now_us)
    await crowd.withdraw(rich)

    async def others_come() -> set[str]:
        for number in range(60):
            crowd.now_us += 60_000_000
            await crowd.withdraw(await crowd.arrive(f"ten_new_{number % 5}"))
        return set(await crowd.counters("standard", of="counters"))

    kept = await others_come()
    assert {"ten_patient", "ten_rich"} <= kept
    assert len(kept) <= 7
    # Whoever comes is lifted to here, ten_rich too.
    late = Charge(patient.request, 0, 1_000)
    await queue.charge(crowd.redis, RELEASE, [late], now_us=crowd.now_us)
    assert "ten_rich" not in await others_come()


async def test_a_clock_that_goes_back_keeps_the_order_within_the_clocks_own_time(
    crowd: Crowd,
) -> None:
    await crowd.arrive("ten_a")
    crowd.now_us -= 3_600_000_000
    await crowd.arrive("ten_b")
    await crowd.arrive("ten_a")
    assert sorted(await taken(crowd)) == ["ten_a", "ten_a", "ten_b"]
    assert await queue.claim(crowd.redis, RELEASE, "inc_a") is None


@pytest.mark.parametrize(
    "lost", ["queue:rel_a", "queue-sizes:rel_a", "share:rel_a:standard:line:ten_a", "share:rel_a"]
)
async def test_what_redis_has_lost_blocks_nobody_else(crowd: Crowd, lost: str) -> None:
    """As a Redis may that is short of memory; in a script an error or a loop would be for ever."""
    going_on = await crowd.arrive("ten_a")
    await crowd.take()
    await crowd.interrupt(going_on, interrupted=True, charged=True)
    for tenant in ("ten_a", "ten_b"):
        for _ in range(2):
            gone = await crowd.arrive(tenant)
            await crowd.redis.delete(redis_keys.request(gone.id))
        await crowd.arrive(tenant)
    await crowd.redis.delete(f"{redis_keys.PREFIX}:{lost}")
    await crowd.redis.delete(redis_keys.request(going_on.id))
    found = []
    while request := await queue.claim(crowd.redis, RELEASE, "inc_a", now_us=crowd.now_us):
        found.append(request.tenant_id)
    assert found in (["ten_a", "ten_b"], ["ten_b"])
    await crowd.arrive("ten_c")
    assert await crowd.take()
