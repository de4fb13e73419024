"""A host whose engine is full of a lower class takes what is of a higher one."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from prometheus_client import REGISTRY
from pytest_django.fixtures import Settings

from inference import queue, redis_keys, registry
from inference.engine.fake import FakeEngine
from inference.engine.protocol import Capabilities, EngineDead, EngineError, Load, Yielded
from inference.host import runner
from inference.host.room import Room, room
from inference.host.run import Run
from inference.host.tally import Tally
from inference.host.yielding import Yielding
from inference.messages import QueuedRequest
from inference.models import Generation
from kernel.database import database
from kernel.redis import Client
from tenants.priority import CLASSES, RANKS, PriorityClass
from tests.inference.making import Records, request
from tests.inference.test_engine_host import ended, hosting, replica

SLOTS = 2


@pytest.fixture(autouse=True)
def _few_slots(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.ENGINE_MAX_RUNNING = SLOTS
    monkeypatch.setattr(runner, "WATCH_S", 0.01)


async def queued(
    redis: Client, records: Records, priority_class: PriorityClass, tokens: int
) -> QueuedRequest:
    asked = msgspec.structs.replace(request(max_tokens=tokens), priority_class=priority_class)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    return asked


async def taken(redis: Client, count: int) -> None:
    incarnation = (await replica(redis)).incarnation
    while len(await registry.unsettled(redis, incarnation)) < count:
        await asyncio.sleep(0.005)


class Recorded(FakeEngine):
    """Remembers who gave up a slot."""

    def __init__(self, *, itl_s: float) -> None:
        super().__init__(ttft_s=0.001, itl_s=itl_s, slots=SLOTS, class_floor=0.05)
        self.parked: set[str] = set()

    async def yielded(self) -> Yielded:
        found = await super().yielded()
        self.parked |= found.now
        return found


async def test_a_higher_class_gets_a_slot_of_a_full_engine_and_the_lower_one_loses_nothing(
    redis: Client, records: Records
) -> None:
    engine = Recorded(itl_s=0.005)
    held = REGISTRY.get_sample_value
    labels = {"release": "fake", "reason": "class"}
    before = held("nehir_holds_total", labels) or 0
    batch = [await queued(redis, records, "batch", 250) for _ in range(SLOTS + 1)]
    async with hosting(engine, redis):
        await taken(redis, SLOTS)
        higher = await queued(redis, records, "interactive", 60)
        found = await ended(records, higher)
        unsettled = await database(still_open, batch)
        for each in batch:
            await ended(records, each)
        while (record := await replica(redis)).yields == 0 or record.held:
            await asyncio.sleep(0.005)
    assert (found.state, found.output_tokens) == ("finished", 60)
    assert unsettled == SLOTS + 1, "none of the lower class had ended before"
    assert engine.parked == {batch[1].generation_id}, "the newest that ran"
    assert (record.yields, record.holds) == (1, 0)
    assert (held("nehir_holds_total", labels) or 0) - before == 1


def still_open(batch: list[QueuedRequest]) -> int:
    from tenants import scope

    with scope.whole_platform():
        ids = [each.generation_id for each in batch]
        return Generation.objects.filter(id__in=ids, settled_at=None).count()


async def test_an_engine_that_cannot_take_slots_away_is_given_what_it_can_start(
    redis: Client, records: Records
) -> None:
    class Rigid(FakeEngine):
        capabilities = Capabilities(hold=True, restore=True)

    async with hosting(Rigid(ttft_s=0.001, itl_s=0.002), redis):
        batch = [await queued(redis, records, "batch", 100) for _ in range(SLOTS)]
        await taken(redis, SLOTS)
        higher = await queued(redis, records, "interactive", 1)
        await ended(records, higher)
        assert await database(still_open, batch) < SLOTS, "it waited for one of them"
        for each in batch:
            await ended(records, each)


async def test_while_there_is_room_for_higher_classes_alone_lower_ones_stay_in_the_queue(
    redis: Client, records: Records
) -> None:
    lower = await queued(redis, records, "batch", 8)
    standard = await queued(redis, records, "standard", 8)
    assert await queue.claim(redis, "rel_a", "inc_a", classes=CLASSES[:1]) is None
    assert await queue.claim(redis, "rel_a", "inc_a", classes=CLASSES[:2]) == standard
    assert await queue.claim(redis, "rel_a", "inc_a", classes=CLASSES[:2]) is None
    assert await redis.zcard(redis_keys.queue("rel_a")) == 1
    assert await queue.claim(redis, "rel_a", "inc_a") == lower


class Loads:
    """An engine's and a host's account of what they have, by rank."""

    def __init__(self, *ranks: int, waiting: dict[int, int], yields: bool = True) -> None:
        self._ranks = ranks
        self._waiting = waiting
        self.limit = 4
        self.capabilities = Capabilities(hold=True, restore=True, yields=yields)

    def up_to(self, rank: int) -> int:
        return sum(each <= rank for each in self._ranks)

    def decoding_up_to(self, rank: int) -> int:
        return self.up_to(rank)

    def limits(self) -> dict[PriorityClass, int]:
        return dict.fromkeys(CLASSES, self.limit)

    def load(self, *, lowest_rank: int) -> Load:
        waiting = sum(count for rank, count in self._waiting.items() if rank <= lowest_rank)
        return Load(0, waiting, waiting_tokens=10_000 * waiting)


@pytest.mark.parametrize(
    ("ranks", "waiting", "yields", "expected"),
    [
        ((), {}, True, Room(4, CLASSES)),
        ((2, 2, 2), {}, True, Room(1, CLASSES)),
        ((2, 2, 2, 2), {}, True, Room(4, CLASSES[:2])),
        ((2, 2, 2, 2, 1, 1), {}, True, Room(2, CLASSES[:2])),
        ((2, 2, 2, 2, 1, 1, 1, 1), {}, True, Room(4, CLASSES[:1])),
        ((2, 2, 2, 2, 1, 1, 1, 0, 0, 0, 0), {}, True, None),
        ((2, 2, 2, 2), {}, False, None),
        ((2,), {2: 8}, True, Room(4, CLASSES[:2])),
        ((2,), {2: 7}, True, Room(1, CLASSES)),
        ((2,), {0: 8}, True, None),
        ((2,), {2: 8}, False, None),
    ],
)
def test_room_is_for_the_lowest_class_that_there_is_any_for(
    settings: Settings,
    ranks: tuple[int, ...],
    waiting: dict[int, int],
    yields: bool,
    expected: Room | None,
) -> None:
    settings.ENGINE_MAX_RUNNING, settings.ENGINE_QUEUE_DEPTH = 4, 8
    loads = Loads(*ranks, waiting=waiting, yields=yields)
    assert room(loads, loads) == expected  # type: ignore[arg-type]
    # And no more than may share the engine's steps, whoever is in its slots.
    loads.limit = 1
    assert room(loads, loads) == (expected and _least(loads, expected))  # type: ignore[arg-type]


def _least(loads: Loads, found: Room) -> Room | None:
    left = tuple(each for each in found.classes if loads.up_to(_rank(loads, each)) < 1)
    return Room(1, left) if left else None


def _rank(loads: Loads, priority_class: PriorityClass) -> int:
    return RANKS[priority_class] if loads.capabilities.yields else RANKS["batch"]


class Telling(FakeEngine):
    def __init__(self, answer: Yielded | Exception) -> None:
        super().__init__(ttft_s=0, itl_s=0)
        self.answer = answer
        self.asked = 0

    async def yielded(self) -> Yielded:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def runs(*classes: PriorityClass) -> list[Run]:
    made = [msgspec.structs.replace(request(), priority_class=each) for each in classes]
    found = [Run.of(each, now=0) for each in made]
    for each in found:
        each.in_engine = True
    return found


async def test_an_engine_is_asked_while_classes_meet_in_it_and_until_all_go_on_again() -> None:
    engine = Telling(Yielded(3, frozenset({"gen_a"})))
    yielding = Yielding(engine, Tally("fake"))
    await yielding.look(runs("batch", "batch"))
    assert engine.asked == 0
    await yielding.look(runs("batch", "interactive"))
    await yielding.look(runs("batch"))
    assert (engine.asked, yielding.now) == (2, {"gen_a"})
    engine.answer = Yielded(3)
    await yielding.look(runs("batch"))
    await yielding.look(runs("batch"))
    assert (engine.asked, yielding.now) == (3, frozenset())


async def test_an_engine_that_does_not_say_changes_nothing_and_a_dead_one_is_told() -> None:
    tally = Tally("fake")
    engine = Telling(Yielded(2, frozenset({"gen_a"})))
    yielding = Yielding(engine, tally)
    both = runs("batch", "interactive")
    await yielding.look(both)
    engine.answer = EngineError("busy")
    await yielding.look(both)
    assert (tally.yields, yielding.now) == (2, {"gen_a"})
    engine.answer = EngineDead("gone")
    with pytest.raises(EngineDead):
        await yielding.look(both)
