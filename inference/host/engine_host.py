"""A replica from load to stop: announce, warm up, pull, answer control messages, leave.

The host takes a request only when its engine can start it soon, so that who comes next is decided
in the queue and nowhere else. Nothing here touches the database until a generation has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from django.conf import settings

from inference import control
from inference.engine.protocol import Engine, EngineDead, EngineRequest, Sampling
from inference.host import queue_gauges, watchdog
from inference.host.charging import Charging
from inference.host.kv_watch import KVWatch
from inference.host.limiting import Limiting
from inference.host.lost_replicas import LostReplicas
from inference.host.prefix_notes import PrefixNotes
from inference.host.presence import OUTAGE_PAUSE_S, Presence, outage_logged
from inference.host.pulling import BLOCK_S, Pulling
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.host.writer import LogWriter
from inference.messages import QueuedRequest, ReplicaRecord, SuspendReason
from inference.services import estimates
from kernel.clock import Clock
from kernel.ids import new_id
from kernel.redis import Client

log = logging.getLogger(__name__)

# What an outage of Redis makes a host keep in memory. Its generations go on after it.
OUTAGE_LIMIT_S = 10.0
# A long queue takes a millisecond for a hundred requests to read.
QUEUE_GAUGES_EVERY_S = 5.0
SETTLE_GRACE_S = 10.0
CANCEL_AGAIN_S = 1.0


class EngineHost:
    def __init__(
        self,
        engine: Engine,
        redis: Client,
        clock: Clock,
        *,
        replica: str,
        release_id: str,
        release_name: str,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """replica: the slot's stable name; on_ready: called when it begins to serve. Made inside
        the event loop that runs it.
        """
        incarnation = new_id("inc")
        self._engine = engine
        self._redis = redis
        self._release_id = release_id
        record = ReplicaRecord(replica, incarnation, release_id, release_name, "loading")
        self._presence = Presence(redis, record, clock)
        self._writer = LogWriter(redis, incarnation, outage_limit_s=OUTAGE_LIMIT_S)
        self._settler = Settler(redis, incarnation, clock)
        self._runner = Runner(engine, self._writer, self._settler, clock, release_name=release_name)
        self._charging = Charging(redis, release_id, release_name)
        self._kv = KVWatch(engine, release_name=release_name, replica=replica)
        self._prefixes = PrefixNotes(redis, incarnation, self._kv)
        self._limiting = Limiting(engine, self._runner)
        self._pulling = Pulling(
            redis,
            engine,
            self._presence,
            self._runner,
            self._settler,
            start=self._start,
            prefixes_kept=lambda: self._prefixes.kept,
        )
        self._lost = LostReplicas(redis, clock, incarnation, self._runner.tally)
        self._on_ready = on_ready
        self._draining = asyncio.Event()
        self.is_serving = False
        self._warm_up_tokens = 0

    async def run(self) -> None:
        """Serve until cancelled. Raises EngineDead when the engine fails."""
        try:
            await self._load()
            await self._runner.latency.learn_objectives(self._release_id)
            self.is_serving = True
            self._on_ready()
            log.info("Replica %s is ready (%s).", *self._name)
            await self._serve()
        finally:
            await self._engine.stop()

    @property
    def _name(self) -> tuple[str, str]:
        return self._presence.record.replica, self._presence.incarnation

    async def _load(self) -> None:
        await self._presence.announce_loading()
        try:
            await self._engine.start()
            await self._warm_up()
        except BaseException:
            # Else it would count as on its way for as long as loading may take.
            await self._presence.leave(settled=True)
            raise

    def drain(self) -> None:
        """Take nothing new, let what runs finish within `DRAIN_GRACE_S`, hand the rest back."""
        self._draining.set()

    async def _serve(self) -> None:
        loops = (
            self._writer.run,
            self._settler.run,
            self._heartbeat,
            self._listen,
            self._lost.run,
            self._runner.watch,
            self._charging.run,
            self._prefixes.run,
            self._kv.run,
            self._show_queue,
            self._runner.engine_failed,
            self._watch_engine,
            self._learn_objectives,
            self._limiting.run,
        )
        keeping = [_start(loop) for loop in loops]
        pulling = _start(partial(self._pulling.run, self._draining))
        draining = asyncio.create_task(self._draining.wait())
        why: SuspendReason = "drained"
        try:
            done, _ = await asyncio.wait(
                [*keeping, pulling, draining], return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
            # Not broken off: a claim on its way would take a request that nobody runs.
            await pulling
            log.info("Draining: %d generations are running.", len(self._runner))
            await self._runner.drain(grace_s=settings.DRAIN_GRACE_S)
        except EngineDead:
            why = "engine_lost"
            raise
        finally:
            self._draining.set()
            # Nobody is to wait for the next heartbeat to learn of a dead engine.
            with outage_logged("telling that it leaves"):
                await self._renew()
            await _end([pulling, draining])
            await self._runner.stop(why)
            settled = await self._settler.drain(timeout_s=SETTLE_GRACE_S)
            await _end(keeping)
            self._runner.tally.publish()
            with outage_logged("charging"):
                await self._charging.charge()
            await self._presence.leave(settled)

    async def _warm_up(self) -> None:
        """Ready means that a token has been made, not that a process is there."""
        request = EngineRequest(
            generation_id=new_id("gen"),
            prompt_token_ids=[1, 2, 3],
            sampling=Sampling(max_tokens=1, temperature=0.0),
            cache_salt=self._presence.incarnation,
        )
        async with contextlib.aclosing(self._engine.submit(request)) as deltas:
            async for delta in deltas:
                self._warm_up_tokens += len(delta.token_ids)
        if not self._warm_up_tokens:
            raise EngineDead("The engine made no token at warm-up.")

    async def _heartbeat(self) -> None:
        """As often as it takes to be heard of, and at once when it begins to leave."""
        while True:
            with outage_logged("heartbeat"):
                await self._renew()
            if self._draining.is_set():
                await asyncio.sleep(self._presence.pause_s)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._presence.pause_s):
                    await self._draining.wait()

    async def _renew(self) -> None:
        tally, kv = self._runner.tally, self._kv.last
        tally.publish()
        lapsed = await self._presence.renew(
            state="draining" if self._draining.is_set() else "ready",
            output_tokens=self._warm_up_tokens + tally.output_tokens,
            kv_used_blocks=kv.used_blocks if kv else 0,
            kv_total_blocks=kv.total_blocks if kv else 0,
            **self._runner.census.told(self._engine.load()),
            **self._runner.latency.told(),
            **tally.told(),
        )
        if lapsed:
            self._runner.drop(await self._presence.taken_over(self._runner.turns()))
        await estimates.note_outputs(self._redis, self._release_id, tally.lengths())

    async def _show_queue(self) -> None:
        record = self._presence.record
        while True:
            with outage_logged("looking at the queue"):
                await queue_gauges.observe(self._redis, record.release_id, record.release_name)
            await asyncio.sleep(QUEUE_GAUGES_EVERY_S)

    async def _watch_engine(self) -> None:
        await watchdog.watch(self._engine, self._runner)

    async def _learn_objectives(self) -> None:
        await self._runner.latency.keep_learning(self._release_id)

    def _start(self, request: QueuedRequest) -> None:
        run = self._runner.start(request)
        self._charging.add(run)
        self._prefixes.add(run)
        self._limiting.look()

    async def _listen(self) -> None:
        while True:
            with outage_logged("listening"):
                incarnation = self._presence.incarnation
                for message in await control.receive(self._redis, incarnation, timeout_s=BLOCK_S):
                    await self._runner.handle(message)
                continue
            await asyncio.sleep(OUTAGE_PAUSE_S)


def _start(loop: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    return asyncio.create_task(loop())


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel and wait. Again where a cancellation was lost: a blocking read that just then returns
    may swallow it, and its loop would go on for ever.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    for task in tasks:
        if not task.cancelled():
            task.exception()
