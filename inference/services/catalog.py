"""Which models are offered, and whether a replica serves them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Literal, cast

from inference import registry
from inference.messages import Detached
from inference.models import Route
from kernel.database import database
from kernel.errors import ModelNotFound
from kernel.loops import one_per_loop
from kernel.redis import client
from kernel.rounds import Rounds

# How long a changed route may take to reach this process.
FRESH_S = 1.0
# How long after they were last asked for routes are kept fresh.
IN_USE_S = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A public model name and what answers to it."""

    name: str
    route_id: int
    release_id: str
    engine: str
    model_path: str
    context_tokens: int
    created: int
    detached: Detached
    replays: bool


@dataclass(frozen=True, slots=True)
class ModelState:
    """ready: a replica has made a token; loading: one is on its way, or only such as leave are
    there, whose place another takes; down: none is known.
    """

    name: str
    state: Literal["ready", "loading", "down"]


class _Catalog:
    """This process's copy of the routes, at most FRESH_S old."""

    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}
        self._read_at = self._used_at = float("-inf")

    async def targets(self) -> dict[str, Target]:
        self._used_at = time.monotonic()
        if self._used_at - self._read_at > FRESH_S:
            await self._read()
        return self._targets

    async def round(self) -> bool:
        """Read them before anybody has to wait for it; whether anybody still asks."""
        await self._read()
        return time.monotonic() - self._used_at < IN_USE_S

    async def _read(self) -> None:
        self._targets = await database(_read_targets)
        self._read_at = time.monotonic()

    def forget(self) -> None:
        self._read_at = float("-inf")


_catalog = _Catalog()


@one_per_loop
def _rounds() -> Rounds:
    return Rounds("catalog", _catalog.round, lambda: FRESH_S / 2)


def keep_fresh() -> None:
    """Have the routes read in the background from now on, for as long as they are asked for, so
    that no request waits for that.
    """
    _rounds().keep_running()


def _read_targets() -> dict[str, Target]:
    routes = Route.objects.filter(is_active=True).select_related("release")
    return {
        route.name: Target(
            name=route.name,
            route_id=route.pk,
            release_id=route.release.id,
            engine=route.release.engine,
            model_path=route.release.model_path,
            context_tokens=route.release.context_tokens,
            created=int(route.created_at.timestamp()),
            detached=cast(Detached, route.detached),
            replays=route.replays,
        )
        for route in routes
    }


async def targets() -> list[Target]:
    """The models offered, by name."""
    return list((await _catalog.targets()).values())


async def target(name: str) -> Target:
    """What answers to a public model name. Raises ModelNotFound."""
    found = (await _catalog.targets()).get(name)
    if found is None:
        raise ModelNotFound(f"The model {name[:100]!r} does not exist.", param="model")
    return found


def forget() -> None:
    """Read the routes anew at the next call: for tests and for the process that has just changed
    them.
    """
    _catalog.forget()


async def model_states() -> list[ModelState]:
    """Every model offered and whether it can answer now."""
    offered, replicas = await asyncio.gather(targets(), registry.replicas(client()))
    states: dict[str, set[str]] = {}
    for replica in replicas:
        states.setdefault(replica.release_id, set()).add(replica.state)
    return [ModelState(t.name, _state(states.get(t.release_id, set()))) for t in offered]


async def all_down() -> list[ModelState]:
    """What model_states says when nobody can be asked."""
    return [ModelState(target.name, "down") for target in await targets()]


def _state(replica_states: set[str]) -> Literal["ready", "loading", "down"]:
    if "ready" in replica_states:
        return "ready"
    return "loading" if replica_states & {"loading", "draining"} else "down"
