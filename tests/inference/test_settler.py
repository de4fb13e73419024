from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError as RedisAway

from inference import registry, token_log
from inference.host import settler as settling
from inference.host.settler import Settler
from inference.messages import Failed, Finished, QueuedRequest, Usage
from inference.models import State
from inference.services.settlement import Outcome, settle_all
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


def outcome(asked: QueuedRequest, final: Finished | Failed = END) -> Outcome:
    return Outcome(asked.tenant_id, asked.generation_id, "", final)


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

    async def flaky(redis: Client, incarnation: str, generation_id: str) -> None:
        if not back.is_set():
            raise RedisAway("gone")
        await settled(redis, incarnation, generation_id)

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


async def test_a_log_that_was_given_up_gets_its_last_entry(redis: Client, records: Records) -> None:
    lost = Failed(0, "log_lost", "Lost.", retryable=True, usage=Usage(3, 0))
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        settler.put(outcome(asked, lost))
        assert await settler.drain(timeout_s=20)
        assert (await entries(redis, asked))[-1] == lost


async def test_a_log_that_has_its_last_entry_gets_no_other(redis: Client, records: Records) -> None:
    async with working(redis, StoppedClock()) as settler:
        asked = await taken(redis, records)
        write = token_log.Write(asked.tenant_id, asked.generation_id, END)
        await token_log.append(redis, "inc_a", [write])
        written = await entries(redis, asked)
        settler.put(outcome(asked))
        assert await settler.drain(timeout_s=20)
        assert await entries(redis, asked) == written
