"""Settles what has ended, off the token path, and keeps at it while the database is away."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from django.db import InterfaceError, OperationalError

from inference import registry
from inference.services.settlement import Outcome, settle
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

RETRY_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class Settler:
    def __init__(self, redis: Client, incarnation: str, clock: Clock) -> None:
        self._redis = redis
        self._incarnation = incarnation
        self._clock = clock
        self._outcomes: asyncio.Queue[tuple[Outcome, datetime]] = asyncio.Queue()

    def put(self, outcome: Outcome) -> None:
        self._outcomes.put_nowait((outcome, self._clock.now()))

    async def run(self) -> None:
        """Settle until cancelled."""
        while True:
            outcome, ended_at = await self._outcomes.get()
            try:
                await self._settle(outcome, ended_at)
            except Exception:
                # It stays in the running set, from which a later pass over lost replicas settles
                # it.
                log.exception("Settling %s failed.", outcome.generation_id)
            finally:
                self._outcomes.task_done()

    async def drain(self, *, timeout_s: float) -> bool:
        """Wait until everything put so far is settled; False if the timeout came first."""
        try:
            await asyncio.wait_for(self._outcomes.join(), timeout_s)
        except TimeoutError:
            log.error("%d generations are not settled yet.", self._outcomes.qsize())
            return False
        return True

    async def _settle(self, outcome: Outcome, ended_at: datetime) -> None:
        attempt = 0
        while True:
            try:
                await database(settle, outcome, now=ended_at)
                break
            except (OperationalError, InterfaceError) as error:
                log.warning("The database is away, settling waits: %s", error)
                await asyncio.sleep(RETRY_S[min(attempt, len(RETRY_S) - 1)])
                attempt += 1
        try:
            await registry.settled(self._redis, self._incarnation, outcome.generation_id)
        except OUTAGE as error:
            # Settling again changes nothing, so a leftover in the running set is harmless.
            log.warning("Could not note %s as settled: %s", outcome.generation_id, error)
