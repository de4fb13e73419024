from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import ResponseError

from inference import token_log
from inference.engine.protocol import Delta
from inference.host.writer import LogLost, LogWriter, Tail
from inference.messages import Finished, Tokens, Usage
from inference.token_log import Write
from kernel.redis import Client
from tests.inference.making import entries, leased


def end(of: Tail) -> Finished:
    return Finished(seq=of.seq, text="", finish_reason="stop", usage=Usage(3, of.seq))


class Redis:
    """Stands in for `token_log.append`: waits for `open`, fails while `failure` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.failure: Exception | None = None
        self.sent: list[list[Write]] = []
        self._append = token_log.append
        monkeypatch.setattr(token_log, "append", self.append)

    async def append(self, redis: Client, incarnation: str, writes: Sequence[Write]) -> list[bool]:
        self.sent.append(list(writes))
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        return await self._append(redis, incarnation, writes)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Redis:
    return Redis(monkeypatch)


@asynccontextmanager
async def writing(redis: Client, outage_limit_s: float = 30) -> AsyncIterator[LogWriter]:
    writer = LogWriter(redis, "inc_a", outage_limit_s=outage_limit_s)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def tail(redis: Client) -> Tail:
    asked = await leased(redis, "inc_a")
    return Tail(asked.tenant_id, asked.generation_id)


async def sent(wire: Redis, count: int) -> None:
    while len(wire.sent) < count:
        await asyncio.sleep(0.001)


async def content(redis: Client, of: Tail) -> token_log.Content:
    found = await token_log.content(redis, of.tenant_id, of.generation_id)
    assert found is not None
    return found


async def test_what_arrives_during_a_write_leaves_as_one_entry_a_generation(
    redis: Client, wire: Redis
) -> None:
    async with writing(redis) as writer:
        one, two = await tail(redis), await tail(redis)
        wire.open.clear()
        writer.add(one, Delta("a", (1,)))
        await sent(wire, 1)
        for word, token in (("b", 2), ("c", 3), ("d", 4)):
            writer.add(one, Delta(word, (token,)))
            writer.add(two, Delta(word, (token,)))
        wire.open.set()
        await writer.close(one, end(one))
        await writer.close(two, end(two))
    batches = [[(w.generation_id, w.entry) for w in batch] for batch in wire.sent[:2]]
    assert batches[0] == [(one.generation_id, Tokens(1, "a", (1,)))]
    assert (one.generation_id, Tokens(4, "bcd", (2, 3, 4))) in batches[1]
    assert (two.generation_id, Tokens(3, "bcd", (2, 3, 4))) in batches[1]
    assert (await content(redis, one)).text == "abcd"


async def test_text_without_a_token_waits_for_the_next_entry(redis: Client) -> None:
    async with writing(redis) as writer:
        one = await tail(redis)
        writer.add(one, Delta("half ", ()))
        await asyncio.sleep(0.05)
        assert (await content(redis, one)).text == ""
        writer.add(one, Delta("word", (1,)))
        writer.add(one, Delta(" rest", ()))
        await writer.close(one, end(one))
    found = await content(redis, one)
    assert (found.text, found.seq) == ("half word rest", 1)
    assert "".join(one.text) == "half word rest"


async def test_closing_returns_when_the_last_entry_is_in_the_log(
    redis: Client, wire: Redis
) -> None:
    async with writing(redis) as writer:
        one = await tail(redis)
        wire.open.clear()
        closing = asyncio.create_task(writer.close(one, end(one)))
        await sent(wire, 1)
        assert not closing.done()
        wire.open.set()
        await closing
        assert (await content(redis, one)).final == end(one)


async def test_redis_away_for_a_moment_loses_and_doubles_nothing(
    redis: Client, wire: Redis
) -> None:
    async with writing(redis) as writer:
        one = await tail(redis)
        wire.failure = RedisAway("gone")
        writer.add(one, Delta("a", (1,)))
        await sent(wire, 2)
        writer.add(one, Delta("b", (2,)))
        wire.failure = None
        await writer.close(one, end(one))
    found = await content(redis, one)
    assert (found.text, found.seq, found.final) == ("ab", 2, end(one))


async def test_redis_away_for_too_long_gives_the_log_up(redis: Client, wire: Redis) -> None:
    async with writing(redis, outage_limit_s=0) as writer:
        one, two = await tail(redis), await tail(redis)
        wire.failure = RedisAway("gone")
        writer.add(one, Delta("a", (1,)))
        with pytest.raises(LogLost):
            await writer.close(two, end(two))
        with pytest.raises(LogLost):
            await writer.close(one, end(one))
        with pytest.raises(LogLost):
            writer.add(one, Delta("b", (2,)))


async def test_a_log_that_another_holds_is_lost_and_the_others_go_on(redis: Client) -> None:
    async with writing(redis) as writer:
        mine = await tail(redis)
        asked = await leased(redis, "inc_b")
        foreign = Tail(asked.tenant_id, asked.generation_id)
        writer.add(foreign, Delta("a", (1,)))
        writer.add(mine, Delta("a", (1,)))
        await writer.close(mine, end(mine))
        with pytest.raises(LogLost):
            await writer.close(foreign, end(foreign))
    assert [type(entry).__name__ for entry in await entries(redis, asked)] == ["Opened", "Started"]


async def test_a_writer_that_fails_leaves_nobody_waiting(redis: Client, wire: Redis) -> None:
    """As when Redis is out of memory: that is no outage, and no reason to hang."""
    one, two = await tail(redis), await tail(redis)
    wire.failure = ResponseError("OOM command not allowed")
    writer = LogWriter(redis, "inc_a", outage_limit_s=30)
    running = asyncio.create_task(writer.run())
    with pytest.raises(LogLost):
        await writer.close(one, end(one))
    with pytest.raises(ResponseError):
        await running
    with pytest.raises(LogLost):
        await writer.close(two, end(two))
