"""A replica from load to stop: announce, warm up, pull, answer control messages, leave.

The host takes a request only when its engine can start it soon, so that who comes next is decided
in the queue and nowhere else. Nothing here touches the database until a generation has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from django.conf import settings

from inference import claiming, control, registry
from inference.claiming import Claimed, Left
from inference.engine.protocol import Engine, EngineDead, EngineRequest, Sampling
from inference.host import queue_gauges, watchdog
from inference.host.charging import Charging
from inference.host.kv_watch import KVWatch
from inference.host.lost_replicas import LostReplicas
from inference.host.prefix_notes import PrefixNotes
from inference.host.presence import OUTAGE_PAUSE_S, Presence, outage_logged
from inference.host.room import Room, room
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.host.writer import LogWriter
from inference.messages import QueuedRequest, ReplicaRecord, SuspendReason
from inference.services import estimates
from kernel.clock import Clock
from kernel.ids import new_id
from kernel.redis import Client

log = logging.getLogger(__name__)

BLOCK_S = 1.0
# What an outage of Redis makes a host keep in memory. Its generations go on after it.
OUTAGE_LIMIT_S = 10.0
# A long queue takes a millisecond for a hundred requests to read.
QUEUE_GAUGES_EVERY_S = 5.0
FULL_PAUSE_S = 0.005
# How often a host that has no room for all asks for higher classes: less than a step on most
# engines, and little for Redis.
HIGHER_PAUSE_S = 0.02
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
        self._lost = LostReplicas(redis, clock, incarnation, self._runner.tally)
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
        )
        keeping = [_start(loop) for loop in loops]
        pulling, draining = _start(self._pull), asyncio.create_task(self._draining.wait())
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
        load, tally, kv = self._engine.load(), self._runner.tally, self._kv.last
        tally.publish()
        lapsed = await self._presence.renew(
            state="draining" if self._draining.is_set() else "ready",
            running=max(0, load.running - self._runner.held_in_engine - self._runner.yielded),
            held=self._runner.held + self._runner.yielded,
            waiting=load.waiting,
            output_tokens=self._warm_up_tokens + tally.output_tokens,
            batch_tokens=self._runner.batch_tokens,
            longest_prompt=self._runner.longest_prompt,
            holds=tally.holds,
            yields=tally.yields,
            restores=tally.restores,
            takeovers=tally.takeovers,
            kv_used_blocks=kv.used_blocks if kv else 0,
            kv_total_blocks=kv.total_blocks if kv else 0,
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

    async def _pull(self) -> None:
        """Take requests until it drains."""
        adopt_at, at_once = 0.0, 1
        while found := await self._room():
            with outage_logged("pulling"):
                if (now := asyncio.get_running_loop().time()) >= adopt_at:
                    adopt_at = now + BLOCK_S
                    await self._adopt()
                at_once = min(at_once, found.count)
                taken, wait_s = await self._claim(at_once, found)
                if taken == at_once:
                    at_once = min(2 * at_once, settings.ENGINE_QUEUE_DEPTH)
                    # Let the engine see them, so that its load counts for the next.
                    await asyncio.sleep(0)
                else:
                    at_once = 1
                    await self._await_more(found, wait_s)
                continue
            await asyncio.sleep(OUTAGE_PAUSE_S)
        with outage_logged("leaving the queue"):
            incarnation = self._presence.incarnation
            await claiming.stop_claiming(self._redis, self._release_id, incarnation)

    async def _claim(self, at_once: int, room: Room) -> tuple[int, float]:
        """Take up to so many in one round trip; how many there were, and how long to wait for more
        where that is not all.
        """
        asking = asyncio.gather(
            *(self._ask(room, nth) for nth in range(at_once)), return_exceptions=True
        )
        try:
            replies = await asyncio.shield(asking)
        except asyncio.CancelledError:
            # What Redis has given to this host already must not be left to its being lost.
            self._start_claimed(await asking)
            raise
        left = [each.wait_s for each in replies if isinstance(each, Left)]
        return self._start_claimed(replies), min(left, default=BLOCK_S)

    async def _ask(self, room: Room, nth: int) -> Claimed | Left | None:
        """Others are told of room for all alone: they would leave here what stays in the queue."""
        return await claiming.claim_or_leave(
            self._redis,
            self._release_id,
            self._presence.incarnation,
            room=room.count - nth if room.is_for_all else 0,
            lowest=room.lowest,
            prefixes_kept=self._prefixes.kept,
        )

    def _start_claimed(self, replies: Sequence[Claimed | Left | BaseException | None]) -> int:
        """How many there were; raises what kept others from being claimed."""
        claimed = [each for each in replies if isinstance(each, Claimed)]
        for each in claimed:
            self._runner.tally.claimed(each.match)
            self._start(each.request)
        for failed in replies:
            if isinstance(failed, BaseException):
                raise failed
        return len(claimed)

    def _start(self, request: QueuedRequest) -> None:
        run = self._runner.start(request)
        self._charging.add(run)
        self._prefixes.add(run)

    async def _adopt(self) -> None:
        """Run what Redis has given to this host in a reply that got lost, as in a stall of Redis.

        Only between claims: one on its way looks the same.
        """
        for request in await registry.unsettled(self._redis, self._presence.incarnation):
            if request.generation_id not in self._runner and request not in self._settler:
                log.warning("%s was given here and never started.", request.generation_id)
                self._start(request)

    async def _room(self) -> Room | None:
        """Wait for room; None when nothing is to be taken any more."""
        while not self._draining.is_set():
            # Asked once: it may have changed when it is asked again, and none means to leave.
            if self._presence.is_heard and (found := room(self._engine, self._runner)):
                return found
            # Room comes from the engine, which tells nobody.
            await asyncio.sleep(FULL_PAUSE_S)
        return None

    async def _await_more(self, room: Room, wait_s: float) -> None:
        """When the queue had nothing more that there is room for."""
        if room.is_for_all:
            incarnation = self._presence.incarnation
            await claiming.wait_for_arrival(
                self._redis, self._release_id, incarnation, timeout_s=wait_s
            )
        else:
            # Lower classes may wait in it, for room that comes without a bell; and a bell heard
            # here would be one that nobody hears who has room.
            await asyncio.sleep(min(wait_s, HIGHER_PAUSE_S))

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
