"""What a tenant used, by day: settled generations, as their records say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import TruncDate

from inference.models import Generation


@dataclass(frozen=True, slots=True)
class Day:
    """In UTC, by when generations were asked for."""

    day: date
    generations: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


def by_day(first: date, last: date) -> list[Day]:
    """Of the tenant in scope, from the first day to the last, both included; days without any are
    left out. One query, over the index by tenant and time.
    """
    settled = Generation.objects.filter(
        created_at__gte=_midnight(first),
        created_at__lt=_midnight(last) + timedelta(days=1),
        settled_at__isnull=False,
    )
    rows = (
        settled.annotate(day=TruncDate("created_at", tzinfo=UTC))
        .values("day")
        .order_by("day")
        .annotate(
            generations=Count("pk"),
            prompts=Sum("prompt_tokens"),
            cached=Sum("cached_tokens"),
            outputs=Sum("output_tokens"),
        )
    )
    return [
        Day(row["day"], row["generations"], row["prompts"], row["cached"], row["outputs"])
        for row in rows
    ]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
