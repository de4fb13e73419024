from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from pytest_django.fixtures import Settings
from redis.exceptions import ConnectionError as RedisAway

from inference import claiming, control, leases, queue, redis_keys, registry, token_log
from inference.claiming import Claimed, Left
from inference.engine.fake import FakeEngine, word
from inference.engine.protocol import Delta, EngineDead, EngineRequest
from inference.host import engine_host, pulling
from inference.host.engine_host import EngineHost
from inference.host.lost_replicas import LostReplicas
from inference.host.presence import Presence
from inference.host.runner import Runner
from inference.host.tally import Tally
from inference.messages import (
    Cancel,
    QueuedRequest,
    ReplicaRecord,
    SuspendReason,
    Tokens,
    encode,
)
from inference.models import Generation
from inference.services import takeover
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, StoppedClock, entries, leased, request


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    for module in (engine_host, pulling):
        monkeypatch.setattr(module, "BLOCK_S", 0.1)
    settings.REPLICA_TIMEOUT_S = 1


def host_of(engine: FakeEngine, redis: Client, clock: Clock | None = None) -> EngineHost:
    clock = clock or StoppedClock()
    return EngineHost(
        engine, redis, clock, replica="engine", release_id="rel_a", release_name="fake"
    )


@asynccontextmanager
async def hosting(
    engine: FakeEngine, redis: Client, clock: Clock | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """A ready host; stopped at the end as by SIGTERM."""
    task = asyncio.create_task(host_of(engine, redis, clock).run())
    while not any(each.state == "ready" for each in await registry.replicas(redis)):
        await asyncio.sleep(0.005)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def quick(itl_s: float = 0.001) -> FakeEngine:
    return FakeEngine(ttft_s=0.001, itl_s=itl_s)


async def queued(redis: Client, records: Records, max_tokens: int = 8) -> QueuedRequest:
    asked = request(max_tokens=max_tokens)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    return asked


async def ended(records: Records, asked: QueuedRequest) -> Generation:
    while (found := await database(records.of, asked)).settled_at is None:
        await asyncio.sleep(0.005)
    return found


async def replica(redis: Client) -> ReplicaRecord:
    (found,) = await registry.replicas(redis)
    return found


async def test_it_is_ready_only_when_it_has_made_a_token(redis: Client, records: Records) -> None:
    states: list[str] = []

    class Watched(FakeEngine):
        async def start(self) -> None:
            states.append((await replica(redis)).state)
            await super().start()

        def submit(self, request: EngineRequest):  # type: ignore[no-untyped-def]
            states.append("warm-up")
            return super().submit(request)

    async with hosting(Watched(ttft_s=0.001, itl_s=0.001), redis):
        found = await replica(redis)
        assert (found.state, found.output_tokens, found.running) == ("ready", 1, 0)
    assert states == ["loading", "warm-up"]


async def test_it_serves_what_waits_and_what_comes(redis: Client, records: Records) -> None:
    waiting = [await queued(redis, records) for _ in range(20)]
    async with hosting(quick(), redis):
        coming = await queued(redis, records)
        for each in (*waiting, coming):
            found = await ended(records, each)
            assert (found.state, found.output_tokens) == ("finished", 8)


async def test_what_it_serves_is_charged_to_the_last_token(redis: Client, records: Records) -> None:
    asked = [await queued(redis, records) for _ in range(3)]
    async with hosting(quick(), redis):
        for each in asked:
            await ended(records, each)
    counters = f"{redis_keys.share('rel_a')}:standard:counters"
    assert await redis.zscore(counters, "ten_a") == 3 * (3 + 2 * 8)
    assert await redis.lrange(redis_keys.outputs("rel_a"), 0, -1) in ([], [b"8"] * 3)


async def test_it_takes_no_more_than_its_engine_can_start(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.ENGINE_MAX_RUNNING = 3
    for _ in range(5):
        await queued(redis, records, max_tokens=256)
    async with hosting(quick(itl_s=0.05), redis):
        while len(await registry.unsettled(redis, (await replica(redis)).incarnation)) < 3:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert await redis.zcard(redis_keys.queue("rel_a")) == 2


@pytest.mark.parametrize(
    ("step_tokens", "least", "most"), [(0, 8, 8), (30, 10, 17), (1024, 24, 24)]
)
async def test_an_engine_gets_its_depth_or_what_one_step_prefills(
    redis: Client, records: Records, settings: Settings, step_tokens: int, least: int, most: int
) -> None:
    settings.ENGINE_STEP_TOKENS = step_tokens
    engine = quick()
    async with hosting(engine, redis):
        engine._ttft_s = 3600  # from here on nothing that comes decodes
        incarnation = (await replica(redis)).incarnation
        for _ in range(24):
            await queued(redis, records)  # three tokens each
        while len(await registry.unsettled(redis, incarnation)) < least:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        claimed = len(await registry.unsettled(redis, incarnation))
    assert least <= claimed <= most


async def test_a_cancel_reaches_the_generation(redis: Client, records: Records) -> None:
    async with hosting(quick(itl_s=0.05), redis):
        asked = await queued(redis, records, max_tokens=256)
        while not (lease := await redis.get(redis_keys.lease(asked.generation_id))):
            await asyncio.sleep(0.005)
        incarnation = leases.runs_at(lease)
        assert incarnation is not None
        await control.send(redis, {incarnation: [Cancel(asked.generation_id)]})
        found = await ended(records, asked)
        assert found.state == "cancelled"
        assert found.output_tokens < 256


async def test_stopped_it_leaves_nothing_but_what_waits(redis: Client, records: Records) -> None:
    """What runs waits as well, with what it has."""
    async with hosting(quick(itl_s=0.05), redis) as task:
        running = await queued(redis, records, max_tokens=256)
        while not await redis.exists(redis_keys.lease(running.generation_id)):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    waiting = await queued(redis, records)
    assert (await database(records.of, running)).settled_at is None
    assert await redis.zcard(redis_keys.queue("rel_a")) == 2
    assert await registry.replicas(redis) == []
    assert await redis.smembers(redis_keys.REPLICAS) == set()
    assert not await redis.keys(redis_keys.running("*"))
    async with hosting(quick(), redis):
        assert (await ended(records, waiting)).state == "finished"
        assert (await ended(records, running)).output_tokens == 256


async def test_a_claim_that_was_on_its_way_when_it_stopped_is_not_forgotten(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_late(_pulling: pulling.Pulling) -> None:
        """It stops before it looks for what it was given without hearing of it."""

    monkeypatch.setattr(pulling.Pulling, "_adopt", too_late)
    async with hosting(quick(), redis) as task:
        incarnation = (await replica(redis)).incarnation
        late = await queued(redis, records)
        await ended(records, late)
        while await redis.exists(redis_keys.running(incarnation)):
            await asyncio.sleep(0.005)
        # As if Redis had given it out and the reply had not arrived.
        await redis.hset(redis_keys.running(incarnation), late.generation_id, encode(late))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await registry.lost(redis) == {incarnation}


async def test_a_request_whose_claim_got_lost_on_its_way_here_is_run_all_the_same(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, lost = claiming.claim_or_leave, []

    async def unheard(*arguments: Any, **options: Any) -> Claimed | Left | None:
        taken = await claim(*arguments, **options)
        if isinstance(taken, Claimed) and not lost:
            lost.append(taken.request)
            raise RedisAway("the connection broke before the reply")
        return taken

    monkeypatch.setattr(claiming, "claim_or_leave", unheard)
    async with hosting(quick(), redis):
        first = await queued(redis, records)
        second = await queued(redis, records)
        assert [(await ended(records, each)).state for each in (first, second)] == ["finished"] * 2
    assert lost == [first]


@pytest.mark.parametrize("answering", [True, False])
async def test_an_engine_that_dies_ends_the_host_with_an_error(
    redis: Client, records: Records, answering: bool
) -> None:
    engine = quick(itl_s=0.02)
    async with hosting(engine, redis) as task:
        asked = await queued(redis, records, max_tokens=256) if answering else None
        if asked is not None:
            while not await redis.exists(redis_keys.lease(asked.generation_id)):
                await asyncio.sleep(0.005)
        await engine.stop()
        with pytest.raises(EngineDead):
            await task
        assert await registry.replicas(redis) == []
        assert await redis.smembers(redis_keys.REPLICAS) == set()
    if asked is not None:
        async with hosting(quick(), redis):
            found = await ended(records, asked)
            assert (found.state, found.output_tokens) == ("finished", 256)


async def test_an_engine_that_makes_no_token_never_gets_ready(
    redis: Client, records: Records
) -> None:
    class Mute(FakeEngine):
        async def restore(self, request, output_token_ids, text):  # type: ignore[no-untyped-def]
            return
            yield

    with pytest.raises(EngineDead, match="warm-up"):
        await host_of(Mute(ttft_s=0, itl_s=0), redis).run()
    assert all(each.state == "loading" for each in await registry.replicas(redis))


class Hanging(FakeEngine):
    """Makes three tokens of an answer, then none, and says that it is well."""

    def _delta(self, request: EngineRequest, position: int, last: int) -> Delta:
        if position == 3:
            self._sleep = self._for_ever  # type: ignore[method-assign]
        return super()._delta(request, position, last)

    async def _for_ever(self, seconds: float) -> None:
        await asyncio.Event().wait()


async def test_an_engine_that_hangs_is_ended_and_its_answers_go_on_elsewhere(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.ENGINE_STALL_TIMEOUT_S = 1
    async with hosting(Hanging(ttft_s=0.001, itl_s=0.001), redis) as task:
        asked = await queued(redis, records)
        with pytest.raises(EngineDead, match="nothing of 1 requests"):
            await task
    assert await registry.replicas(redis) == []
    async with hosting(quick(), redis):
        found = await ended(records, asked)
        assert (found.state, found.output_tokens) == ("finished", 8)
    content = await token_log.content(redis, asked.tenant_id, asked.generation_id)
    assert content is not None
    prompt = asked.engine_request.prompt_token_ids
    assert content.text == "".join(word(prompt, position)[1] for position in range(8))


async def test_one_with_nothing_to_do_or_only_held_requests_does_not_hang(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.ENGINE_STALL_TIMEOUT_S = 1
    async with hosting(quick(), redis) as task:
        asked = request(max_tokens=8, high_water_tokens=2)
        await database(records.open, asked)
        await queue.enqueue(redis, asked)
        while (await replica(redis)).held == 0:
            await asyncio.sleep(0.005)
        done, _ = await asyncio.wait([task], timeout=2)
        assert not done


async def test_a_dead_engine_is_announced_before_its_host_is_gone(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps the host: from then on it is no replica that could answer."""
    states: list[list[str]] = []
    stop = Runner.stop

    async def looked_at(runner: Runner, why: SuspendReason) -> None:
        states.append([each.state for each in await registry.replicas(redis)])
        await stop(runner, why)

    monkeypatch.setattr(Runner, "stop", looked_at)
    engine = quick()
    async with hosting(engine, redis) as task:
        await engine.stop()
        with pytest.raises(EngineDead):
            await task
    assert states == [["draining"]]


async def test_it_takes_over_what_another_ran(redis: Client, records: Records) -> None:
    other = ReplicaRecord("other", "inc_x", "rel_a", "fake", "ready")
    await registry.renew(redis, other, timeout_s=60)
    asked = request()
    await database(records.open, asked)
    await leased(redis, "inc_x", asked)
    async with hosting(quick(), redis):
        await registry.lose(redis, "inc_x")
        found = await ended(records, asked)
    assert (found.state, found.output_tokens) == ("finished", 8)


async def test_one_that_was_cut_off_drops_what_another_has(
    redis: Client, records: Records, settings: Settings
) -> None:
    # Full, so that it doesn't take it again.
    settings.ENGINE_MAX_RUNNING = 1
    async with hosting(quick(), redis):
        held = request(max_tokens=8, high_water_tokens=2)
        await database(records.open, held)
        await queue.enqueue(redis, held)
        while (await replica(redis)).held == 0:
            await asyncio.sleep(0.005)
        mine = (await replica(redis)).incarnation
        other = ReplicaRecord("other", "inc_x", "rel_a", "fake", "ready")
        await registry.renew(redis, other, timeout_s=60)
        await registry.lose(redis, mine)
        await takeover.take_over(redis, StoppedClock(), {mine})
        await queue.claim(redis, "rel_a", "inc_x")
        # Nothing is appended for a held one, so only its leases tell.
        while {each.incarnation: each.held for each in await registry.replicas(redis)}.get(
            mine
        ) != 0:
            await asyncio.sleep(0.005)
        while await registry.unsettled(redis, mine):
            await asyncio.sleep(0.005)
    assert [each.turn for each in await registry.unsettled(redis, "inc_x")] == [1]
    assert (await database(records.of, held)).settled_at is None


async def test_one_that_was_cut_off_may_take_again_what_it_lost(
    redis: Client, records: Records
) -> None:
    async with hosting(quick(itl_s=0.02), redis):
        held = request(max_tokens=8, high_water_tokens=2)
        await database(records.open, held)
        await queue.enqueue(redis, held)
        while (await replica(redis)).held == 0:
            await asyncio.sleep(0.005)
        mine = (await replica(redis)).incarnation
        await registry.lose(redis, mine)
        await takeover.take_over(redis, StoppedClock(), {mine})
        while not (await registry.unsettled(redis, mine)):
            await asyncio.sleep(0.005)
        assert [each.turn for each in await registry.unsettled(redis, mine)] == [1]
        await control.send(redis, {mine: [Cancel(held.generation_id)]})
        found = await ended(records, held)
    assert (found.state, found.output_tokens) == ("cancelled", 2)


async def test_it_takes_nothing_while_it_may_count_as_lost(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    async with hosting(quick(), redis):
        with monkeypatch.context() as patch:
            patch.setattr(Presence, "is_heard", property(lambda _: looks.append(0)))
            while len(looks) < 2:  # a claim that waits already has ended
                await asyncio.sleep(0.005)
            asked = await queued(redis, records)
            seen = len(looks)
            while len(looks) < seen + 20:
                await asyncio.sleep(0.005)
            assert await queue.place(redis, "rel_a", asked.generation_id) == 1
        assert (await ended(records, asked)).state == "finished"


async def test_what_it_cannot_take_over_is_not_tried_all_the_time(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[set[str]] = []

    async def failing(_redis: Client, _clock: StoppedClock, incarnations: set[str]) -> int:
        tried.append(incarnations)
        return 0

    monkeypatch.setattr(takeover, "take_over", failing)
    looking = LostReplicas(redis, StoppedClock(), "inc_own", Tally("fake"))
    for name in ("inc_own", "inc_x", "inc_y"):
        await registry.renew(
            redis, ReplicaRecord(name, name, "rel_a", "fake", "ready"), timeout_s=60
        )
    for name in ("inc_own", "inc_x"):
        await registry.lose(redis, name)
    await looking._look()
    await looking._look()
    await registry.lose(redis, "inc_y")
    await looking._look()
    assert tried == [{"inc_x"}, {"inc_y"}]
    looking._again_at["inc_x"] -= 10
    await looking._look()
    assert tried == [{"inc_x"}, {"inc_y"}, {"inc_x"}]


async def test_its_record_counts_what_it_restored_held_and_took_over(
    redis: Client, records: Records
) -> None:
    async with hosting(quick(itl_s=0.02), redis):
        asked = await queued(redis, records, max_tokens=40)
        while not any(isinstance(entry, Tokens) for entry in await entries(redis, asked)):
            await asyncio.sleep(0.005)
    gone = await lost_lease(redis, records)
    async with hosting(quick(), redis):
        short_of_credit = request(max_tokens=8, high_water_tokens=4)
        await database(records.open, short_of_credit)
        await queue.enqueue(redis, short_of_credit)
        for each in (asked, gone):
            await ended(records, each)
        while (found := await replica(redis)).takeovers < 1 or not found.held:
            await asyncio.sleep(0.005)
    assert (found.restores, found.takeovers, found.holds) == (1, 1, 1)


async def lost_lease(redis: Client, records: Records) -> QueuedRequest:
    """What a replica has taken that is lost before it has made anything."""
    # Else what was interrupted would go first.
    asked = msgspec.structs.replace(request(), priority_class="interactive")
    await database(records.open, asked)
    await leased(redis, "inc_lost", asked)
    await redis.sadd(redis_keys.REPLICAS, "inc_lost")
    return asked
