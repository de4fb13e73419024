"""Classes inside real vLLM, with four slots and 12 blocks of 32 tokens: a higher class takes the
slot of a lower one, which goes on after, bit for bit.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from inference.engine.protocol import Engine, EngineRequest, Load
from tests.model.streams import SCHEMA, Stream, request, whole

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

SLOTS = 4
INTERACTIVE, STANDARD, BATCH = 0, 1, 2
SAMPLED = {"temperature": 0.8, "seed": 7, "frequency_penalty": 0.3}
GREEDY = {"temperature": 0.0}
RIVERS = "Write about rivers."
COUNT = "Count to a hundred in words."
# Of a higher request's coming to its first token, as read here, which on a busy machine is some
# steps behind the engine. `test_scheduler.py` has it to the step.
FEW_STEPS = 30


def batch_request(name: str, tokens: int = 40) -> EngineRequest:
    made = request(name, RIVERS, max_tokens=tokens, min_tokens=tokens, **SAMPLED)
    return msgspec.structs.replace(made, rank=BATCH)


def higher_request(name: str, tokens: int = 12, *, rank: int = INTERACTIVE) -> EngineRequest:
    made = request(name, COUNT, max_tokens=tokens, min_tokens=tokens, **GREEDY)
    return msgspec.structs.replace(made, rank=rank)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def undisturbed(small_engine: Engine) -> dict[int, list[int]]:
    """What a batch's and a higher request's first tokens are, by rank; longest of either."""
    batch = await whole(small_engine, batch_request("undisturbed-batch", 110))
    higher = await whole(small_engine, higher_request("undisturbed-higher", 40))
    return {BATCH: batch.token_ids, INTERACTIVE: higher.token_ids, STANDARD: higher.token_ids}


def check(undisturbed: dict[int, list[int]], *streams: Stream) -> None:
    for each in streams:
        asked = each.request
        expected = undisturbed[asked.rank][: asked.sampling.max_tokens]
        assert each.token_ids == expected, asked.generation_id


STARTED: list[Stream] = []


def started(engine: Engine, asked: EngineRequest) -> Stream:
    STARTED.append(Stream(engine, asked))
    return STARTED[-1]


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _nothing_is_left(small_engine: Engine) -> AsyncIterator[None]:
    """One that fails leaves nothing to the next."""
    yield
    for each in STARTED:
        await small_engine.abort(each.request.generation_id)
    await asyncio.gather(*(each.task for each in STARTED), return_exceptions=True)
    STARTED.clear()


async def full_batch(engine: Engine, tokens: int = 40, size: int = SLOTS) -> list[Stream]:
    streams = []
    for n in range(size):
        streams.append(started(engine, batch_request(f"batch-{n}", tokens)))
        await streams[-1].reach(1)
    return streams


async def done(*streams: Stream) -> None:
    await asyncio.gather(*(each.task for each in streams))


async def test_a_higher_class_begins_within_a_few_steps_at_a_full_batch(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    before = (await small_engine.yielded()).times
    batch = await full_batch(small_engine, 80)
    at = len(batch[0].token_ids)
    higher = started(small_engine, higher_request("higher", 40))
    await higher.reach(1)
    assert len(batch[0].token_ids) - at <= FEW_STEPS
    parked = await small_engine.yielded()
    assert (parked.times - before, parked.now) == (1, {"batch-3"})
    made = len(batch[3].token_ids)
    # What is read here may be some steps behind.
    await higher.reach(20)
    assert len(batch[3].token_ids) == made
    assert not any(each.task.done() for each in batch)
    await done(higher, *batch)
    check(undisturbed, higher, *batch)
    assert (await small_engine.yielded()).now == frozenset()


async def test_of_two_lower_classes_the_lowest_gives_way(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    batch = await full_batch(small_engine, size=2)
    standard = [
        started(small_engine, higher_request(f"standard-{n}", 40, rank=STANDARD)) for n in range(2)
    ]
    await asyncio.gather(*(each.reach(1) for each in standard))
    higher = [started(small_engine, higher_request(f"higher-{n}", 20)) for n in range(3)]
    await asyncio.gather(*(each.reach(1) for each in higher))
    assert (await small_engine.yielded()).now == {"batch-0", "batch-1", "standard-1"}
    await done(*batch, *standard, *higher)
    check(undisturbed, *batch, *standard, *higher)


async def test_a_higher_class_takes_the_blocks_of_a_lower_one(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    """A slot is free, but three requests have nine of twelve blocks, and its prompt needs five."""
    batch = await full_batch(small_engine, 100, size=3)
    await batch[2].reach(55)
    before = await small_engine.yielded()
    long = "Tell me what this says. " + "Rain falls on the hills and runs to the river. " * 12
    asked = request("higher-long", long, max_tokens=5, **GREEDY)
    alone = msgspec.structs.replace(asked, generation_id="alone")
    higher = started(small_engine, asked)
    await higher.reach(1)
    assert not any(each.task.done() for each in batch)
    assert (await small_engine.yielded()).times > before.times
    await done(higher, *batch)
    check(undisturbed, *batch)
    assert higher.token_ids == (await whole(small_engine, alone)).token_ids


async def test_one_with_a_grammar_gets_a_slot_as_well(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    batch = await full_batch(small_engine, 100)
    asked = request("higher-json", "Describe a river as JSON.", json_schema=json.dumps(SCHEMA))
    higher = started(small_engine, asked)
    await higher.reach(1)
    assert not any(each.task.done() for each in batch)
    await done(higher, *batch)
    check(undisturbed, *batch)


async def test_a_parked_one_can_be_cancelled(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    batch = await full_batch(small_engine)
    higher = started(small_engine, higher_request("higher", 30))
    await higher.reach(1)
    assert (await small_engine.yielded()).now == {"batch-3"}
    await small_engine.abort("batch-3")
    await batch[3].task
    assert batch[3].finish_reason == "cancelled"
    assert (await small_engine.yielded()).now == frozenset()
    await done(higher, *batch[:3])
    check(undisturbed, higher, *batch[:3])
    assert small_engine.load() == Load(0, 0)


@pytest.mark.parametrize("back", ["reader first", "slot first"])
@pytest.mark.parametrize("first", ["held", "parked"])
async def test_held_for_its_reader_and_parked_it_goes_on_when_it_is_neither(
    small_engine: Engine, undisturbed: dict[int, list[int]], first: str, back: str
) -> None:
    batch = await full_batch(small_engine, 60)
    if first == "held":
        await small_engine.hold("batch-3")
    # The second finds the third to give way if the fourth is held.
    higher = [started(small_engine, higher_request(f"higher-{n}", 40)) for n in range(2)]
    await asyncio.gather(*(each.reach(1) for each in higher))
    if first == "parked":
        assert "batch-3" in (await small_engine.yielded()).now
        await small_engine.hold("batch-3")
    assert "batch-3" not in (await small_engine.yielded()).now
    made = len(batch[3].token_ids)
    if back == "reader first":
        await small_engine.release("batch-3")
        await higher[0].reach(20)
        assert len(batch[3].token_ids) == made, "it has no slot yet"
        await done(*higher)
    else:
        await done(*higher, *batch[:3])
        assert len(batch[3].token_ids) == made
        await small_engine.release("batch-3")
    await done(*batch)
    check(undisturbed, *higher, *batch)


async def test_a_released_one_waits_for_a_slot_of_its_own_class(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    """Held ones have none: as many others run meanwhile as there are slots."""
    held = started(small_engine, batch_request("held", 30))
    await held.reach(5)
    await small_engine.hold("held")
    batch = await full_batch(small_engine, 60)
    made = len(held.token_ids)
    await small_engine.release("held")
    await batch[0].reach(30)
    assert len(held.token_ids) == made
    await done(held, *batch)
    check(undisturbed, held, *batch)


async def test_a_lower_class_gets_its_floor_while_higher_traffic_never_ends(
    small_engine: Engine, undisturbed: dict[int, list[int]]
) -> None:
    names = (f"endless-{n}" for n in itertools.count())
    running = [started(small_engine, higher_request(next(names), 20)) for _ in range(SLOTS + 1)]
    await running[0].reach(1)
    batch = started(small_engine, batch_request("batch", 40))
    ended = 0
    while not batch.task.done():
        tasks = [each.task for each in running]
        await asyncio.wait([*tasks, batch.task], return_when=asyncio.FIRST_COMPLETED)
        for place, each in enumerate(running):
            if each.task.done():
                ended += 1
                running[place] = started(small_engine, higher_request(next(names), 20))
    assert batch.finish_reason == "length"
    check(undisturbed, batch)
    # Before its first token the class is owed a promotion's worth of steps: 32 of 128 here.
    assert ended >= 6, "it was not simply served first"
    assert ended <= 30
    for each in running:
        await small_engine.abort(each.request.generation_id)
    await done(*running)
