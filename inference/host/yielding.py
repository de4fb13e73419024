"""Which of a host's runs have given their slots in the engine to higher classes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from inference.engine.protocol import Engine, EngineDead, EngineError
from inference.host.run import Run
from inference.host.tally import Tally

log = logging.getLogger(__name__)

# An engine in a long step answers behind it; then at the next look.
ANSWER_S = 5.0


class Yielding:
    """now: ids of generations that wait for a slot again, as of the last look"""

    def __init__(self, engine: Engine, tally: Tally) -> None:
        self._engine = engine
        self._tally = tally
        self._looks_again = False
        self.now: frozenset[str] = frozenset()

    async def look(self, runs: Sequence[Run]) -> None:
        """Ask the engine, if it has or just had more than one class. Raises EngineDead."""
        classes = {run.request.priority_class for run in runs if run.in_engine}
        is_mixed = len(classes) > 1
        if not self._engine.capabilities.yields or not (is_mixed or self._looks_again):
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await self._engine.yielded()
        except EngineDead:
            raise
        except (EngineError, TimeoutError) as error:
            log.warning("Who has given up a slot is not known: %r", error)
            return
        self.now = found.now
        self._looks_again = is_mixed or bool(found.now)
        self._tally.yielded(found.times)
