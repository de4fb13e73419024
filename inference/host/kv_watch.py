"""How much of its engine's KV cache a replica uses, asked for once a second while it changes."""

from __future__ import annotations

import asyncio
import logging

from inference import metrics
from inference.engine.protocol import Engine, EngineDead, EngineError, KVCache

log = logging.getLogger(__name__)

LOOK_S = 1.0
# An engine in a long step answers behind it; then at the next look.
ANSWER_S = 5.0


class KVWatch:
    """last: as last told; None of an engine that can't tell, or hasn't yet"""

    def __init__(self, engine: Engine, *, release_name: str, replica: str) -> None:
        self._engine = engine
        self._usage = metrics.KV_USAGE.labels(release_name, replica)
        self._preempted = metrics.PREEMPTIONS.labels(release_name)
        self._was_idle = False
        self.last: KVCache | None = None

    async def run(self) -> None:
        """Until cancelled. Raises EngineDead."""
        if not self._engine.capabilities.kv_cache:
            await asyncio.Event().wait()
        while True:
            try:
                await self.look()
            except EngineDead:
                raise
            except (EngineError, TimeoutError) as error:
                log.warning("How much of the KV cache is used is not known: %r", error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Ask, unless nothing runs and nothing has since the last answer. Raises EngineError,
        TimeoutError.
        """
        load = self._engine.load()
        is_idle = not (load.running or load.waiting)
        if is_idle and self._was_idle:
            return
        async with asyncio.timeout(ANSWER_S):
            found = await self._engine.kv_cache()
        before = self.last.preemptions if self.last else 0
        self._preempted.inc(found.preemptions - before)
        self._usage.set(found.used_blocks / found.total_blocks if found.total_blocks else 0.0)
        self.last, self._was_idle = found, is_idle
