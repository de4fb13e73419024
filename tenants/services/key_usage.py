"""What using a key leaves in the database, written behind the requests' backs: when it was last
used, and its digest under the current pepper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from kernel.database import writing
from tenants import scope
from tenants.models import ApiKey

# How exactly the last use is kept, over all processes.
EXACTNESS = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rehashed:
    """A secret that was presented, under the current pepper. before: the digest that it matched."""

    before: str
    digest: str
    pepper_version: int


def is_news(last_used_at: datetime | None, now: datetime) -> bool:
    return last_used_at is None or now - last_used_at >= EXACTNESS


def write(used: Iterable[str], rehashed: dict[str, Rehashed], *, now: datetime) -> None:
    """used: ids of keys used just now. A digest that was changed meanwhile stays."""
    with scope.whole_platform(), writing():
        stale = Q(last_used_at=None) | Q(last_used_at__lte=now - EXACTNESS)
        ApiKey.objects.filter(stale, pk__in=sorted(used)).update(last_used_at=now)
        for key_id, new in rehashed.items():
            ApiKey.objects.filter(pk=key_id, digest=new.before).update(
                digest=new.digest, pepper_version=new.pepper_version
            )
