from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from inference import token_log
from inference.engine.fake import FakeEngine
from inference.engine.protocol import Delta, EngineDead, EngineError, EngineRequest, Load
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.host.writer import LogWriter
from inference.messages import Cancel, Failed, Finished, QueuedRequest
from inference.models import Generation
from inference.token_log import Content
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, StoppedClock, entries, leased, request


@dataclass(slots=True)
class Bench:
    """A runner with what it needs, over real Redis and the real database."""

    redis: Client
    records: Records
    engine: FakeEngine
    runner: Runner
    settler: Settler

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
        yield Bench(redis, records, engine, runner, settler)
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
        assert at.runner.output_tokens == 12
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


async def test_stopping_breaks_off_what_runs_and_says_so(redis: Client, records: Records) -> None:
    async with bench(redis, records, slow()) as at:
        asked = [await at.start(max_tokens=256) for _ in range(3)]
        for each in asked:
            await at.tokens(each, 2)
        await at.runner.stop()
        for each in asked:
            last = (await entries(redis, each))[-1]
            found = await at.ended(each)
            assert isinstance(last, Failed)
            assert (last.code, last.retryable) == ("engine_stopped", True)
            assert (found.error_code, found.output_tokens) == ("engine_stopped", last.seq)


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


async def test_an_engine_that_dies_is_told_to_readers_and_to_its_host(
    redis: Client, records: Records
) -> None:
    async with bench(redis, records, slow()) as at:
        asked = await at.start(max_tokens=256)
        failed = asyncio.create_task(at.runner.engine_failed())
        await at.tokens(asked, 2)
        await at.engine.stop()
        found = await at.ended(asked)
        with pytest.raises(EngineDead):
            await failed
        last = (await entries(redis, asked))[-1]
    assert isinstance(last, Failed)
    assert (last.code, last.retryable, found.error_code) == ("engine_lost", True, "engine_lost")


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


async def test_fenced_off_it_stops_the_engine_and_writes_nothing(
    redis: Client, records: Records
) -> None:
    from inference import redis_keys

    async with bench(redis, records, slow()) as at:
        asked = await at.start(max_tokens=256)
        await at.tokens(asked, 2)
        await redis.set(redis_keys.lease(asked.generation_id), "closed:lost")
        found = await at.ended(asked)
        content = await at.content(asked)
        assert at.engine.load() == Load(0, 0)
    assert found.error_code == "log_lost"
    assert content.final is None
    assert content.seq < 256
