"""An engine host is told to leave: what it runs ends or goes on elsewhere, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from inference import claiming, queue, redis_keys, registry, token_log
from inference.claiming import Claimed, Left
from inference.engine.fake import FakeEngine, word
from inference.engine.protocol import EngineDead
from inference.host import engine_host, pulling
from inference.host.engine_host import EngineHost
from inference.messages import QueuedRequest, ReplicaRecord
from inference.models import Generation
from inference.services import catalog
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, StoppedClock, request

PATIENCE_S = 30


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    for module in (engine_host, pulling):
        monkeypatch.setattr(module, "BLOCK_S", 0.1)
    settings.REPLICA_TIMEOUT_S = 4
    settings.DRAIN_GRACE_S = 60


@asynccontextmanager
async def hosting(
    redis: Client, name: str = "engine", *, itl_s: float = 0.02
) -> AsyncIterator[tuple[EngineHost, asyncio.Task[None]]]:
    """A host that is ready, and its task; stopped at the end if it still runs."""
    engine = FakeEngine(ttft_s=0.001, itl_s=itl_s)
    host = EngineHost(
        engine, redis, StoppedClock(), replica=name, release_id="rel_a", release_name="fake"
    )
    task = asyncio.create_task(host.run())
    await state_of(redis, name, "ready")
    try:
        yield host, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def state_of(redis: Client, name: str, state: str) -> ReplicaRecord:
    """The replica's record once it says so."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for record in await registry.replicas(redis):
                if (record.replica, record.state) == (name, state):
                    return record
            await asyncio.sleep(0.005)


async def queued(redis: Client, records: Records, max_tokens: int) -> QueuedRequest:
    asked = request(max_tokens=max_tokens)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    return asked


async def taken(redis: Client, asked: QueuedRequest) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await redis.exists(redis_keys.lease(asked.generation_id)):
            await asyncio.sleep(0.005)


async def ended(records: Records, asked: QueuedRequest) -> Generation:
    async with asyncio.timeout(PATIENCE_S):
        while (found := await database(records.of, asked)).settled_at is None:
            await asyncio.sleep(0.005)
    return found


async def test_what_runs_ends_within_the_grace(redis: Client, records: Records) -> None:
    async with hosting(redis) as (host, task):
        running = await queued(redis, records, max_tokens=40)
        await taken(redis, running)
        host.drain()
        late = await queued(redis, records, max_tokens=8)
        await task
    found = await database(records.of, running)
    assert (found.state, found.output_tokens) == ("finished", 40)
    assert await queue.place(redis, "rel_a", late.generation_id) == 1
    assert await redis.smembers(redis_keys.REPLICAS) == set()


async def test_it_says_at_once_that_it_leaves(
    redis: Client, records: Records, settings: Settings
) -> None:
    async with hosting(redis) as (host, _):
        # From here on a heartbeat comes once in fifty minutes, beside the one at the drain.
        settings.REPLICA_TIMEOUT_S = 12_000
        await asyncio.sleep(1.5)
        running = await queued(redis, records, max_tokens=256)
        await taken(redis, running)
        assert [each.state for each in await catalog.model_states()] == ["ready"]
        host.drain()
        await state_of(redis, "engine", "draining")
        assert [each.state for each in await catalog.model_states()] == ["loading"]
        async with hosting(redis, "engine@2"):
            assert [each.state for each in await catalog.model_states()] == ["ready"]


async def test_the_rest_goes_on_elsewhere(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.DRAIN_GRACE_S = 0.2
    async with hosting(redis) as (host, task):
        running = [await queued(redis, records, max_tokens=60) for _ in range(6)]
        for each in running:
            await taken(redis, each)
        await asyncio.sleep(0.1)
        host.drain()
        async with hosting(redis, "engine@2", itl_s=0.001):
            await task
            for each in running:
                found = await ended(records, each)
                assert (found.state, found.output_tokens) == ("finished", 60)
                content = await token_log.content(redis, each.tenant_id, each.generation_id)
                assert content is not None
                prompt = each.engine_request.prompt_token_ids
                assert content.text == "".join(word(prompt, position)[1] for position in range(60))
    assert await redis.keys(redis_keys.running("*")) == []


async def test_a_claim_on_its_way_is_not_lost(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, claimed = claiming.claim_or_leave, asyncio.Event()

    async def slow(*arguments: Any, **options: Any) -> Claimed | Left | None:
        found = await claim(*arguments, **options)
        if found is not None:
            claimed.set()
            await asyncio.sleep(0.2)
        return found

    monkeypatch.setattr(claiming, "claim_or_leave", slow)
    async with hosting(redis) as (host, task):
        asked = await queued(redis, records, max_tokens=4)
        await claimed.wait()
        host.drain()
        await task
    found = await database(records.of, asked)
    assert (found.state, found.output_tokens) == ("finished", 4)
    assert await registry.lost(redis) == set()


async def test_one_that_leaves_hands_the_bell_on(redis: Client, records: Records) -> None:
    async with hosting(redis) as (host, task):
        host.drain()
        await task
    assert await redis.llen(redis_keys.queue_bell("rel_a")) == 1


async def test_one_that_never_got_ready_leaves_no_trace(redis: Client, records: Records) -> None:
    class Broken(FakeEngine):
        async def start(self) -> None:
            raise EngineDead("no")

    host = EngineHost(
        Broken(ttft_s=0, itl_s=0),
        redis,
        StoppedClock(),
        replica="engine",
        release_id="rel_a",
        release_name="fake",
    )
    with pytest.raises(EngineDead):
        await host.run()
    assert await registry.replicas(redis) == []
    assert [each.state for each in await catalog.model_states()] == ["down"]


async def test_a_lost_cancellation_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_host, "CANCEL_AGAIN_S", 0.01)
    begun = asyncio.Event()

    async def deaf_once() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            begun.set()
            await asyncio.sleep(PATIENCE_S)
        await asyncio.sleep(PATIENCE_S)

    task = asyncio.create_task(deaf_once())
    await begun.wait()
    await engine_host._end([task])
    assert task.cancelled()


async def test_it_tells_once_that_it_serves(redis: Client, records: Records) -> None:
    told: list[str] = []
    host = EngineHost(
        FakeEngine(ttft_s=0, itl_s=0),
        redis,
        StoppedClock(),
        replica="engine",
        release_id="rel_a",
        release_name="fake",
        on_ready=lambda: told.append("ready"),
    )
    task = asyncio.create_task(host.run())
    await state_of(redis, "engine", "ready")
    host.drain()
    await task
    assert told == ["ready"]
