"""What is held for too long, or keeps too much of the KV cache, is taken out and can go on."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from inference import queue
from inference.engine.fake import FakeEngine, word
from inference.engine.protocol import EngineDead, EngineError, Load
from inference.host import runner
from inference.host.holding import beyond_limits
from inference.host.run import Run
from inference.messages import Detached, QueuedRequest, Reading, Suspended
from inference.services import checkpoints
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, entries, leased, request
from tests.inference.test_runner import Bench, bench

MARK = 4
READER = "rdr_a"


class Kept(FakeEngine):
    """Holds nothing but what the test says."""

    def __init__(self, shares: dict[str, float], failure: Exception | None = None) -> None:
        super().__init__(ttft_s=0, itl_s=0)
        self._shares = shares
        self._failure = failure

    async def held_shares(self) -> dict[str, float]:
        if self._failure is not None:
            raise self._failure
        return self._shares


def held_run(name: str, held_at: float) -> Run:
    run = Run.of(request(generation_id=name), now=0)
    run.in_engine, run.flow.held, run.held_at = True, True, held_at
    return run


@given(
    held=st.lists(st.tuples(st.integers(0, 300), st.floats(0, 0.3)), max_size=12),
    limit=st.floats(0, 1),
)
async def test_what_stays_is_within_both_limits_and_nobody_goes_for_nothing(
    held: list[tuple[int, float]], limit: float
) -> None:
    runs = [held_run(f"gen_{n}", since) for n, (since, _) in enumerate(held)]
    shares = {f"gen_{n}": share for n, (_, share) in enumerate(held)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.HOLD_LIMIT_S", 180)
        patch.setattr("django.conf.settings.HOLD_KV_SHARE", limit)
        gone = await beyond_limits(Kept(shares), runs, now=300)
    assert len({run.id for run in gone}) == len(gone)
    stay = [run for run in runs if run not in gone]
    kept = sum(shares[run.id] for run in stay)
    assert kept <= limit + 1e-9
    assert all(300 - run.held_at <= 180 for run in stay)
    in_time = [run for run in gone if 300 - run.held_at <= 180]
    if in_time:
        assert kept + shares[in_time[-1].id] > limit - 1e-9, "the last of them had to go as well"
        assert max(run.held_at for run in in_time) <= min(
            (run.held_at for run in stay if shares[run.id]), default=300
        )


def held_in_engine(at: Bench) -> int:
    return sum(run.is_held_in_engine for run in at.runner.runs())


async def test_only_what_is_held_in_the_engine_counts() -> None:
    outside, ending, going, running = (held_run(name, 0) for name in "abcd")
    outside.in_engine, ending.ending, going.suspending = False, True, "detached"
    running.flow.held = False
    assert await beyond_limits(Kept({}), [outside, ending, going, running], now=1e9) == []


@pytest.mark.parametrize("failure", [EngineError("busy"), TimeoutError()])
async def test_an_engine_that_does_not_say_loses_nothing(failure: Exception) -> None:
    assert await beyond_limits(Kept({}, failure), [held_run("a", 0)], now=1) == []


async def test_an_engine_that_is_dead_is_told_to_its_host() -> None:
    with pytest.raises(EngineDead):
        await beyond_limits(Kept({}, EngineDead("gone")), [held_run("a", 0)], now=1)


class Looked(FakeEngine):
    """Counts how often it was asked what held requests keep."""

    looks = 0

    async def held_shares(self) -> dict[str, float]:
        self.looks += 1
        return await super().held_shares()


def engine() -> Looked:
    return Looked(ttft_s=0.001, itl_s=0.001, kv_cache_tokens=100)


async def held(at: Bench, detached: Detached = "hold") -> QueuedRequest:
    """A generation that has made its mark's tokens, and whose reader is there."""
    asked = request(max_tokens=20, high_water_tokens=MARK, detached=detached)
    await database(at.records.open, asked)
    await leased(at.redis, "inc_a", asked)
    at.runner.start(asked)
    await at.tokens(asked, MARK)
    while at.runner.census.held == 0:
        await asyncio.sleep(0.002)
    return asked


@pytest.fixture(autouse=True)
def _quick_watch(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(runner, "WATCH_S", 0.01)
    settings.DETACH_GRACE_S = 10_000
    settings.HOLD_LIMIT_S, settings.HOLD_KV_SHARE = 180, 1


async def went_on(at: Bench, asked: QueuedRequest) -> None:
    """From its checkpoint, to its end, as if nothing had been."""
    last = (await entries(at.redis, asked))[-1]
    assert isinstance(last, Suspended)
    assert (last.reason, last.seq) == ("held", MARK)
    assert await checkpoints.go_on(at.redis, asked.tenant_id, asked.generation_id)
    again = await queue.claim(at.redis, "rel_a", "inc_a")
    assert again is not None
    at.runner.start(again)
    while at.runner.census.held == 0:
        await asyncio.sleep(0.002)
    assert held_in_engine(at) == 0, "it waits in front of the engine"
    assert at.engine.load() == Load(0, 0)
    await at.runner.handle(Reading(asked.generation_id, READER, MARK, 1000))
    found = await at.ended(asked)
    content = await at.content(asked)
    prompt = asked.engine_request.prompt_token_ids
    assert content.text == "".join(word(prompt, position)[1] for position in range(20))
    assert (found.state, found.output_tokens) == ("finished", 20)


@pytest.mark.parametrize("limit", ["time", "share"])
async def test_beyond_a_limit_it_is_a_checkpoint_that_goes_on(
    redis: Client, records: Records, settings: Settings, limit: str
) -> None:
    async with bench(redis, records, engine()) as at:
        watching = asyncio.create_task(at.runner.watch())
        asked = await held(at)
        if limit == "time":
            at.clock.advance(181)
        else:
            # Three tokens of prompt and four of answer.
            settings.HOLD_KV_SHARE = 0.06
        assert await at.settled(asked)
        watching.cancel()
        assert at.engine.load().running == 0
        await went_on(at, asked)


async def test_within_the_limits_it_stays(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.HOLD_KV_SHARE = 0.07
    looked = engine()
    async with bench(redis, records, looked) as at:
        watching = asyncio.create_task(at.runner.watch())
        asked = await held(at)
        at.clock.advance(180)
        assert held_in_engine(at) == 1
        before = looked.looks
        while looked.looks < before + 3:
            await asyncio.sleep(0.002)
        assert at.runner.census.held == 1
        await at.runner.handle(Reading(asked.generation_id, READER, MARK, 1000))
        assert (await at.ended(asked)).output_tokens == 20
        watching.cancel()


async def test_what_needs_no_reader_runs_to_its_end_instead(
    redis: Client, records: Records
) -> None:
    async with bench(redis, records, engine()) as at:
        watching = asyncio.create_task(at.runner.watch())
        asked = await held(at, "finish")
        at.clock.advance(181)
        assert (await at.ended(asked)).output_tokens == 20
        watching.cancel()
