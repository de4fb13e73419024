from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from inference.engine.fake import ANSWER_TOKENS, FakeEngine
from inference.engine.protocol import Delta, EngineDead, EngineRequest, Load
from tests.inference.making import request

TTFT_S, ITL_S = 0.5, 0.02


class Time:
    """A clock that jumps to the end of every sleep."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


def engine(time: Time, ttft_s: float = TTFT_S) -> FakeEngine:
    return FakeEngine(ttft_s=ttft_s, itl_s=ITL_S, now=time.now, sleep=time.sleep)


def asked(max_tokens: int = 30, prompt: tuple[int, ...] = (1, 2, 3)) -> EngineRequest:
    return request(max_tokens=max_tokens, prompt=prompt).engine_request


async def drained(deltas: AsyncGenerator[Delta, None]) -> list[Delta]:
    return [delta async for delta in deltas]


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


async def test_the_same_prompt_gives_the_same_words_at_the_same_pace() -> None:
    runs = []
    for _ in range(2):
        time = Time()
        deltas, moments = [], []
        async for delta in engine(time).submit(asked()):
            deltas.append(delta)
            moments.append(time.now_s - 100)
        runs.append((deltas, moments))
    assert runs[0] == runs[1]
    deltas, moments = runs[0]
    assert moments == pytest.approx([TTFT_S + n * ITL_S for n in range(30)])
    assert [len(delta.token_ids) for delta in deltas] == [1] * 30
    assert [delta.finish_reason for delta in deltas] == [None] * 29 + ["length"]
    other = await drained(engine(Time()).submit(asked(prompt=(1, 2, 4))))
    assert text(other) != text(deltas)


async def test_an_answer_ends_by_itself_when_it_may_be_long() -> None:
    deltas = await drained(engine(Time()).submit(asked(max_tokens=10_000)))
    assert len(deltas) == ANSWER_TOKENS
    assert deltas[-1].finish_reason == "stop"


async def test_what_is_restored_goes_on_as_if_it_had_never_stopped() -> None:
    whole = await drained(engine(Time()).submit(asked()))
    ids = [token for delta in whole[:11] for token in delta.token_ids]
    told = "".join(delta.text for delta in whole[:11])
    rest = await drained(engine(Time()).restore(asked(), ids, told))
    assert rest == whole[11:]


async def test_what_is_restored_tells_what_had_not_been_told_of_its_tokens() -> None:
    whole = await drained(engine(Time()).submit(asked()))
    ids = [token for delta in whole for token in delta.token_ids]
    told = "".join(delta.text for delta in whole[:-1])
    rest = await drained(engine(Time()).restore(asked(), ids, told))
    assert rest == [Delta(whole[-1].text, (), whole[-1].finish_reason)]


async def test_held_it_makes_nothing_and_released_it_goes_on_the_same() -> None:
    whole = await drained(engine(Time()).submit(asked()))
    fake, one = engine(Time()), asked()
    stream = fake.submit(one)
    got = [await anext(stream) for _ in range(5)]
    await fake.hold(one.generation_id)
    others = await drained(fake.submit(asked(prompt=(9,))))
    assert len(others) == 30
    waiting = asyncio.ensure_future(anext(stream))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    await fake.release(one.generation_id)
    got.append(await waiting)
    got += await drained(stream)
    assert got == whole


@pytest.mark.parametrize("held", [False, True])
async def test_an_aborted_answer_ends_as_cancelled(held: bool) -> None:
    fake, one = engine(Time()), asked()
    stream = fake.submit(one)
    got = [await anext(stream) for _ in range(3)]
    if held:
        await fake.hold(one.generation_id)
    await fake.abort(one.generation_id)
    got += await drained(stream)
    assert len(got) == 4
    assert got[-1] == Delta("", (), "cancelled")
    assert fake.load() == Load(0, 0)
    await fake.abort("gen_unknown")


async def test_an_answer_aborted_before_its_first_token_ends_at_once() -> None:
    time, one = Time(), asked()
    fake = engine(time, ttft_s=3600)
    stream = asyncio.ensure_future(drained(fake.submit(one)))
    while fake.load() == Load(0, 0):
        await asyncio.sleep(0)
    await fake.abort(one.generation_id)
    assert await stream == [Delta("", (), "cancelled")]
    assert time.now_s < 100 + 60


async def test_the_load_tells_decoding_from_waiting_and_closing_frees() -> None:
    fake = engine(Time())
    streams = [fake.submit(asked()) for _ in range(3)]
    await anext(streams[0])
    second = asyncio.ensure_future(anext(streams[1]))
    await asyncio.sleep(0)
    assert fake.load() == Load(running=1, waiting=1, waiting_tokens=len(asked().prompt_token_ids))
    await second
    assert fake.load() == Load(running=2, waiting=0)
    for stream in streams:
        await stream.aclose()
    assert fake.load() == Load(0, 0)


async def test_a_stopped_engine_is_dead_for_those_that_run_and_those_that_come() -> None:
    fake, held = engine(Time()), asked()
    stream, held_stream = fake.submit(asked()), fake.submit(held)
    await anext(stream)
    await anext(held_stream)
    await fake.hold(held.generation_id)
    await fake.health()
    await fake.stop()
    for each in (stream, held_stream, fake.submit(asked())):
        with pytest.raises(EngineDead):
            await anext(each)
    with pytest.raises(EngineDead):
        await fake.health()
    assert fake.load() == Load(0, 0)
