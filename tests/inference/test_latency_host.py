"""A host keeps the time between tokens within its routes' objectives, and lets others wait."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import pytest
from pytest_django.fixtures import Settings

from inference import control, queue, redis_keys, registry
from inference.engine.fake import FakeEngine
from inference.engine.protocol import Capabilities
from inference.host import latency
from inference.host.engine_host import EngineHost
from inference.host.room import Room, room
from inference.host.step_time import AIM
from inference.messages import Cancel, QueuedRequest, Reading, ReplicaRecord
from inference.models import Route
from inference.objectives import Objectives
from inference.services import objectives
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tenants.priority import PriorityClass
from tests.inference.making import START, Records, StoppedClock, request
from tests.inference.test_concurrency import taught


@pytest.fixture(autouse=True)
def _patient(settings: Settings) -> None:
    settings.DETACH_GRACE_S = 1e9


@asynccontextmanager
async def hosting(engine: FakeEngine, redis: Client, clock: Clock) -> AsyncIterator[EngineHost]:
    host = EngineHost(
        engine, redis, clock, replica="engine", release_id="rel_a", release_name="fake"
    )
    task = asyncio.create_task(host.run())
    try:
        yield host
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def an_engine() -> FakeEngine:
    return FakeEngine(ttft_s=0.001, itl_s=0.02)


class Rigid(FakeEngine):
    """Takes nobody's slot away."""

    capabilities = Capabilities(hold=True, restore=True)


async def queued(
    redis: Client, records: Records, priority_class: PriorityClass = "interactive"
) -> QueuedRequest:
    asked = msgspec.structs.replace(request(max_tokens=200), priority_class=priority_class)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    return asked


async def runs(redis: Client, count: int, of: QueuedRequest | None = None) -> ReplicaRecord:
    """Once so many run, among them that one; what the replica tells of itself then."""
    while True:
        for found in await registry.replicas(redis):
            taken = await registry.unsettled(redis, found.incarnation)
            there = of is None or of.generation_id in {each.generation_id for each in taken}
            if (len(taken), found.running, there) == (count, count, True):
                return found
        await asyncio.sleep(0.005)


async def cancel(redis: Client, where: ReplicaRecord, asked: list[QueuedRequest]) -> None:
    for each in asked:
        await control.send(redis, {where.incarnation: [Cancel(each.generation_id)]})


async def want(interactive_ms: int | None, **others: int) -> None:
    def change() -> None:
        fields = {f"itl_p95_{each}_ms": ms for each, ms in others.items()}
        Route.objects.update(itl_p95_interactive_ms=interactive_ms, **fields)

    await database(change)


def teach(host: EngineHost) -> None:
    """As if it had served for a while: 20 ms a step and 8 ms for each that runs."""
    before = host._runner.latency.concurrency
    after, _ = taught(before.objectives, base_s=0.020, slope_s=0.008)
    host._runner.latency.concurrency = after


async def test_others_wait_until_the_objective_allows_them(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a changed objective is kept without a restart."""
    monkeypatch.setattr(latency, "LEARN_EVERY_S", 0.01)
    await want(40)
    async with hosting(an_engine(), redis, StoppedClock()) as host:
        while not host.is_serving:
            await asyncio.sleep(0.005)
        teach(host)
        asked = [await queued(redis, records) for _ in range(7)]
        # 38 ms are aimed at, and two take 36.
        found = await runs(redis, 2)
        assert (found.limit, found.slots, found.objective_s) == (2, 64, 0.04)
        assert await queue.place(redis, "rel_a", asked[2].generation_id) == 1
        await want(60)
        assert (await runs(redis, 4)).limit == 4
        await want(None)
        assert (await runs(redis, 7)).limit == 64


async def test_batch_goes_further_until_an_interactive_one_waits(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    await want(40, batch=100)
    async with hosting(Rigid(ttft_s=0.001, itl_s=0.02), redis, StoppedClock()) as host:
        while not host.is_serving:
            await asyncio.sleep(0.005)
        teach(host)
        batch = [await queued(redis, records, "batch") for _ in range(12)]
        found = await runs(redis, 9)
        assert (found.limit, found.objective_s) == (9, 0.1)
        first = await queued(redis, records, "interactive")
        await cancel(redis, found, batch[:6])
        await runs(redis, 3)
        assert await queue.place(redis, "rel_a", first.generation_id) == 1
        await cancel(redis, found, batch[6:8])
        # The batch requests that wait still don't take the place that it waits for.
        assert (await runs(redis, 2, of=first)).limit == 2
        assert await redis.zcard(redis_keys.queue("rel_a")) == 3


async def test_an_engine_that_can_gives_a_tighter_class_its_room_at_once(
    redis: Client, records: Records
) -> None:
    """And has the others go on when it has ended, none of them lost."""
    await want(40, batch=100)
    engine = an_engine()
    async with hosting(engine, redis, StoppedClock()) as host:
        while not host.is_serving:
            await asyncio.sleep(0.005)
        teach(host)
        for _ in range(9):
            await queued(redis, records, "batch")
        await runs(redis, 9)
        first = await queued(redis, records, "interactive")
        # One of them may share its steps with it.
        while len((await engine.yielded()).now) != 8:
            await asyncio.sleep(0.005)
        found = (await registry.replicas(redis))[0]
        taken = await registry.unsettled(redis, found.incarnation)
        assert first.generation_id in {each.generation_id for each in taken}
        await want(None, batch=100)
        await host._runner.latency.learn_objectives("rel_a")
        while (await engine.yielded()).now:
            await asyncio.sleep(0.005)


async def test_a_host_without_room_for_what_is_next_takes_no_bell_of_others(
    redis: Client, records: Records
) -> None:
    await want(40, batch=100)
    async with hosting(Rigid(ttft_s=0.001, itl_s=0.02), redis, StoppedClock()) as host:
        while not host.is_serving:
            await asyncio.sleep(0.005)
        teach(host)
        for _ in range(3):
            await queued(redis, records, "batch")
        await runs(redis, 3)
        asked = await queued(redis, records)
        while not await redis.llen(redis_keys.queue_bell("rel_a")):
            await asyncio.sleep(0.005)
        taken = await queue.claim(redis, "rel_a", "inc_with_room")
        assert taken == asked


async def test_however_mixed_they_come_none_is_one_too_many(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = an_engine()
    async with hosting(engine, redis, StoppedClock()) as host:
        limits: dict[PriorityClass, int] = {"interactive": 2, "standard": 0, "batch": 9}
        monkeypatch.setattr(host._runner.latency, "limits", lambda: limits)
        assert room(engine, host._runner.census) == Room(2, ("interactive", "batch"))
        limits.clear()
        assert room(engine, host._runner.census) is None


async def test_a_database_that_is_away_changes_no_objective(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    async def away(release_id: str) -> Objectives:
        raise OperationalError("gone")

    await want(40)
    async with hosting(an_engine(), redis, StoppedClock()) as host:
        while not host.is_serving:
            await asyncio.sleep(0.005)
        monkeypatch.setattr(objectives, "of_release", away)
        await host._runner.latency.learn_objectives("rel_a")
        assert host._runner.latency.concurrency.objectives == Objectives({"interactive": 0.04})


async def test_a_release_has_the_tightest_objectives_of_its_routes(records: Records) -> None:
    def build() -> None:
        release = records.route.release
        Route.objects.create(name="b", release=release, itl_p95_batch_ms=90)
        Route.objects.create(
            name="c", release=release, itl_p95_batch_ms=70, itl_p95_interactive_ms=30
        )
        Route.objects.create(name="d", release=release, itl_p95_batch_ms=10, is_active=False)

    await database(build)
    assert await objectives.of_release("rel_a") == Objectives({"interactive": 0.03, "batch": 0.07})
    assert await objectives.of_release("rel_b") == Objectives()


# -- Over an engine whose steps take longer the more run, in time that goes on as the test says


@dataclass(slots=True)
class Hours:
    """A clock that goes to the next moment that somebody sleeps until."""

    seconds: float = 0.0
    _sleepers: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._numbers), woken))
        await woken

    def go_on(self) -> None:
        """Wake all that sleep until the next moment."""
        if not self._sleepers:
            return
        self.seconds = max(self.seconds, self._sleepers[0][0])
        while self._sleepers and self._sleepers[0][0] <= self.seconds:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)


async def hours_pass(hours: Hours, until: Callable[[], bool], *, ready: Callable[[], bool]) -> None:
    """ready: whether whatever is to happen at this moment has happened"""
    while not until():
        await asyncio.sleep(0.001 if not ready() else 0)
        if ready():
            hours.go_on()
            for _ in range(3):
                await asyncio.sleep(0)


BASE_S, PER_REQUEST_S, OBJECTIVE_MS = 0.020, 0.002, 42
LARGEST = int((AIM * OBJECTIVE_MS / 1000 - BASE_S) / PER_REQUEST_S)


async def test_it_finds_how_many_may_run(redis: Client, records: Records) -> None:
    await want(OBJECTIVE_MS)
    hours = Hours()
    engine = FakeEngine(
        ttft_s=0.05,
        itl_s=BASE_S,
        itl_per_request_s=PER_REQUEST_S,
        now=hours.monotonic,
        sleep=hours.sleep,
    )
    for _ in range(60):
        await queued(redis, records)
    async with hosting(engine, redis, hours) as host:
        await hours_pass(hours, lambda: host.is_serving, ready=lambda: True)
        eyes = host._runner.latency
        seen: list[int] = [int(eyes.told()["limit"])]

        def full() -> bool:
            return room(engine, host._runner.census) is None

        def settled() -> bool:
            if seen[-1] != eyes.told()["limit"]:
                seen.append(int(eyes.told()["limit"]))
            return hours.seconds > 25

        await hours_pass(hours, settled, ready=full)
        told = eyes.told()
        assert abs(told["limit"] - LARGEST) <= 1
        assert told["itl_p95_s"] <= OBJECTIVE_MS / 1000
        # Before the first there was nothing to count an objective of.
        assert (seen[0], max(seen[1:]) <= LARGEST + 2) == (64, True)
        running = [run for run in host._runner.runs() if not run.ending]
        assert len(running) <= max(seen[-2:])


async def test_time_in_which_it_was_held_is_no_time_between_tokens(
    redis: Client, records: Records
) -> None:
    hours = Hours()
    engine = FakeEngine(ttft_s=0.05, itl_s=0.02, now=hours.monotonic, sleep=hours.sleep)
    asked = request(max_tokens=200, high_water_tokens=60)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    gaps: list[float] = []
    async with hosting(engine, redis, hours) as host:
        eyes, runner = host._runner.latency.concurrency, host._runner
        eyes.delivered = lambda gap_s, *, now: gaps.append(gap_s)  # type: ignore[method-assign]
        for read in (0, 60, 120):
            held = lambda: runner.census.held == 1  # noqa: E731
            await hours_pass(hours, held, ready=lambda: True)
            hours.seconds += 50
            message = Reading(asked.generation_id, "web", read, 60)
            if read:
                await runner.handle(message)
                await hours_pass(hours, lambda: len(gaps) > 70, ready=lambda: True)
    assert max(gaps) == pytest.approx(0.02)
