"""Notes what a replica's engine has computed, answers included, for `lua/prefixes.lua` to find.

A claim notes the prompt. The next turn of a conversation begins with the answer as well, and one
that began with a short prompt and a long answer is known by that alone.
"""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings

from inference import prefixes
from inference.host.kv_watch import KVWatch
from inference.host.run import Run
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

# Sooner than a person asks again; a program that asks at once finds what its claim noted.
NOTE_EVERY_S = 0.2


class PrefixNotes:
    def __init__(self, redis: Client, incarnation: str, kv: KVWatch) -> None:
        self._redis = redis
        self._incarnation = incarnation
        self._kv = kv
        self._runs: list[Run] = []

    @property
    def kept(self) -> int:
        """How many marks are: as many blocks as the engine's cache has, if that is known."""
        if not (kv := self._kv.last):
            return prefixes.KEPT
        return kv.total_blocks * kv.block_tokens // int(settings.PREFIX_BLOCK_TOKENS)

    def add(self, run: Run) -> None:
        self._runs.append(run)

    async def run(self) -> None:
        """Until cancelled. What can't be noted while Redis is away is not worth keeping."""
        while True:
            await asyncio.sleep(NOTE_EVERY_S)
            try:
                await self.note()
            except OUTAGE as error:
                log.warning("Redis is away, what was served is not noted: %s", error)

    async def note(self) -> None:
        """All that have ended since the last time. Raises what Redis raises."""
        ended = [run for run in self._runs if run.ending]
        self._runs = [run for run in self._runs if not run.ending]
        served = [
            prefixes.of_answer(run.request, run.tail.token_ids) for run in ended if run.decoding
        ]
        if served := [each for each in served if each]:
            await prefixes.remember(self._redis, self._incarnation, served, most=self.kept)
