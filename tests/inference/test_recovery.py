from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from inference import queue, redis_keys, registry, token_log
from inference.messages import Failed, Finished, QueuedRequest, ReplicaRecord, Tokens, Usage
from inference.models import Generation, State
from inference.services import recovery, settlement
from inference.services.settlement import Outcome
from inference.token_log import Content, Write
from kernel.database import database
from kernel.redis import Client, connected
from tests.inference.making import START, Records, StoppedClock, entries, leased, request

CLOCK = StoppedClock()
RECORD = ReplicaRecord("engine", "inc_a", "rel_a", "fake", "ready")


async def running(redis: Client, records: Records, *, tokens: int = 0) -> QueuedRequest:
    """A generation that inc_a runs, with so many tokens in its log."""
    await registry.renew(redis, RECORD, timeout_s=60)
    asked = request()
    await database(records.open, asked)
    await leased(redis, "inc_a", asked)
    if tokens:
        entry = Tokens(seq=tokens, text="river " * tokens, token_ids=(1,) * tokens)
        await append(redis, asked, entry)
    return asked


async def append(redis: Client, asked: QueuedRequest, entry: Tokens | Finished) -> bool:
    write = Write(asked.tenant_id, asked.generation_id, entry)
    return (await token_log.append(redis, "inc_a", [write]))[0]


async def test_what_a_lost_replica_ran_is_closed_and_settled_with_the_logs_count(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=7)
    await registry.lose(redis, "inc_a")
    assert await recovery.close_lost(redis, CLOCK, {"inc_a"}) == 1
    last = (await entries(redis, asked))[-1]
    assert isinstance(last, Failed)
    assert (last.code, last.seq, last.retryable) == ("engine_lost", 7, True)
    found = await database(records.of, asked)
    assert (found.state, found.error_code, found.output_tokens) == ("failed", "engine_lost", 7)
    assert found.settled_at == START
    assert await registry.lost(redis) == set()
    assert not await redis.keys(redis_keys.running("*"))


async def test_racing_closers_close_and_settle_once(
    redis: Client, records: Records, listeners: list[settlement.Listener]
) -> None:
    heard: list[tuple[str, str]] = []

    def listen(generation: Generation, outcome: Outcome) -> None:
        heard.append((generation.id, outcome.text))

    listeners.append(listen)
    asked = [await running(redis, records, tokens=count) for count in (0, 3, 5)]
    await registry.lose(redis, "inc_a")

    async def close() -> int:
        async with connected() as own:
            return await recovery.close_lost(own, CLOCK, {"inc_a"})

    closed = await asyncio.gather(*(close() for _ in range(4)))
    assert sum(closed) == 3
    texts = {each.generation_id: "river " * n for each, n in zip(asked, (0, 3, 5), strict=True)}
    assert sorted(heard) == sorted(texts.items())
    for each in asked:
        kinds = [type(entry) for entry in await entries(redis, each)]
        assert kinds.count(Failed) == 1
        assert kinds[-1] is Failed


async def test_a_replica_that_comes_back_is_fenced_off(redis: Client, records: Records) -> None:
    asked = await running(redis, records, tokens=2)
    await registry.lose(redis, "inc_a")
    await recovery.close_lost(redis, CLOCK, {"inc_a"})
    written = await entries(redis, asked)
    assert not await append(redis, asked, Tokens(seq=3, text="late", token_ids=(1,)))
    end = Finished(seq=3, text="", finish_reason="stop", usage=Usage(3, 3))
    assert not await append(redis, asked, end)
    assert await entries(redis, asked) == written


async def test_a_replica_that_was_only_late_keeps_what_it_runs(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=2)
    assert await recovery.close_lost(redis, CLOCK, {"inc_a"}) == 0
    assert await append(redis, asked, Tokens(seq=3, text="on", token_ids=(1,)))
    assert await registry.unsettled(redis, "inc_a") == [asked]
    await registry.lose(redis, "inc_a")
    assert await recovery.close_lost(redis, CLOCK, await registry.lost(redis)) == 1
    assert (await database(records.of, asked)).output_tokens == 3


async def test_what_a_replica_takes_while_it_counts_as_lost_is_not_forgotten(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped for a while claims before its next heartbeat."""
    await running(redis, records)
    await registry.lose(redis, "inc_a")
    late = request()
    await database(records.open, late)
    await queue.enqueue(redis, late)
    unsettled = registry.unsettled

    async def claimed_behind(redis: Client, incarnation: str) -> list[QueuedRequest]:
        found = await unsettled(redis, incarnation)
        await queue.claim(redis, "rel_a", incarnation)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(registry, "unsettled", claimed_behind)
        assert await recovery.close_lost(redis, CLOCK, {"inc_a"}) == 1
    assert await recovery.close_lost(redis, CLOCK, await registry.lost(redis)) == 1
    assert (await database(records.of, late)).state == State.FAILED


async def test_what_a_replica_appends_while_it_is_closed_is_counted_as_well(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await running(redis, records, tokens=2)
    await registry.lose(redis, "inc_a")
    content = token_log.content

    async def appended_behind(redis: Client, tenant_id: str, generation_id: str) -> Content | None:
        found = await content(redis, tenant_id, generation_id)
        await append(redis, asked, Tokens(seq=3, text="late", token_ids=(1,)))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(token_log, "content", appended_behind)
        assert await recovery.close_lost(redis, CLOCK, {"inc_a"}) == 0
    assert await recovery.close_lost(redis, CLOCK, await registry.lost(redis)) == 1
    assert (await database(records.of, asked)).output_tokens == 3


async def test_an_answer_that_was_ended_and_not_settled_is_settled_as_it_ended(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=2)
    usage = Usage(prompt_tokens=3, output_tokens=2)
    await append(redis, asked, Finished(seq=2, text="", finish_reason="stop", usage=usage))
    await registry.lose(redis, "inc_a")
    assert await recovery.close_lost(redis, CLOCK, {"inc_a"}) == 1
    found = await database(records.of, asked)
    assert (found.state, found.finish_reason, found.output_tokens) == ("finished", "stop", 2)


async def test_a_lost_replica_whose_logs_are_gone_is_forgotten_all_the_same(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records)
    await redis.delete(
        redis_keys.log(asked.tenant_id, asked.generation_id), redis_keys.lease(asked.generation_id)
    )
    await registry.lose(redis, "inc_a")
    assert await recovery.close_lost(redis, CLOCK, {"inc_a"}) == 1
    assert (await database(records.of, asked)).error_code == "log_lost"
    assert await registry.lost(redis) == set()


async def test_requests_that_waited_too_long_are_given_up(
    redis: Client, records: Records, settings: Settings
) -> None:
    asked = request()
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    assert await recovery.close_overdue(redis, CLOCK) == 0
    settings.QUEUE_TIMEOUT_S = -1
    assert await recovery.close_overdue(redis, CLOCK) == 1
    assert await recovery.close_overdue(redis, CLOCK) == 0
    last = (await entries(redis, asked))[-1]
    assert isinstance(last, Failed)
    assert last.code == "queue_timeout"
    assert (await database(records.of, asked)).error_code == "queue_timeout"


async def test_open_generations_without_a_log_are_settled_after_a_minute(
    redis: Client, records: Records
) -> None:
    old, young, alive = request(), request(), request()
    await database(records.open, old, created_at=START - timedelta(seconds=61))
    await database(records.open, young, created_at=START - timedelta(seconds=59))
    await database(records.open, alive, created_at=START - timedelta(seconds=61))
    await queue.enqueue(redis, alive)
    assert await recovery.sweep(redis, CLOCK) == {"lost": 0, "overdue": 0, "orphans": 1}
    states = [(await database(records.of, each)).state for each in (old, young, alive)]
    assert states == [State.FAILED, State.OPEN, State.OPEN]
