"""A replica from load to stop: announce, warm up, pull, answer control messages, leave.

The host takes a request only when its engine can start it soon, so that who comes next is decided
in the queue and nowhere else. Nothing here touches the database until a generation has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import msgspec
from django.conf import settings

from inference import control, queue, registry
from inference.engine.protocol import Engine, EngineDead, EngineRequest, Sampling
from inference.host import queue_gauges
from inference.host.charging import Charging
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.host.writer import LogWriter
from inference.messages import ReplicaRecord
from inference.services import estimates
from kernel.clock import Clock
from kernel.ids import new_id
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

BLOCK_S = 1.0
OUTAGE_PAUSE_S = 0.5
FULL_PAUSE_S = 0.005
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
        self._record = ReplicaRecord(replica, incarnation, release_id, release_name, "loading")
        self._writer = LogWriter(redis, incarnation, outage_limit_s=settings.REPLICA_TIMEOUT_S)
        self._settler = Settler(redis, incarnation, clock)
        self._runner = Runner(engine, self._writer, self._settler, clock, release_name=release_name)
        self._charging = Charging(redis, release_id, release_name)
        self._on_ready = on_ready
        self._draining = asyncio.Event()
        self.is_serving = False
        self._warm_up_tokens = 0

    async def run(self) -> None:
        """Serve until cancelled. Raises EngineDead when the engine fails."""
        try:
            await self._load()
            self.is_serving = True
            self._on_ready()
            log.info("Replica %s is ready (%s).", self._record.replica, self._record.incarnation)
            await self._serve()
        finally:
            await self._engine.stop()

    async def _load(self) -> None:
        await self._announce_loading()
        try:
            await self._engine.start()
            await self._warm_up()
        except BaseException:
            # Else it would count as on its way for as long as loading may take.
            await self._leave(settled=True)
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
            self._runner.watch,
            self._charging.run,
            self._runner.engine_failed,
        )
        keeping = [_start(loop) for loop in loops]
        pulling, draining = _start(self._pull), asyncio.create_task(self._draining.wait())
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
        finally:
            await _end([pulling, draining])
            await self._runner.stop()
            settled = await self._settler.drain(timeout_s=SETTLE_GRACE_S)
            await _end(keeping)
            self._runner.count_tokens()
            with _outage_logged("charging"):
                await self._charging.charge()
            await self._leave(settled)

    async def _announce_loading(self) -> None:
        """Loading blocks this process for longer than a heartbeat; nothing is leased to it yet that
        could be lost.
        """
        while True:
            try:
                timeout_s = settings.ENGINE_LOAD_TIMEOUT_S
                return await registry.renew(self._redis, self._record, timeout_s=timeout_s)
            except OUTAGE as error:
                log.warning("Redis is away, loading waits: %s", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)

    async def _warm_up(self) -> None:
        """Ready means that a token has been made, not that a process is there."""
        request = EngineRequest(
            generation_id=new_id("gen"),
            prompt_token_ids=[1, 2, 3],
            sampling=Sampling(max_tokens=1, temperature=0.0),
            cache_salt=self._record.incarnation,
        )
        async with contextlib.aclosing(self._engine.submit(request)) as deltas:
            async for delta in deltas:
                self._warm_up_tokens += len(delta.token_ids)
        if not self._warm_up_tokens:
            raise EngineDead("The engine made no token at warm-up.")

    async def _heartbeat(self) -> None:
        """As often as it takes to be heard of, and at once when it begins to leave."""
        while True:
            await self._engine.health()
            self._runner.count_tokens()
            load = self._engine.load()
            record = msgspec.structs.replace(
                self._record,
                state="draining" if self._draining.is_set() else "ready",
                running=load.running - self._runner.held,
                held=self._runner.held,
                waiting=load.waiting,
                output_tokens=self._warm_up_tokens + self._runner.output_tokens,
                batch_tokens=self._runner.batch_tokens,
                longest_prompt=self._runner.longest_prompt,
            )
            with _outage_logged("heartbeat"):
                await registry.renew(self._redis, record, timeout_s=settings.REPLICA_TIMEOUT_S)
                await estimates.note_outputs(
                    self._redis, self._record.release_id, self._runner.lengths()
                )
                await queue_gauges.observe(self._redis, record.release_id, record.release_name)
            pause_s = settings.REPLICA_TIMEOUT_S / 4
            if record.state == "draining":
                await asyncio.sleep(pause_s)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._draining.wait()

    async def _leave(self, settled: bool) -> None:
        """Without a trace if all is settled; else whoever looks after lost replicas settles the
        rest.
        """
        with _outage_logged("leaving"):
            # A request whose claim was on its way when this host stopped has never run here.
            if settled and not await registry.unsettled(self._redis, self._record.incarnation):
                await registry.leave(self._redis, self._record.incarnation)
            else:
                await registry.lose(self._redis, self._record.incarnation)

    async def _pull(self) -> None:
        """Take requests until it drains."""
        release_id, incarnation = self._record.release_id, self._record.incarnation
        adopt_at = 0.0
        while await self._room():
            with _outage_logged("pulling"):
                if (now := asyncio.get_running_loop().time()) >= adopt_at:
                    adopt_at = now + BLOCK_S
                    await self._adopt()
                if request := await queue.claim(self._redis, release_id, incarnation):
                    self._charging.add(self._runner.start(request))
                    # Let the engine see it, so that its load counts for the next.
                    await asyncio.sleep(0)
                else:
                    await queue.wait_for_arrival(self._redis, release_id, timeout_s=BLOCK_S)
                continue
            await asyncio.sleep(OUTAGE_PAUSE_S)
        with _outage_logged("leaving the queue"):
            await queue.ring(self._redis, release_id)

    async def _adopt(self) -> None:
        """Run what Redis has given to this host in a reply that got lost, as in a stall of Redis.

        Only between claims: one on its way looks the same.
        """
        for request in await registry.unsettled(self._redis, self._record.incarnation):
            generation_id = request.generation_id
            if generation_id not in self._runner and generation_id not in self._settler:
                log.warning("%s was given here and never started.", generation_id)
                self._charging.add(self._runner.start(request))

    async def _room(self) -> bool:
        """Wait for room; False when nothing is to be taken any more."""
        # Room comes from the engine, which tells nobody.
        while not self._draining.is_set() and not self._has_room():  # noqa: ASYNC110
            await asyncio.sleep(FULL_PAUSE_S)
        return not self._draining.is_set()

    def _has_room(self) -> bool:
        waiting = self._engine.load().waiting
        running = len(self._runner)
        return running < settings.ENGINE_MAX_RUNNING and waiting < settings.ENGINE_QUEUE_DEPTH

    async def _listen(self) -> None:
        while True:
            with _outage_logged("listening"):
                incarnation = self._record.incarnation
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


@contextlib.contextmanager
def _outage_logged(what: str) -> Iterator[None]:
    """Redis being away for a while is no reason to stop: it is logged and the loop goes on."""
    try:
        yield
    except OUTAGE as error:
        log.warning("Redis is away (%s): %s", what, error)
