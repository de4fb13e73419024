"""The roll-up: settled generations, summed by hour into `UsageHour`.

A generation is marked in the transaction that adds it, so each is added exactly once, however late
it was settled and whatever broke off; nothing of this happens on a request's way.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from django.db import connection
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncHour

from inference.models import Generation, State, UsageHour
from kernel.database import writing
from tenants import scope

BATCH = 500
KEY = ("tenant_id", "hour", "route_id", "principal", "key_id", "error_code")
SUMS = ("requests", "cancelled", "prompt_tokens", "cached_tokens", "output_tokens")
# Any number that nothing else of this database locks.
LOCK = 0x4E65686972


def count_settled(*, batch: int = BATCH) -> int:
    """Add all that is settled and not yet counted, a transaction a batch; how many there were."""
    total = 0
    while added := _count_batch(batch):
        total += added
    return total


def rebuild() -> int:
    """Make every hour anew from the generations, in one transaction; how many hours there are."""
    with scope.whole_platform(), writing():
        _alone()
        UsageHour.objects.all().delete()
        # Marked first: what is settled from here on is left to the next count.
        Generation.objects.filter(settled_at__isnull=False).update(usage_counted=True)
        hours = [UsageHour(**row) for row in _sums(Generation.objects.filter(usage_counted=True))]
        UsageHour.objects.bulk_create(hours, batch_size=BATCH)
    return len(hours)


def _count_batch(batch: int) -> int:
    with scope.whole_platform(), writing():
        _alone()
        waiting = Generation.objects.filter(settled_at__isnull=False, usage_counted=False)
        ids = list(waiting.order_by("settled_at").values_list("pk", flat=True)[:batch])
        chosen = Generation.objects.filter(pk__in=ids)
        for row in _sums(chosen):
            _add(row)
        chosen.update(usage_counted=True)
    return len(ids)


def _add(row: dict[str, Any]) -> None:
    key = {name: row[name] for name in KEY}
    hour, created = UsageHour.objects.get_or_create(**key, defaults=row)
    if not created:
        more = {name: F(name) + row[name] for name in SUMS}
        UsageHour.objects.filter(pk=hour.pk).update(**more)


def _sums(generations: QuerySet[Generation]) -> Iterator[dict[str, Any]]:
    """A row of `UsageHour` for each key there is."""
    rows = generations.annotate(hour=TruncHour("settled_at", tzinfo=UTC)).values(*KEY)
    # Under other names than the fields', which would be taken for the key's.
    summed = rows.order_by().annotate(
        sum_requests=Count("pk"),
        sum_cancelled=Count("pk", filter=Q(state=State.CANCELLED)),
        sum_prompt_tokens=Sum("prompt_tokens"),
        sum_cached_tokens=Sum("cached_tokens"),
        sum_output_tokens=Sum("output_tokens"),
    )
    for row in summed.iterator():
        yield {name.removeprefix("sum_"): value for name, value in row.items()}


def _alone() -> None:
    """One at a time, until the transaction ends. SQLite has one writer anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
