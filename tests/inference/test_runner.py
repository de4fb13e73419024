from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from pytest_django.fixtures import Settings

from inference import queue, redis_keys, token_log
from inference.engine.fake import FakeEngine, word
from inference.engine.protocol import (
    Delta,
    EngineDead,
    EngineError,
    EngineRequest,
    GrammarFailed,
    Load,
)
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.host.writer import LogWriter
from inference.messages import Cancel, Failed, Finished, QueuedRequest, Suspended
from inference.models import Generation
from inference.services import takeover
from inference.token_log import Content
from kernel.database import database
from kernel.redis import Client
from streaming.answer import as_error
from tests.inference.making import Records, StoppedClock, entries, leased, request


@dataclass(slots=True)
class Bench:
    """A runner with what it needs, over real Redis and the real database."""

    redis: Client
    records: Records
    engine: FakeEngine
    runner: Runner
    settler: Settler
    clock: StoppedClock

    async def start(self, max_tokens: int = 8) -> QueuedRequest:
        asked = await self.taken(max_tokens)
        self.runner.start(asked)
        return asked

    async def taken(self, max_tokens: int = 8) -> QueuedRequest:
        asked = request(max_tokens=max_tokens)
        await database(self.records.open, asked)
        return await leased(self.redis, "inc_a", asked)

    async def tokens(self, asked: QueuedRequest, count: int) -> None:
        """Until the log holds so many tokens."""
        while (await self.content(asked)).seq < count:
            await asyncio.sleep(0.002)

    async def ended(self, asked: QueuedRequest) -> Generation:
        """The record once the generation is settled."""
        while (found := await database(self.records.of, asked)).settled_at is None:
            await asyncio.sleep(0.005)
        await self.settler.drain(timeout_s=20)
        return found

    async def settled(self, asked: QueuedRequest) -> bool:
        """Once the host has nothing more to do with it."""
        while len(self.runner):
            await asyncio.sleep(0.002)
        return await self.settler.drain(timeout_s=20)

    async def content(self, asked: QueuedRequest) -> Content:
        found = await token_log.content(self.redis, asked.tenant_id, asked.generation_id)
        assert found is not None
        return found


@asynccontextmanager
async def bench(redis: Client, records: Records, engine: FakeEngine) -> AsyncIterator[Bench]:
    writer = LogWriter(redis, "inc_a", outage_limit_s=5)
    clock = StoppedClock()
    settler = Settler(redis, "inc_a", clock)
    runner = Runner(engine, writer, settler, clock, release_name="fake")
    loops = [asyncio.create_task(loop) for loop in (writer.run(), settler.run())]
    try:
        yield Bench(redis, records, engine, runner, settler, clock)
    finally:
        await runner.stop()
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


def quick() -> FakeEngine:
    return FakeEngine(ttft_s=0.005, itl_s=0.001)


def slow(ttft_s: float = 0.005) -> FakeEngine:
    return FakeEngine(ttft_s=ttft_s, itl_s=0.02)


async def test_an_answer_is_logged_and_settled(redis: Client, records: Records) -> None:
    async with bench(redis, records, quick()) as at:
        asked = await at.start(max_tokens=12)
        found = await at.ended(asked)
        content = await at.content(asked)
        assert at.runner.tally.output_tokens == 12
        assert len(at.runner) == 0
    assert (found.state, found.finish_reason, found.output_tokens) == ("finished", "length", 12)
    assert isinstance(content.final, Finished)
    assert (content.seq, content.final.usage.output_tokens) == (12, 12)
    assert len(content.text.split()) == 12


async def test_cancelled_in_mid_answer_keeps_and_bills_what_was_made(
    redis: Client, records: Records
) -> None:
    async with bench(redis, records, slow()) as at:
        asked = await at.start(max_tokens=256)
        await at.tokens(asked, 3)
        await at.runner.handle(Cancel(asked.generation_id))
        found = await at.ended(asked)
        content = await at.content(asked)
        assert at.engine.load() == Load(0, 0)
    assert (found.state, found.finish_reason) == ("cancelled", "cancelled")
    assert 3 <= found.output_tokens == content.seq < 256
    assert isinstance(content.final, Finished)
    assert content.final.usage.output_tokens == content.seq


async def test_cancelled_before_its_first_token(redis: Client, records: Records) -> None:
    async with bench(redis, records, slow(ttft_s=3600)) as at:
        asked = await at.start()
        while at.engine.load().waiting == 0:
            await asyncio.sleep(0.001)
        await at.runner.handle(Cancel(asked.generation_id))
        found = await at.ended(asked)
    assert (found.state, found.output_tokens) == ("cancelled", 0)


async def test_cancelled_before_the_engine_has_seen_it(redis: Client, records: Records) -> None:
    async with bench(redis, records, slow(ttft_s=3600)) as at:
        asked = await at.start()
        await at.runner.handle(Cancel(asked.generation_id))
        found = await at.ended(asked)
    assert (found.state, found.output_tokens) == ("cancelled", 0)


async def test_a_cancel_that_overtakes_its_request(redis: Client, records: Records) -> None:
    async with bench(redis, records, slow(ttft_s=3600)) as at:
        asked = await at.taken()
        await at.runner.handle(Cancel(asked.generation_id))
        at.runner.start(asked)
        found = await at.ended(asked)
    assert (found.state, found.output_tokens) == ("cancelled", 0)


async def test_an_engine_that_misses_the_abort_is_closed(redis: Client, records: Records) -> None:
    class Deaf(FakeEngine):
        async def abort(self, generation_id: str) -> None:
            pass

    async with bench(redis, records, Deaf(ttft_s=0.005, itl_s=0.005)) as at:
        asked = await at.start(max_tokens=256)
        await at.tokens(asked, 2)
        await at.runner.handle(Cancel(asked.generation_id))
        found = await at.ended(asked)
        assert at.engine.load() == Load(0, 0)
    assert found.state == "cancelled"
    assert found.output_tokens < 256


async def test_stopping_hands_back_what_runs(redis: Client, records: Records) -> None:
    async with bench(redis, records, slow()) as at:
        asked = [await at.start(max_tokens=256) for _ in range(3)]
        for each in asked:
            await at.tokens(each, 2)
        await at.runner.stop()
        for each in asked:
            last = (await entries(redis, each))[-1]
            assert isinstance(last, Suspended)
            assert last.reason == "drained"
        assert await at.settler.drain(timeout_s=20)
        again = [await queue.claim(redis, "rel_a", "inc_b") for _ in asked]
        for each in again:
            assert each is not None
            assert each.progress is not None
            assert (each.text, each.seq) == ((await at.content(each)).text, each.seq)


async def test_an_answer_that_is_ending_may_end_while_its_host_stops(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, go_on = asyncio.Event(), asyncio.Event()
    append = token_log.append

    async def held(redis: Client, incarnation: str, writes: list[token_log.Write]) -> list[bool]:
        if any(isinstance(write.entry, Finished) for write in writes):
            ending.set()
            await go_on.wait()
        return await append(redis, incarnation, writes)

    monkeypatch.setattr(token_log, "append", held)
    async with bench(redis, records, quick()) as at:
        asked = await at.start()
        await ending.wait()
        stopping = asyncio.create_task(at.runner.stop())
        await asyncio.sleep(0.01)
        go_on.set()
        await stopping
        found = await at.ended(asked)
        content = await at.content(asked)
    assert isinstance(content.final, Finished)
    assert (found.state, found.error_code) == ("finished", "")


@pytest.mark.parametrize("limit", [0, 1])
async def test_an_engine_that_dies_is_told_to_its_host_and_its_answers_go_on(
    redis: Client, records: Records, settings: Settings, limit: int
) -> None:
    """Unless they have had as many engines as they may lose."""
    settings.TAKEOVER_LIMIT = limit
    async with bench(redis, records, slow()) as at:
        asked = await at.start(max_tokens=256)
        failed = asyncio.create_task(at.runner.engine_failed())
        await at.tokens(asked, 2)
        await at.engine.stop()
        with pytest.raises(EngineDead):
            await failed
        assert await at.settled(asked)
        last = (await entries(redis, asked))[-1]
        again = await queue.claim(redis, "rel_a", "inc_b")
        found = await database(records.of, asked)
    if limit:
        assert isinstance(last, Suspended)
        assert again is not None
        assert (last.reason, again.seq, again.engines_lost) == ("engine_lost", last.seq, 1)
    else:
        assert isinstance(last, Failed)
        assert (last.code, last.retryable, found.error_code) == ("engine_lost", True, "engine_lost")
        assert again is None


class Faulty(FakeEngine):
    """Fails one request in the middle, as an engine or, unforeseen, as a bug of its adapter."""

    def __init__(self, failure: Exception | None) -> None:
        super().__init__(ttft_s=0.001, itl_s=0.001)
        self._failure = failure

    async def submit(self, request: EngineRequest) -> AsyncGenerator[Delta, None]:
        yield Delta("river ", (1,))
        if self._failure is not None:
            raise self._failure


@pytest.mark.parametrize(
    "failure", [EngineError("secret detail"), KeyError("secret detail"), None], ids=repr
)
async def test_a_request_that_fails_ends_alone_and_keeps_the_details_from_users(
    redis: Client, records: Records, failure: Exception | None
) -> None:
    async with bench(redis, records, Faulty(failure)) as at:
        asked = await at.start()
        found = await at.ended(asked)
        last = (await entries(redis, asked))[-1]
        assert len(at.runner) == 0
    assert isinstance(last, Failed)
    assert (last.code, last.seq, last.retryable) == ("generation_failed", 1, False)
    assert "secret" not in last.message
    assert (found.state, found.output_tokens) == ("failed", 1)


async def test_an_answer_that_its_grammar_fails_says_so(redis: Client, records: Records) -> None:
    async with bench(redis, records, Faulty(GrammarFailed("too many states"))) as at:
        asked = await at.start()
        await at.ended(asked)
        last = (await entries(redis, asked))[-1]
    assert isinstance(last, Failed)
    assert (last.code, last.retryable) == ("grammar_failed", False)
    error = as_error(last)
    assert (error.http_status, error.param) == (400, "response_format")


async def test_fenced_off_it_stops_the_engine_and_writes_nothing(
    redis: Client, records: Records
) -> None:
    async with bench(redis, records, slow()) as at:
        asked = await at.start(max_tokens=256)
        await at.tokens(asked, 2)
        await takeover.take_over(redis, StoppedClock(), {"inc_a"})
        written = await entries(redis, asked)
        assert await at.settled(asked)
        assert at.engine.load() == Load(0, 0)
        assert await entries(redis, asked) == written
        assert (await database(records.of, asked)).settled_at is None
    assert await queue.place(redis, "rel_a", asked.generation_id) == 1


async def test_what_comes_back_to_the_host_that_lost_it_runs_once(
    redis: Client, records: Records
) -> None:
    """It was taken over from here, and taken again here, before that was noticed."""
    async with bench(redis, records, slow()) as at:
        asked = await at.start(max_tokens=20)
        await at.tokens(asked, 2)
        await takeover.take_over(redis, StoppedClock(), {"inc_a"})
        again = await queue.claim(redis, "rel_a", "inc_a")
        assert again is not None
        at.runner.start(again)
        found = await at.ended(asked)
        content = await at.content(asked)
        assert await at.settled(asked)
    prompt = asked.engine_request.prompt_token_ids
    assert content.text == "".join(word(prompt, position)[1] for position in range(20))
    assert (found.state, found.output_tokens) == ("finished", 20)
    assert await redis.keys(redis_keys.running("*")) == []
