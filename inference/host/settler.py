"""Settles what has ended, off the token path, and keeps at it while the database is away."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError

from inference import leases, queue, registry
from inference.messages import Final, QueuedRequest, Suspended
from inference.services import takeover
from inference.services.checkpoints import Suspension, keep_while_suspended
from inference.services.settlement import Outcome, settle_all
from kernel.clock import Clock
from kernel.group_commit import AT_ONCE, GroupCommit
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a generation's stay in this host's engine ended with.

    request: as it goes on from here, if it is suspended
    entry: the entry that is in the log by this host's lease; None if the log could not be written
    """

    request: QueuedRequest
    text: str
    entry: Suspended | Final | None

    @property
    def turn(self) -> tuple[str, int]:
        return self.request.generation_id, self.request.turn


RETRY_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class Settler:
    def __init__(self, redis: Client, incarnation: str, clock: Clock) -> None:
        self._redis = redis
        self._incarnation = incarnation
        self._clock = clock
        self._settling = GroupCommit(settle_all)
        self._outcomes: asyncio.Queue[tuple[Ended, datetime]] = asyncio.Queue()
        self._settled: asyncio.Queue[Ended] = asyncio.Queue()
        # Turns that have ended and are in the running set still; what can't be settled stays there.
        self._open: set[tuple[str, int]] = set()

    def __contains__(self, request: QueuedRequest) -> bool:
        return (request.generation_id, request.turn) in self._open

    def put(self, ended: Ended) -> None:
        self._open.add(ended.turn)
        self._outcomes.put_nowait((ended, self._clock.now()))

    async def run(self) -> None:
        """Settle until cancelled."""
        settling = (self._settle_each() for _ in range(AT_ONCE))
        await asyncio.gather(*settling, self._note_each())

    async def drain(self, *, timeout_s: float) -> bool:
        """Wait until all that was put is settled and noted; False if the timeout came first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._outcomes.join()
                await self._settled.join()
        except TimeoutError:
            left = self._outcomes.qsize() + self._settled.qsize()
            log.error("%d generations are not settled yet.", left)
            return False
        return True

    async def _settle_each(self) -> None:
        while True:
            outcome, ended_at = await self._outcomes.get()
            try:
                await self._settle(outcome, ended_at)
                self._settled.put_nowait(outcome)
            except Exception:
                # It stays in the running set, from which a later pass over lost replicas settles
                # it.
                log.exception("Settling %s failed.", outcome.request.generation_id)
            finally:
                self._outcomes.task_done()

    async def _conclude(self, ended: Ended, ended_at: datetime) -> None:
        """A log that could not be written may be another's by now: then it is asked."""
        request, entry = ended.request, ended.entry
        if entry is None:
            await takeover.abandoned(self._redis, self._clock, self._incarnation, request)
        elif not isinstance(entry, Suspended):
            outcome = Outcome(request.tenant_id, request.generation_id, ended.text, entry)
            await self._settling((outcome, ended_at))
        elif entry.waits_for_reader:
            holder = leases.holder(self._incarnation, request.turn)
            suspension = Suspension(request, entry)
            await keep_while_suspended(self._redis, suspension, holder, now=ended_at)
        else:
            lost = entry.reason == "engine_lost"
            await queue.requeue(self._redis, takeover.after_a_loss(request) if lost else request)

    async def _settle(self, outcome: Ended, ended_at: datetime) -> None:
        for pause_s in _pauses():
            try:
                await self._conclude(outcome, ended_at)
            except (OperationalError, InterfaceError, *OUTAGE) as error:
                log.warning("The database or Redis is away, settling waits: %s", error)
                await asyncio.sleep(pause_s)
            else:
                return

    async def _note_each(self) -> None:
        """Apart from settling, so that one store's outage does not hold up the other."""
        while True:
            outcome = await self._settled.get()
            try:
                await self._note(outcome)
            finally:
                self._settled.task_done()

    async def _note(self, outcome: Ended) -> None:
        """Take it out of the running set."""
        for pause_s in _pauses():
            try:
                await registry.settled(self._redis, self._incarnation, outcome.request)
            except OUTAGE as error:
                log.warning("Redis is away, noting what is settled waits: %s", error)
                await asyncio.sleep(pause_s)
            else:
                self._open.discard(outcome.turn)
                return


def _pauses() -> Iterator[float]:
    return itertools.chain(RETRY_S, itertools.repeat(RETRY_S[-1]))
