"""Finds an engine that is dead, or that has work and makes nothing of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from django.conf import settings

from inference.engine.protocol import Engine, EngineDead
from inference.host.tally import Tally

log = logging.getLogger(__name__)

LOOK_S = 0.25


class Work(Protocol):
    """in_engine: requests that wait for the engine's next delta; tally: counts these."""

    tally: Tally

    @property
    def in_engine(self) -> int: ...


async def watch(engine: Engine, work: Work) -> None:
    """Return never. Raises EngineDead when the engine is dead, or has made no progress with its
    work for `ENGINE_STALL_TIMEOUT_S`.

    Counted in looks: what the clock does while this process is stopped is not the engine's fault.
    """
    looks, seen = 0, work.tally.deltas
    while True:
        await engine.health()
        idle = work.in_engine == 0 or work.tally.deltas != seen
        looks, seen = 0 if idle else looks + 1, work.tally.deltas
        if looks * LOOK_S >= settings.ENGINE_STALL_TIMEOUT_S:
            raise EngineDead(
                f"The engine has made nothing of {work.in_engine} requests for "
                f"{settings.ENGINE_STALL_TIMEOUT_S:g} s."
            )
        await asyncio.sleep(LOOK_S)
