"""A forecast says what the queue's own scripts will do."""

from __future__ import annotations

import asyncio
import dataclasses
import random

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as thoroughly
from hypothesis import strategies as st

from inference import capacity, forecast, queue, queue_snapshot, registry
from inference.capacity import Capacity
from inference.forecast import Costs
from inference.messages import ReplicaRecord
from inference.queue import Charge
from inference.queue_snapshot import Demand, Snapshot, Waiting
from inference.services import estimates
from kernel.redis import Client, client
from tenants.priority import CLASSES, PriorityClass
from tests.inference.crowd import MOST_OUTPUT, RELEASE, WEIGHTS, Crowd, Job

COSTS = Costs(1, 2, 0.05)
ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from(sorted(WEIGHTS)),
        st.sampled_from(CLASSES),
        st.integers(1, 8),
    ),
    min_size=1,
    max_size=25,
)


@given(before=ARRIVALS, arrivals=ARRIVALS)
@thoroughly(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_order_foreseen_is_the_order_that_comes(
    before: list[tuple[str, PriorityClass, int]], arrivals: list[tuple[str, PriorityClass, int]]
) -> None:
    """If nobody else comes and answers are as long as they may be; places count down by one."""

    async def check() -> None:
        redis = client()
        await redis.flushall()
        crowd = Crowd(redis)
        for tenant, priority_class, prompt in before:
            await crowd.arrive(tenant, priority_class, prompt)
        for _ in before:
            await take_and_charge(crowd)
        for tenant, priority_class, prompt in arrivals:
            await crowd.arrive(tenant, priority_class, prompt)
        snapshot = await queue_snapshot.read(redis, RELEASE, now_us=crowd.now_us)
        foreseen = [each.generation_id for each in forecast.order(snapshot, queue.costs())]
        last = foreseen[-1]
        places = []
        came = []
        while crowd.waiting:
            places.append(await queue.place(redis, RELEASE, last))
            came.append((await take_and_charge(crowd)).id)
        assert came == foreseen
        assert places == list(range(len(foreseen), 0, -1))
        await redis.aclose()

    asyncio.run(check())


async def take_and_charge(crowd: Crowd) -> Job:
    job = await crowd.take()
    assert job
    charge = Charge(job.request, 0, MOST_OUTPUT)
    await queue.charge(crowd.redis, RELEASE, [charge], now_us=crowd.now_us)
    del crowd.running[job.id]
    return job


def waiting(name: str, tenant: str = "ten_a", *, goes_on: bool = False, at: int = 0) -> Waiting:
    return Waiting(name, tenant, "standard", 100, 1000, 1.0, at, goes_on)


def snapshot(*requests: Waiting, demands: tuple[Demand, ...] = (), rate: float = 100) -> Snapshot:
    return Snapshot(list(requests), {}, {}, rate, [50, 50, 50], demands)


def waits(of: Snapshot) -> dict[str, forecast.Wait]:
    return forecast.waits(of, COSTS, random.Random(1))  # noqa: S311


def test_a_wait_is_the_service_before_it_at_the_rate_of_late() -> None:
    found = waits(snapshot(waiting("a"), waiting("b", at=1)))
    # Each is 100 tokens of prompt and 50 of answer: 200 by their costs, two seconds.
    assert (found["a"].p50_s, found["b"].p50_s) == (2, 4)


def test_what_goes_on_comes_first_and_has_paid_for_its_prompt() -> None:
    found = waits(snapshot(waiting("a"), waiting("b", goes_on=True, at=1)))
    assert (found["b"].p50_s, found["a"].p50_s) == (1, 3)


def test_who_often_comes_meanwhile_is_reckoned_with() -> None:
    queued = [waiting(f"a{number}", at=number) for number in range(40)]
    others = Demand("standard", "ten_b", per_s=0.25, prompt_tokens=100, weight=1.0)
    alone, crowded = waits(snapshot(*queued)), waits(snapshot(*queued, demands=(others,)))
    # Half of the service is theirs then.
    assert crowded["a39"].p50_s == pytest.approx(2 * alone["a39"].p50_s, rel=0.2)
    higher = Demand("interactive", "ten_b", per_s=0.25, prompt_tokens=100, weight=1.0)
    assert waits(snapshot(*queued, demands=(higher,)))["a39"].p50_s > alone["a39"].p50_s * 1.6


def limited(*requests: Waiting, capacity: Capacity) -> dict[str, forecast.Wait]:
    return waits(dataclasses.replace(snapshot(*requests), capacity=capacity))


def test_what_runs_beyond_what_may_ends_first() -> None:
    queued = waiting("a"), waiting("b", at=1)
    free = limited(*queued, capacity=Capacity())
    full = limited(*queued, capacity=Capacity(beyond=3))
    # Three more, each of 200 at 100 a second.
    assert [full[each].p50_s - free[each].p50_s for each in "ab"] == [6, 6]


def test_no_more_is_made_than_what_may_run_makes() -> None:
    """However much was made before the limit was lowered."""
    queued = waiting("a"), waiting("b", at=1)
    # An answer's token goes with two of a prompt's: 4 of service, so 100 a second are 25 tokens.
    for tokens_per_s, slower in ((5.0, 5), (12.5, 2), (25.0, 1), (100.0, 1)):
        found = limited(*queued, capacity=Capacity(tokens_per_s=tokens_per_s))
        assert found["a"].p50_s == pytest.approx(2 * slower)
        assert found["b"].p50_s == pytest.approx(4 * slower)


def replica(**values: float) -> ReplicaRecord:
    record = ReplicaRecord("engine", "inc_a", "rel_a", "fake", "ready")
    return msgspec.structs.replace(record, **values)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], Capacity()),
        # Of a version that tells nothing of it, and one with all its slots.
        ([replica(running=9)], Capacity()),
        ([replica(running=70, slots=64, limit=64, limit_tokens_per_s=900.0)], Capacity()),
        (
            [replica(running=9, waiting=3, slots=64, limit=8, limit_tokens_per_s=300.0)],
            Capacity(4, 300.0),
        ),
        ([replica(running=2, slots=64, limit=8)], Capacity(0, None)),
        # What one may not run, the other takes.
        (
            [
                replica(running=9, slots=64, limit=4, limit_tokens_per_s=100.0),
                replica(running=1, slots=64, limit=4, limit_tokens_per_s=100.0),
            ],
            Capacity(2, 200.0),
        ),
        (
            [
                replica(running=9, slots=64, limit=4, limit_tokens_per_s=100.0),
                replica(running=1, slots=64, limit=64, limit_tokens_per_s=100.0),
            ],
            Capacity(),
        ),
    ],
)
def test_the_capacity_of_replicas(records: list[ReplicaRecord], expected: Capacity) -> None:
    assert capacity.of(records) == expected


async def test_a_forecast_reckons_with_what_may_run(redis: Client) -> None:
    crowd = Crowd(redis)
    for _ in range(12):
        await crowd.arrive("ten_a", prompt=8)
    for _ in range(10):
        crowd.now_us += 1_000_000
        await take_and_charge(crowd)
    await estimates.note_outputs(redis, RELEASE, [MOST_OUTPUT] * 5)
    made = [await estimates.Forecasts().make(redis, RELEASE, now_us=crowd.now_us + 1_000_000)]
    told = replica(running=20, slots=64, limit=10, limit_tokens_per_s=1.0)
    await registry.renew(redis, told, timeout_s=60)
    made.append(await estimates.Forecasts().make(redis, RELEASE, now_us=crowd.now_us + 1_000_000))
    before, after = (min(wait.p50_s for wait in each.waits.values()) for each in made)
    assert after > 20 * before


def test_a_long_tail_is_in_the_p90_and_not_in_the_p50() -> None:
    of = Snapshot([waiting("a")], {}, {}, 100, [10] * 80 + [900] * 20)
    found = waits(of)["a"]
    assert found.p50_s == pytest.approx(1.2)
    assert found.p90_s == pytest.approx(19)


@pytest.mark.parametrize(
    "of",
    [
        Snapshot([waiting("a")], {}, {}, 0, [50] * 9),
        Snapshot([waiting("a")], {}, {}, 100, [50] * 2),
    ],
    ids=["nothing was done", "no answer has ended"],
)
def test_nothing_is_said_where_nothing_is_known(of: Snapshot) -> None:
    assert waits(of) == {}


def test_corrections_settle_where_nine_of_ten_come_true() -> None:
    """Whatever the replay doesn't know: here every wait is several times as long as foreseen."""
    chance = random.Random(4)  # noqa: S311
    factor, covered = 0.0, []
    for _ in range(2_000):
        actual = 4 * chance.lognormvariate(0, 1)
        of = Snapshot([waiting("a")], {}, {}, 100, [50] * 9, corrections={"standard": factor})
        was_longer = actual > waits(of)["a"].p90_s
        factor += forecast.correction(was_longer=was_longer)
        covered.append(not was_longer)
    assert sum(covered[200:]) / len(covered[200:]) == pytest.approx(0.9, abs=0.02)


async def test_a_snapshot_says_what_was_done_and_asked_for_lately(redis: Client) -> None:
    crowd = Crowd(redis)
    for _ in range(12):
        await crowd.arrive("ten_a", prompt=8)
    for _ in range(10):
        crowd.now_us += 1_000_000
        await take_and_charge(crowd)
    read = await queue_snapshot.read(redis, RELEASE, now_us=crowd.now_us + 1_000_000)
    assert read.service_rate == pytest.approx(8 + 2 * MOST_OUTPUT, rel=0.15)
    (demand,) = read.demands
    assert (demand.tenant_id, demand.prompt_tokens) == ("ten_a", 8)
    assert demand.per_s == pytest.approx(12 / 60, rel=0.3)
    long_after = await queue_snapshot.read(redis, RELEASE, now_us=crowd.now_us + 10**9)
    assert (long_after.service_rate, list(long_after.demands)) == (0, [])
