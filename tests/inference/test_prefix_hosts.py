"""Two engine hosts of one release: the next turn of a conversation goes where the last one was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from inference import metrics, queue, redis_keys, registry
from inference.engine.fake import FakeEngine
from inference.engine.protocol import Engine
from inference.host.engine_host import EngineHost
from inference.messages import QueuedRequest, Started
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, StoppedClock, entries, request

NAMES = ("one", "other")


@pytest.fixture(autouse=True)
def _small_blocks(settings: Settings) -> None:
    settings.PREFIX_BLOCK_TOKENS = 4
    # Of a machine that does much else: whoever is called comes before that.
    settings.PREFIX_WAIT_MS = 1000
    settings.REPLICA_TIMEOUT_S = 2


@asynccontextmanager
async def two_hosts(redis: Client, **engine: Any) -> AsyncIterator[dict[str, EngineHost]]:
    """Both ready and waiting."""
    pace = {"ttft_s": 0.001, "itl_s": 0.001} | engine
    hosts = {name: host_of(FakeEngine(**pace), redis, name) for name in NAMES}
    running = [asyncio.create_task(host.run()) for host in hosts.values()]
    while await redis.hlen(f"{redis_keys.share('rel_a')}:room") < 2:
        await asyncio.sleep(0.005)
    try:
        yield hosts
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def host_of(engine: Engine, redis: Client, replica: str) -> EngineHost:
    return EngineHost(
        engine, redis, StoppedClock(), replica=replica, release_id="rel_a", release_name="two"
    )


async def asked(redis: Client, records: Records, *prompt: int) -> QueuedRequest:
    made = request(prompt=prompt)
    await database(records.open, made)
    await queue.enqueue(redis, made)
    return made


async def answered(redis: Client, records: Records, *prompt: int) -> tuple[str, tuple[int, ...]]:
    """Which replica answered, and the conversation from here."""
    made = await asked(redis, records, *prompt)
    while (await database(records.of, made)).settled_at is None:
        await asyncio.sleep(0.005)
    log = await entries(redis, made)
    (began,) = [entry for entry in log if isinstance(entry, Started)]
    tokens = [token for entry in log for token in getattr(entry, "token_ids", ())]
    names = {each.incarnation: each.replica for each in await registry.replicas(redis)}
    return names[began.incarnation], (*prompt, *tokens)


def claims(match: str) -> float:
    return float(metrics.PREFIX_CLAIMS.labels("two", match)._value.get())


async def test_every_turn_of_a_conversation_goes_where_its_first_went(
    redis: Client, records: Records
) -> None:
    hits = claims("hit")
    async with two_hosts(redis):
        began: list[str] = []
        for topic in range(6):
            replica, so_far = await answered(redis, records, *[topic] * 9)
            began.append(replica)
            for turn in range(2):
                again, so_far = await answered(redis, records, *so_far, 90 + turn)
                assert again == replica
        # The bell wakes whoever waits longest, so that both have conversations.
        assert set(began) == set(NAMES)
    assert claims("hit") - hits == 12


async def test_an_answer_is_known_to_whoever_made_it(redis: Client, records: Records) -> None:
    """The first prompt is shorter than a block."""
    async with two_hosts(redis) as hosts:
        replica, so_far = await answered(redis, records, 7, 7)
        key = redis_keys.prefixes(hosts[replica]._presence.incarnation)
        while not await redis.exists(key):
            await asyncio.sleep(0.005)
        for _ in range(3):
            again, so_far = await answered(redis, records, *so_far, 91)
            assert again == replica


async def test_a_lost_replicas_conversations_go_on_at_once_elsewhere(
    redis: Client, records: Records
) -> None:
    async with two_hosts(redis) as hosts:
        replica, so_far = await answered(redis, records, *[5] * 9)
        hosts[replica].drain()
        while len(await registry.replicas(redis)) == 2:
            await asyncio.sleep(0.005)
        again, _ = await answered(redis, records, *so_far, 90)
        assert {replica, again} == set(NAMES)


async def test_what_an_engine_had_in_its_cache_is_counted(redis: Client, records: Records) -> None:
    class Caching(FakeEngine):
        def _delta(self, *arguments: Any) -> Any:
            delta = super()._delta(*arguments)
            return type(delta)(delta.text, delta.token_ids, delta.finish_reason, cached_tokens=4)

    def count(which: metrics.Counter) -> float:
        return float(which.labels("two")._value.get())

    before = count(metrics.PREFIX_QUERIES), count(metrics.PREFIX_HITS)
    running = asyncio.create_task(host_of(Caching(ttft_s=0, itl_s=0), redis, "one").run())
    await answered(redis, records, *[5] * 9)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert count(metrics.PREFIX_QUERIES) - before[0] == 9
    assert count(metrics.PREFIX_HITS) - before[1] == 4
