"""How much of an engine's KV cache is used: who tells, how often it is asked, and what is shown."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from inference import metrics
from inference.engine.fake import FakeEngine
from inference.engine.protocol import Capabilities, EngineDead, EngineError, KVCache, Load
from inference.host import kv_watch
from inference.host.kv_watch import KVWatch
from inference.host.prefix_notes import PrefixNotes
from inference.prefixes import KEPT
from kernel.redis import Client
from tests.inference.making import request


class Told(FakeEngine):
    """Says what the test says."""

    def __init__(self) -> None:
        super().__init__(ttft_s=0, itl_s=0)
        self.says: KVCache | Exception = KVCache(3, 12, 16)
        self.busy = True
        self.asked = 0

    def load(self) -> Load:
        return Load(running=int(self.busy), waiting=0)

    async def kv_cache(self) -> KVCache:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def watch_of(engine: FakeEngine) -> KVWatch:
    return KVWatch(engine, release_name="watched", replica="engine")


def preemptions() -> float:
    return float(metrics.PREEMPTIONS.labels("watched")._value.get())


async def test_use_and_preemptions_are_shown() -> None:
    engine, before = Told(), preemptions()
    watch = watch_of(engine)
    await watch.look()
    assert metrics.KV_USAGE.labels("watched", "engine")._value.get() == 0.25
    engine.says = KVCache(6, 12, 16, preemptions=2)
    await watch.look()
    await watch.look()
    assert metrics.KV_USAGE.labels("watched", "engine")._value.get() == 0.5
    assert preemptions() - before == 2
    assert watch.last == engine.says


async def test_an_idle_engine_is_asked_once_more_and_then_left_alone() -> None:
    engine = Told()
    watch = watch_of(engine)
    for busy, asked in ((True, 1), (False, 2), (False, 2), (True, 3), (False, 4), (False, 4)):
        engine.busy = busy
        await watch.look()
        assert engine.asked == asked


async def test_one_that_cannot_answer_now_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_watch, "LOOK_S", 0)
    engine = Told()
    engine.says = EngineError("busy")
    running = asyncio.create_task(watch_of(engine).run())
    while engine.asked < 3:
        await asyncio.sleep(0)
    engine.says = EngineDead("gone")
    with pytest.raises(EngineDead):
        await running


async def test_one_that_cannot_tell_is_not_asked() -> None:
    engine = Told()
    engine.capabilities = Capabilities(hold=True, restore=True)
    watch = watch_of(engine)
    running = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (engine.asked, watch.last) == (0, None)


async def test_as_many_marks_are_kept_as_the_cache_has_blocks(redis: Client) -> None:
    engine = Told()
    watch = watch_of(engine)
    notes = PrefixNotes(redis, "inc_a", watch)
    assert notes.kept == KEPT
    engine.says = KVCache(0, 800, 16)
    await watch.look()
    assert notes.kept == 800 * 16 // 128


async def test_the_fake_engine_counts_whole_blocks() -> None:
    engine = FakeEngine(ttft_s=0, itl_s=0, kv_cache_tokens=1600)
    asked = request(prompt=(1,) * 31)
    assert await engine.kv_cache() == KVCache(0, 100, 16)
    async with contextlib.aclosing(engine.submit(asked.engine_request)) as deltas:
        await anext(deltas)
        assert (await engine.kv_cache()).used_blocks == 2
        await anext(deltas)
        assert (await engine.kv_cache()).used_blocks == 3
    assert (await engine.kv_cache()).used_blocks == 0
