"""Readiness of the engines: a replica has made a token, not just been started."""

from __future__ import annotations

from inference.services import catalog
from kernel.redis import OUTAGE
from web.health import Health


async def engine_check() -> Health:
    """Well when at least one model can answer: one that reloads must not take the others away."""
    try:
        states = await catalog.model_states()
    except OUTAGE:
        return Health(False, "Redis is away")
    if any(model.state == "ready" for model in states):
        return Health(True)
    return Health(False, "loading" if any(m.state == "loading" for m in states) else "no replica")
