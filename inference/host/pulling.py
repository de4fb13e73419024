"""Taking requests from the queue, as many and of such classes as there is room for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from django.conf import settings

from inference import claiming, registry
from inference.claiming import Claimed, Left
from inference.engine.protocol import Engine
from inference.host.presence import OUTAGE_PAUSE_S, Presence, outage_logged
from inference.host.room import Room, room
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.messages import QueuedRequest
from kernel.redis import Client

log = logging.getLogger(__name__)

BLOCK_S = 1.0
FULL_PAUSE_S = 0.005
# How often a host that has no room for all asks for what it has room for: less than a step on most
# engines, and little for Redis.
SOME_PAUSE_S = 0.02


class Pulling:
    def __init__(
        self,
        redis: Client,
        engine: Engine,
        presence: Presence,
        runner: Runner,
        settler: Settler,
        *,
        start: Callable[[QueuedRequest], None],
        prefixes_kept: Callable[[], int],
    ) -> None:
        """start: runs a request that was taken; prefixes_kept: as `claiming.claim_or_leave` has it
        now
        """
        self._redis = redis
        self._engine = engine
        self._presence = presence
        self._runner = runner
        self._settler = settler
        self._start = start
        self._prefixes_kept = prefixes_kept
        self._release_id = presence.record.release_id

    async def run(self, leaving: asyncio.Event) -> None:
        """Take requests until it leaves."""
        adopt_at, at_once = 0.0, 1
        while found := await self._room(leaving):
            with outage_logged("pulling"):
                at_once = min(at_once, found.count)
                taken, wait_s = await self._claim(at_once, found)
                # Behind the claim: what has just arrived doesn't wait for it.
                if (now := asyncio.get_running_loop().time()) >= adopt_at:
                    adopt_at = now + BLOCK_S
                    await self._adopt()
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

    async def _room(self, leaving: asyncio.Event) -> Room | None:
        """Wait for room; None when nothing is to be taken any more."""
        while not leaving.is_set():
            # Asked once: it may have changed when it is asked again, and none means to leave.
            if self._presence.is_heard and (found := room(self._engine, self._runner.census)):
                return found
            # Room comes from the engine, which tells nobody.
            await asyncio.sleep(FULL_PAUSE_S)
        return None

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
            classes=room.classes,
            kept=room.kept,
            tenants=self._runner.census.at_their_share() if room.kept else (),
            prefixes_kept=self._prefixes_kept(),
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

    async def _adopt(self) -> None:
        """Run what Redis has given to this host in a reply that got lost, as in a stall of Redis.

        Only between claims: one on its way looks the same.
        """
        for request in await registry.unsettled(self._redis, self._presence.incarnation):
            if request.generation_id not in self._runner and request not in self._settler:
                log.warning("%s was given here and never started.", request.generation_id)
                self._start(request)

    async def _await_more(self, room: Room, wait_s: float) -> None:
        """When the queue had nothing more that there is room for."""
        if room.is_for_all:
            incarnation = self._presence.incarnation
            await claiming.wait_for_arrival(
                self._redis, self._release_id, incarnation, timeout_s=wait_s
            )
            return
        waits = await claiming.next_class(self._redis, self._release_id)
        if waits is not None and waits not in room.classes:
            self._runner.latency.waits(waits)
        # Others may wait in it, for room that comes without a bell; and a bell heard here would be
        # one that nobody hears who has room.
        await asyncio.sleep(min(wait_s, SOME_PAUSE_S))
