"""The latency objectives of a release: those of its routes, the tightest where several differ."""

from __future__ import annotations

from inference.models import Route
from inference.objectives import Objectives
from kernel.database import database
from tenants.priority import CLASSES


async def of_release(release_id: str) -> Objectives:
    """Raises what the database raises."""
    return await database(_read, release_id)


def _read(release_id: str) -> Objectives:
    routes = list(Route.objects.filter(is_active=True, release_id=release_id))
    by_class = {}
    for each in CLASSES:
        wanted = [ms for route in routes if (ms := route.itl_p95_ms(each)) is not None]
        if wanted:
            by_class[each] = min(wanted) / 1000
    return Objectives(by_class)
