"""Settles what has ended, off the token path, and keeps at it while the database is away."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from datetime import datetime

from django.db import InterfaceError, OperationalError

from inference import queue, registry, token_log
from inference.services.checkpoints import Suspension, keep
from inference.services.settlement import Outcome, settle_all
from inference.token_log import Write
from kernel.clock import Clock
from kernel.database import database
from kernel.group_commit import AT_ONCE, GroupCommit
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

# What a generation's stay in an engine ended with.
Ended = Outcome | Suspension

RETRY_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class Settler:
    def __init__(self, redis: Client, incarnation: str, clock: Clock) -> None:
        self._redis = redis
        self._incarnation = incarnation
        self._clock = clock
        self._settling = GroupCommit(settle_all)
        self._outcomes: asyncio.Queue[tuple[Ended, datetime]] = asyncio.Queue()
        self._settled: asyncio.Queue[Ended] = asyncio.Queue()
        # Ended, and in the running set still; what can't be settled stays there.
        self._open: set[str] = set()

    def __contains__(self, generation_id: str) -> bool:
        return generation_id in self._open

    def put(self, ended: Ended) -> None:
        self._open.add(ended.generation_id)
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
                log.exception("Settling %s failed.", outcome.generation_id)
            finally:
                self._outcomes.task_done()

    async def _conclude(self, ended: Ended, ended_at: datetime) -> None:
        if isinstance(ended, Outcome):
            await self._settling((ended, ended_at))
        elif ended.entry.reason == "detached":
            await database(keep, ended, now=ended_at)
        else:
            await queue.requeue(self._redis, ended.request)

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
        """Take it out of the running set. A log that was given up while Redis was away gets its
        last entry here; on every other this changes nothing.
        """
        last = Write(outcome.tenant_id, outcome.generation_id, outcome.entry)
        for pause_s in _pauses():
            try:
                await token_log.append(self._redis, self._incarnation, [last])
                await registry.settled(self._redis, self._incarnation, outcome.generation_id)
            except OUTAGE as error:
                log.warning("Redis is away, noting what is settled waits: %s", error)
                await asyncio.sleep(pause_s)
            else:
                self._open.discard(outcome.generation_id)
                return


def _pauses() -> Iterator[float]:
    return itertools.chain(RETRY_S, itertools.repeat(RETRY_S[-1]))
