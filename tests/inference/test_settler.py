from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError as RedisAway

from inference import queue, registry, token_log
from inference.host import settler as settling
from inference.host.settler import Ended, Settler
from inference.messages import Finished, QueuedRequest, Suspended, Tokens, Usage
from inference.models import State
from inference.services import takeover
from inference.services.settlement import Outcome, settle_all
from inference.token_log import Write
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import START, Records, StoppedClock, entries, leased, request

END = Finished(seq=0, text="", finish_reason="stop", usage=Usage(3, 0))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "RETRY_S", (0.01,))


@asynccontextmanager
async def working(redis: Client, clock: StoppedClock) -> AsyncIterator[Settler]:
    settler = Settler(redis, "inc_a", clock)
    task = asyncio.create_task(settler.run())
    try:
        yield settler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def taken(redis: Client, records: Records) -> QueuedRequest:
    asked = request()
    await database(records.open, asked)
    return await leased(redis, "inc_a", asked)


def outcome(asked: QueuedRequest, final: Finished | Suspended | None = END) -> Ended:
    return Ended(asked, "", final)


async def test_it_settles_with_the_time_of_the_end(redis: Client, records: Records) -> None:
    clock = StoppedClock()
    async with working(redis, clock) as settler:
        asked = await taken(redis, records)
        settler.put(outcome(asked))
        clock.advance(60)
        assert await settler.drain(timeout_s=20)
    found = await database(records.of, asked)
    assert (found.state, found.settled_at) == (State.FINISHED, START)
    assert await registry.unsettled(redis, "inc_a") == []


async def test_the_database_away_then_back(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OperationalError("server closed the connection")] * 3

    def flaky(ended: Sequence[tuple[Outcome, datetime]]) -> list[bool]:
        if failures:
            raise failures.pop()
        return settle_all(ended)

    monkeypatch.setattr(settling, "settle_all", flaky)
    async with working(redis, StoppedClock()) as settler:
        asked = [await taken(redis, records) for _ in range(3)]
        for each in asked:
            settler.put(outcome(each))
        assert await settler.drain(timeout_s=20)
    for each in asked:
        assert (await database(records.of, each)).state == State.FINISHED


async def test_what_cannot_be_settled_stays_in_the_running_set_and_stops_nobody(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, good = await taken(redis, records), await taken(redis, records)

    def picky(ended: Sequence[tuple[Outcome, datetime]]) -> list[bool]:
        if any(outcome.generation_id == poison.generation_id for outcome, _ in ended):
            raise ValueError("a listener's bug")
        return settle_all(ended)

    monkeypatch.setattr(settling, "settle_all", picky)
    async with working(redis, StoppedClock()) as settler:
        settler.put(outcome(poison))
        settler.put(outcome(good))
        assert await settler.drain(timeout_s=20)
    assert (await database(records.of, good)).state == State.FINISHED
    assert await registry.unsettled(redis, "inc_a") == [poison]


async def test_redis_away_holds_up_the_note_and_not_the_settlement(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = asyncio.Event()
    settled = registry.settled

    async def flaky(redis: Client, incarnation: str, request: QueuedRequest) -> None:
        if not back.is_set():
            raise RedisAway("gone")
        await settled(redis, incarnation, request)

    monkeypatch.setattr(registry, "settled", flaky)
    async with working(redis, StoppedClock()) as settler:
        asked = [await taken(redis, records) for _ in range(2)]
        for each in asked:
            settler.put(outcome(each))
        while any([(await database(records.of, each)).state == State.OPEN for each in asked]):
            await asyncio.sleep(0.01)
        assert len(await registry.unsettled(redis, "inc_a")) == 2
        assert not await settler.drain(timeout_s=0.01)
        back.set()
        assert await settler.drain(timeout_s=20)
    assert await registry.unsettled(redis, "inc_a") == []


async def test_what_could_not_be_written_on_here_goes_on_from_its_log(
    redis: Client, records: Records
) -> None:
    """Redis was away for so long that the log was given up, and nobody else has taken it."""
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        tokens = Tokens(seq=2, text="river water ", token_ids=(0, 1))
        await token_log.append(redis, "inc_a", [write(asked, tokens)])
        settler.put(outcome(asked, None))
        assert await settler.drain(timeout_s=20)
    assert await registry.unsettled(redis, "inc_a") == []
    again = await queue.claim(redis, "rel_a", "inc_b")
    assert again is not None
    assert (again.seq, again.text, again.turn, again.engines_lost) == (2, "river water ", 1, 0)


async def test_what_another_has_by_now_is_left_alone(redis: Client, records: Records) -> None:
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        await taken_over(redis, asked)
        written = await entries(redis, asked)
        settler.put(outcome(asked, None))
        assert await settler.drain(timeout_s=20)
    assert (await database(records.of, asked)).state == State.OPEN
    assert await entries(redis, asked) == written
    assert await registry.unsettled(redis, "inc_a") == []
    assert [each.turn for each in await registry.unsettled(redis, "inc_b")] == [1]


async def test_a_log_that_is_gone_is_settled_as_lost(redis: Client, records: Records) -> None:
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        await redis.flushall()
        settler.put(outcome(asked, None))
        assert await settler.drain(timeout_s=20)
    assert (await database(records.of, asked)).error_code == "log_lost"


async def test_noting_the_end_of_one_turn_leaves_the_next_alone(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same host may have taken it again before it notes that it has handed it back."""
    requeue = queue.requeue

    async def taken_at_once(redis: Client, asked: QueuedRequest) -> bool:
        done = await requeue(redis, asked)
        assert await queue.claim(redis, "rel_a", "inc_a") is not None
        return done

    monkeypatch.setattr(queue, "requeue", taken_at_once)
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        end = Suspended(0, "", "drained", Usage(3, 0))
        await token_log.append(redis, "inc_a", [write(asked, end)])
        settler.put(outcome(asked, end))
        assert await settler.drain(timeout_s=20)
    assert [each.turn for each in await registry.unsettled(redis, "inc_a")] == [1]


async def test_a_suspension_that_comes_late_keeps_nothing(redis: Client, records: Records) -> None:
    """It was put back and taken by another while this host slept."""
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        end = Suspended(0, "", "detached", Usage(3, 0))
        await token_log.append(redis, "inc_a", [write(asked, end)])
        assert await queue.requeue(redis, asked)
        await queue.claim(redis, "rel_a", "inc_b")
        settler.put(outcome(asked, end))
        assert await settler.drain(timeout_s=20)
    assert (await database(records.of, asked)).state == State.OPEN


def write(asked: QueuedRequest, entry: Tokens | Suspended) -> Write:
    return Write(asked.tenant_id, asked.generation_id, entry, asked.turn)


async def taken_over(redis: Client, asked: QueuedRequest) -> None:
    """inc_a counts as lost, and inc_b has what it ran."""
    assert await takeover.take_over(redis, StoppedClock(), {"inc_a"}) == 1
    assert await queue.claim(redis, "rel_a", "inc_b") is not None
