"""Charges tenants for what a replica's generations make, while they make it.

Charging only when an answer has ended would double the unfairness: until then a tenant with long
answers would look as if it had had nothing.
"""

from __future__ import annotations

import asyncio
import logging

from inference import metrics, queue
from inference.host.run import Run
from inference.queue import Charge
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

# A few steps of an engine: less than one prompt's charge, however many run.
CHARGE_EVERY_S = 0.1


class Charging:
    def __init__(self, redis: Client, release_id: str, release_name: str) -> None:
        self._redis = redis
        self._release_id = release_id
        self._release = release_name
        self._runs: dict[str, Run] = {}

    def add(self, run: Run) -> None:
        self._runs[run.id] = run

    async def run(self) -> None:
        """Charge until cancelled. What could not be charged is charged with what comes next."""
        while True:
            await asyncio.sleep(CHARGE_EVERY_S)
            try:
                await self.charge()
            except OUTAGE as error:
                log.warning("Redis is away, charging waits: %s", error)

    async def charge(self) -> None:
        """One call for all that have made something since the last. Raises what Redis raises."""
        due = [run for run in self._runs.values() if run.tail.seq > run.charged]
        if due:
            charges = [Charge(run.request, run.charged, run.tail.seq) for run in due]
            await queue.charge(self._redis, self._release_id, charges)
            for run, charge in zip(due, charges, strict=True):
                self._count(charge)
                run.charged = charge.made
        for run in list(self._runs.values()):
            if run.ending and run.charged >= run.tail.seq:
                del self._runs[run.id]

    def _count(self, charge: Charge) -> None:
        request = charge.request
        made = charge.made - charge.charged
        metrics.tenant_tokens(self._release, request, "output").inc(made)
