"""The fake engine where slots are short: classes as in a real one."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from inference.engine.fake import FakeEngine, word
from inference.engine.protocol import EngineRequest, Yielded
from tests.inference.making import request
from tests.inference.test_fake_engine import Time
from tests.model.streams import Stream

INTERACTIVE, BATCH = 0, 2
SLOTS = 4


def engine(floor: float = 0.0) -> FakeEngine:
    time = Time()
    return FakeEngine(
        ttft_s=0.1,
        itl_s=0.02,
        now=time.now,
        sleep=time.sleep,
        slots=SLOTS,
        class_floor=floor,
    )


def asked(name: str, rank: int, tokens: int = 30) -> EngineRequest:
    made = request(max_tokens=tokens, generation_id=name, prompt=tuple(name.encode()))
    return msgspec.structs.replace(made.engine_request, rank=rank)


async def full(fake: FakeEngine, tokens: int = 200) -> list[Stream]:
    streams = []
    for n in range(SLOTS):
        streams.append(Stream(fake, asked(f"batch-{n}", BATCH, tokens)))
        await streams[-1].reach(1)
    return streams


def undisturbed(stream: Stream) -> str:
    prompt, tokens = stream.request.prompt_token_ids, stream.request.sampling.max_tokens
    return "".join(word(prompt, position)[1] for position in range(tokens))


async def test_the_newest_of_the_lowest_class_gives_its_slot_and_goes_on_after() -> None:
    fake = engine()
    batch = await full(fake)
    higher = Stream(fake, asked("higher", INTERACTIVE))
    await higher.reach(1)
    assert await fake.yielded() == Yielded(1, frozenset({"batch-3"}))
    at = len(batch[3].token_ids)
    await higher.reach(29)
    assert len(batch[3].token_ids) == at
    assert all(len(each.token_ids) > at for each in batch[:3])
    await asyncio.gather(*(each.task for each in batch))
    assert [each.text for each in batch] == [undisturbed(each) for each in batch]
    assert await fake.yielded() == Yielded(1, frozenset())


async def test_its_own_class_waits_for_a_slot() -> None:
    fake = engine()
    batch = await full(fake)
    another = Stream(fake, asked("another", BATCH))
    await batch[0].reach(199)
    assert another.token_ids == []
    await another.task
    assert await fake.yielded() == Yielded(0, frozenset())
    await asyncio.gather(*(each.task for each in batch))


async def test_who_is_held_for_its_reader_has_no_slot() -> None:
    fake = engine()
    batch = await full(fake)
    await fake.hold("batch-0")
    another = Stream(fake, asked("another", BATCH))
    await another.reach(1)
    await fake.release("batch-0")
    at = len(batch[0].token_ids)
    await another.reach(20)
    assert len(batch[0].token_ids) == at, "there is a slot for it when one is free"
    await asyncio.gather(another.task, *(each.task for each in batch))
    assert batch[0].text == undisturbed(batch[0])


@pytest.mark.parametrize("back", ["reader first", "slot first"])
async def test_held_for_its_reader_and_for_a_class_it_goes_on_when_neither_is(back: str) -> None:
    fake = engine()
    batch = await full(fake)
    higher = Stream(fake, asked("higher", INTERACTIVE, 20))
    await higher.reach(1)
    at = len(batch[3].token_ids)
    await fake.hold("batch-3")
    assert await fake.yielded() == Yielded(1, frozenset())
    if back == "slot first":
        await higher.task
        await batch[0].reach(50)
        assert len(batch[3].token_ids) == at
        await fake.release("batch-3")
    else:
        await fake.release("batch-3")
        await higher.task
    await asyncio.gather(*(each.task for each in batch))
    assert batch[3].text == undisturbed(batch[3])


async def test_one_that_gave_its_slot_can_be_cancelled() -> None:
    fake = engine()
    batch = await full(fake)
    higher = Stream(fake, asked("higher", INTERACTIVE))
    await higher.reach(1)
    await fake.abort("batch-3")
    await batch[3].task
    assert batch[3].finish_reason == "cancelled"
    assert await fake.yielded() == Yielded(1, frozenset())
    await asyncio.gather(higher.task, *(each.task for each in batch[:3]))
    assert higher.text == undisturbed(higher)


async def test_a_lower_class_gets_its_floor_while_higher_traffic_never_ends() -> None:
    fake, floor = engine(floor=0.25), 0.25
    batch = Stream(fake, asked("batch", BATCH, 200))
    made: Counter[str] = Counter()
    running: list[Stream] = []
    count = 0
    while not batch.task.done():
        running = [each for each in running if not each.task.done()]
        while len(running) < SLOTS + 2:
            count += 1
            running.append(Stream(fake, asked(f"higher-{count}", INTERACTIVE, 40)))
        await asyncio.wait([each.task for each in running], return_when="FIRST_COMPLETED")
        made["higher"] = sum(len(each.token_ids) for each in running) + 40 * (count - len(running))
    assert batch.text == undisturbed(batch)
    assert len(batch.token_ids) / made["higher"] == pytest.approx(floor, rel=0.5)
    for each in running:
        await fake.abort(each.request.generation_id)
    await asyncio.gather(*(each.task for each in running))


async def test_the_load_of_a_rank_is_that_of_it_and_those_above() -> None:
    fake = engine()
    batch = await full(fake)
    higher = Stream(fake, asked("higher", INTERACTIVE))
    await higher.reach(1)
    assert fake.load().running == SLOTS + 1
    assert fake.load(lowest_rank=INTERACTIVE).running == 1
    await asyncio.gather(higher.task, *(each.task for each in batch))
