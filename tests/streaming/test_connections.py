"""Slots for connections and the queue for them: several processes' books on one Valkey."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from inference import redis_keys
from kernel.errors import Unavailable
from kernel.redis import Client, client
from streaming import connections as connecting
from streaming.connections import Connections, Slot, retry_after_s
from tenants.principal import Principal
from tests.ground import folders
from tests.ground.valkey import Valkey

Process = Callable[[], Connections]


def person(name: str = "a", tenant: str = "ten_a") -> Principal:
    return Principal(tenant, "user", name)


def allow(settings: Settings, *, everybody: int = 99, tenant: int = 99, own: int = 99) -> None:
    settings.SSE_LIMIT = everybody
    settings.SSE_LIMIT_PER_TENANT = tenant
    settings.SSE_LIMIT_PER_CLIENT = own


@pytest.fixture
async def process(redis: Client) -> AsyncIterator[Process]:
    """Makes web processes; they end without a word at the end of the test."""
    made: list[Connections] = []

    def new() -> Connections:
        made.append(Connections(redis))
        return made[-1]

    yield new
    for each in made:
        await kill(each)


async def kill(process: Connections) -> None:
    """As kill -9: what it held is neither renewed nor released."""
    while alive := [task for task in process._tasks if not task.done()]:
        for task in alive:  # more than once: redis-py may swallow a cancellation
            task.cancel()
        await asyncio.sleep(0.001)


async def held(redis: Client, which: str = "all", kind: str = "sse") -> int:
    return int(await redis.zcard(f"{redis_keys.connections(kind)}:{which}"))


async def turn(slot: Slot) -> list[int]:
    """The places told until it is its turn."""
    return [place async for place in slot.turn() if place is not None]


async def places(*slots: Slot) -> list[int | None]:
    """As they are once every process has looked."""
    for each in {slot._connections for slot in slots}:
        await each._look("sse")
    return [slot.place for slot in slots]


async def released(slot: Slot) -> None:
    """Closed, and Redis knows."""
    slot.close()
    closed, slot._connections._closed = slot._connections._closed, []
    await slot._connections._each_kind("release", closed)


@pytest.mark.parametrize(
    ("limit", "own", "other"),
    [
        ({"everybody": 2}, ("a", "ten_a"), None),
        ({"tenant": 2}, ("b", "ten_a"), ("a", "ten_b")),
        ({"own": 2}, ("a", "ten_a"), ("b", "ten_a")),
    ],
)
async def test_each_limit_holds_over_all_processes_and_for_nobody_else(
    limit: dict[str, int],
    own: tuple[str, str],
    other: tuple[str, str] | None,
    process: Process,
    settings: Settings,
) -> None:
    allow(settings, **limit)
    one, two = process(), process()
    first, second = await one.take("sse", person()), await two.take("sse", person())
    assert (first.place, second.place) == (0, 0)
    assert (await two.take("sse", person(*own))).place == 1
    if other is not None:
        assert (await two.take("sse", person(*other))).place == 0
    assert (await two.take("websocket", person(*own))).place == 0


async def test_never_more_than_allowed_however_they_come_and_go(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=12, tenant=8, own=3)
    settings.CONNECTION_QUEUE = 500
    dice = random.Random(7)  # noqa: S311 - a test's
    open_now: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def come_and_go(where: Connections, who: Principal) -> None:
        slot = await where.take("sse", who)
        try:
            await turn(slot)
            names = ("all", who.tenant_id, f"{who.tenant_id}/{who.id}")
            open_now.update(names)
            for name in names:
                most[name] = max(most[name], open_now[name])
            await asyncio.sleep(dice.random() / 100)
            # It is gone from the moment it says so, whenever Redis hears of it.
            open_now.subtract(names)
        finally:
            slot.close()

    processes = [process() for _ in range(3)]
    people = [person(name, tenant) for name in "abc" for tenant in ("ten_a", "ten_b", "ten_c")]
    visits = [(dice.choice(processes), dice.choice(people)) for _ in range(300)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(come_and_go(*visit) for visit in visits))
    assert 1 < most["all"] <= 12
    assert max(most[tenant] for tenant in ("ten_a", "ten_b", "ten_c")) <= 8
    assert max(most[f"{who.tenant_id}/{who.id}"] for who in people) <= 3
    await everything_is_free(redis)


async def everything_is_free(redis: Client) -> None:
    base = redis_keys.connections("sse")
    async with asyncio.timeout(10):
        while await redis.exists(f"{base}:all", f"{base}:waiting", f"{base}:waiting-leases"):
            await asyncio.sleep(0.01)
    assert not await redis.keys(f"{base}:tenant:ten_?")
    assert not await redis.keys(f"{base}:client:*:user:?")


async def test_places_move_up_and_the_first_comes_first(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=1)
    one, two = process(), process()
    holder = await one.take("sse", person())
    waiting = [await where.take("sse", person()) for where in (two, one, two)]
    assert [slot.place for slot in waiting] == [1, 2, 3]
    told = [asyncio.create_task(turn(slot)) for slot in waiting]
    await asyncio.sleep(0)
    holder.close()
    assert await told[0] == [1]
    assert await places(*waiting[1:]) == [1, 2]
    waiting[0].close()
    assert (await told[1])[-1] == 1
    waiting[1].close()
    last = await told[2]
    assert last[0] == 3
    assert last == sorted(last, reverse=True)
    waiting[2].close()
    await everything_is_free(redis)


async def test_whose_turn_it_is_learns_it_at_once(
    process: Process, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "WATCH_S", 200)
    settings.CONNECTION_LEASE_S = 600
    allow(settings, own=1)
    one, two = process(), process()
    holder, waiting = await one.take("sse", person()), await two.take("sse", person())
    told = asyncio.create_task(turn(waiting))
    await asyncio.sleep(0.05)  # it may be looking now, or wait to be woken
    holder.close()
    async with asyncio.timeout(20):
        assert await told == [1]


async def test_who_leaves_the_queue_gives_the_place_up(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=1)
    here = process()
    holder = await here.take("sse", person())
    waiting = [await here.take("sse", person()) for _ in range(3)]
    await released(waiting[0])
    assert await places(*waiting[1:]) == [1, 2]
    holder.close()
    assert (await turn(waiting[1]))[-1] == 1
    assert await held(redis) == 1


async def test_a_tenant_at_its_own_limit_keeps_nobody_else_waiting(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=4, tenant=2)
    here = process()
    of_a = [await here.take("sse", person()) for _ in range(2)]
    late = [await here.take("sse", person()) for _ in range(3)]
    of_b = [await here.take("sse", person("b", "ten_b")) for _ in range(2)]
    assert [slot.place for slot in of_b] == [0, 0]
    # All are taken now: one of another tenant waits behind nobody, since a's own are no rivals.
    third = await here.take("sse", person("c", "ten_c"))
    assert [slot.place for slot in (*late, third)] == [1, 2, 3, 1]
    await released(of_b[0])
    assert await places(third, *late) == [0, 1, 2, 3]
    await released(of_a[0])
    assert await places(*late) == [0, 1, 2]


async def test_a_full_queue_refuses_with_the_time_that_the_wait_would_take(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=1)
    settings.CONNECTION_QUEUE = 2
    here = process()
    await here.take("sse", person())
    await here.take("sse", person("b", "ten_b"))
    await here.take("sse", person("c", "ten_c"))
    with pytest.raises(Unavailable) as told:
        await here.take("sse", person("d", "ten_d"))
    assert told.value.code == "too_many_connections"
    assert told.value.retry_after_s == connecting.LONGEST_RETRY_S  # nothing came free lately
    seconds, micros = await redis.time()
    now_ms = seconds * 1000 + micros // 1000
    freed = [now_ms - 500 * step for step in range(1, 9)]
    await redis.rpush(f"{redis_keys.connections('sse')}:all:freed", *freed, now_ms - 120_000)
    with pytest.raises(Unavailable) as told:
        await here.take("sse", person("d", "ten_d"))
    # Two a second, for two that wait and oneself; a little passes between the two clocks' readings.
    assert told.value.retry_after_s == pytest.approx(1.5, rel=0.2)
    assert await redis.zcard(f"{redis_keys.connections('sse')}:waiting") == 2


def test_the_time_to_try_again() -> None:
    assert retry_after_s(9, 0, 0) == connecting.LONGEST_RETRY_S
    assert retry_after_s(9, 5, 10) == 20
    assert retry_after_s(0, 5, 10) == 2
    assert retry_after_s(1000, 2, 30) == connecting.LONGEST_RETRY_S


async def test_one_tenant_leaves_half_of_the_queue_to_the_others(
    process: Process, settings: Settings
) -> None:
    allow(settings, everybody=1)
    settings.CONNECTION_QUEUE = 4
    here = process()
    for _ in range(3):
        await here.take("sse", person())
    with pytest.raises(Unavailable):
        await here.take("sse", person("other"))
    assert (await here.take("sse", person("b", "ten_b"))).place == 3


async def test_what_a_killed_process_held_and_waited_for_comes_free(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=3)
    settings.CONNECTION_LEASE_S = 1
    doomed, other = process(), process()
    kept = await other.take("sse", person())
    for name in "abc":
        await doomed.take("sse", person(name))
    survivor = await other.take("sse", person("d"))
    assert survivor.place == 2
    await kill(doomed)
    async with asyncio.timeout(20):
        assert (await turn(survivor))[0] == 2
        while await held(redis) > 2:  # who was killed waiting may have been given a slot
            newcomer = await other.take("sse", person("e"))
            await released(newcomer)
    assert kept.place == 0
    assert (await other.take("sse", person("e"))).place == 0


async def test_what_is_held_and_waited_for_outlives_its_lease(
    process: Process, redis: Client, settings: Settings
) -> None:
    allow(settings, everybody=1)
    settings.CONNECTION_LEASE_S = 1
    one, two = process(), process()
    await one.take("sse", person())
    waiting = [await one.take("sse", person()), await two.take("sse", person())]
    await asyncio.sleep(2.5)
    assert await places(*waiting) == [1, 2]
    assert await held(redis) == 1
    for which in ("tenant:ten_a", "client:ten_a:user:a"):
        assert await held(redis, which) == 1


async def test_who_leaves_while_asking_holds_nothing(
    process: Process, redis: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = process()
    run = here._run

    async def granted_and_gone(*args: object) -> object:
        await run(*args)  # type: ignore[arg-type]
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(here, "_run", granted_and_gone)
        with pytest.raises(asyncio.CancelledError):
            await here.take("sse", person())
    await everything_is_free(redis)


async def test_closing_twice_is_closing_once(process: Process, redis: Client) -> None:
    here = process()
    slot, other = await here.take("sse", person()), await here.take("sse", person())
    await released(slot)
    slot.close()
    assert here._closed == []
    assert await held(redis) == 1
    other.close()
    await everything_is_free(redis)


@pytest.fixture
async def own_valkey(settings: Settings) -> AsyncIterator[Valkey]:
    """A Redis that this test may kill."""
    folder: Path = folders.short("nehir-valkey-")
    server = Valkey(folder / "valkey.sock").start()
    settings.REDIS_URL = server.url
    yield server
    await client().aclose()
    server.stop()


async def test_without_redis_new_ones_are_refused_and_the_others_stay(
    own_valkey: Valkey, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "OUTAGE_PAUSE_S", 0.02)
    allow(settings, everybody=2)
    settings.CONNECTION_LEASE_S = 0.6
    here = Connections(client())
    held_before = [await here.take("sse", person()) for _ in range(2)]
    waiting = await here.take("sse", person())
    own_valkey.kill()
    with pytest.raises(Unavailable) as told:
        await here.take("sse", person())
    assert told.value.retry_after_s is not None
    assert [slot.place for slot in (*held_before, waiting)] == [0, 0, 1]
    own_valkey.start()
    # It has forgotten everything; what is held is put back, and who waits is queued again.
    async with asyncio.timeout(20):
        while await held(client()) < 2:
            await asyncio.sleep(0.02)
    await turn(waiting) if waiting.place == 0 else held_before[0].close()
    async with asyncio.timeout(20):
        await turn(waiting)
    await kill(here)
