"""What a release's replicas may run and make now, for forecasts: what was made lately says nothing
of a limit that has just changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inference import registry
from inference.messages import ReplicaRecord
from kernel.redis import Client


@dataclass(frozen=True, slots=True)
class Capacity:
    """beyond: how many more run than may: so many end before another is taken
    tokens_per_s: what those make that may run, at most; None where nothing limits them but slots
    """

    beyond: int = 0
    tokens_per_s: float | None = None


async def read(redis: Client, release_id: str) -> Capacity:
    """Raises what Redis raises."""
    return of(each for each in await registry.replicas(redis) if each.release_id == release_id)


def of(records: Iterable[ReplicaRecord]) -> Capacity:
    """Of one release's replicas. One that has room takes what others may not."""
    ready = [each for each in records if each.state == "ready"]
    if not ready or not all(0 < each.limit < each.slots for each in ready):
        return Capacity()
    beyond = sum(each.running + each.waiting - each.limit for each in ready)
    makes = [each.limit_tokens_per_s for each in ready]
    return Capacity(max(0, beyond), sum(makes) if all(makes) else None)
