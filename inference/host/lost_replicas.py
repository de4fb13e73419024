"""Looks for replicas that are no longer heard of, and takes over what they ran."""

from __future__ import annotations

import asyncio
import logging

from inference import registry
from inference.host.tally import Tally
from inference.services import takeover
from kernel.clock import Clock
from kernel.redis import Client

log = logging.getLogger(__name__)

# With REPLICA_TIMEOUT_S and a restored request's first token, the gap that a reader sees.
LOOK_S = 0.25
# What could not be dealt with, as while the database is away, is tried again less often.
AGAIN_S = 2.0


class LostReplicas:
    def __init__(self, redis: Client, clock: Clock, incarnation: str, tally: Tally) -> None:
        """incarnation: this replica's own, which others look for; tally: where it is counted"""
        self._redis = redis
        self._clock = clock
        self._incarnation = incarnation
        self._tally = tally
        # incarnation -> when to try again, in seconds of the event loop's clock
        self._again_at: dict[str, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - Redis or the database is away; then again
                log.warning("Taking over waits: %s", error)
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        lost = await registry.lost(self._redis) - {self._incarnation}
        due = {name for name in lost if self._again_at.get(name, now) <= now}
        later = {name: at for name, at in self._again_at.items() if name in lost}
        self._again_at = later | dict.fromkeys(due, now + AGAIN_S)
        if due:
            log.warning("Lost replicas: %s", ", ".join(sorted(due)))
            self._tally.takeovers += await takeover.take_over(self._redis, self._clock, due)
