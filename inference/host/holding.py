"""What held generations may keep of an engine: for how long, and how much of its KV cache.

Whatever is beyond either limit is taken out, to go on later from its checkpoint. In the engine a
held one gives way to others anyway; this is for what it keeps from the prefix cache, and so that a
reader who moves on just enough to count as there can't keep a place for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from django.conf import settings

from inference.engine.protocol import Engine, EngineDead, EngineError
from inference.host.run import Run

log = logging.getLogger(__name__)

# An engine in a long step answers behind it; then at the next look.
ANSWER_S = 5.0


async def beyond_limits(engine: Engine, runs: Iterable[Run], *, now: float) -> list[Run]:
    """Those that have been held in the engine for too long, and the longest held of what keeps too
    much together. Raises EngineDead.
    """
    held = sorted((run for run in runs if run.is_held_in_engine), key=lambda run: run.held_at)
    if not held:
        return []
    overdue = [run for run in held if now - run.held_at > settings.HOLD_LIMIT_S]
    return overdue + _too_much(held[len(overdue) :], await _shares(engine))


def _too_much(held: list[Run], shares: dict[str, float]) -> list[Run]:
    """held: the longest held first"""
    surplus = sum(shares.get(run.id, 0.0) for run in held) - settings.HOLD_KV_SHARE
    found = []
    for run in held:
        if surplus <= 0:
            break
        if share := shares.get(run.id, 0.0):
            found.append(run)
            surplus -= share
    return found


async def _shares(engine: Engine) -> dict[str, float]:
    if not engine.capabilities.hold:
        return {}
    try:
        async with asyncio.timeout(ANSWER_S):
            return await engine.held_shares()
    except EngineDead:
        raise
    except (EngineError, TimeoutError) as error:
        log.warning("What held generations keep is not known: %r", error)
        return {}
