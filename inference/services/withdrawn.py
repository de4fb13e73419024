"""Ends what nobody could ask for any more: answers of revoked keys, of applications, people and
tenants that were switched off. Web processes end at once what is read through them; this finds what
had no reader.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from inference.models import Checkpoint, Generation, State
from inference.services import generations
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tenants import scope
from tenants.models import ApiKey
from tenants.services.people import chatting_among

PERSON = "user:"
AT_ONCE = 500


async def end_withdrawn(redis: Client, clock: Clock) -> int:
    """How many were found and told to end; one that is told twice ends once."""
    found = await database(_withdrawn)
    for tenant_id, generation_id in found:
        await generations.end(redis, clock, tenant_id, generation_id)
    return len(found)


def _withdrawn() -> list[tuple[str, str]]:
    """(tenant, generation) of those that go on, or would if they were read."""
    with scope.whole_platform():
        # Apart, so that each has an index: of all that ever ran, few are open or suspended.
        kept = Checkpoint.objects.values("generation_id")
        going_on = (
            Generation.objects.filter(state=State.OPEN),
            Generation.objects.filter(state=State.SUSPENDED, id__in=kept),
        )
        return [each for rows in going_on for each in (*_of_keys(rows), *_of_people(rows))]


def _of_keys(rows: QuerySet[Generation]) -> Iterable[tuple[str, str]]:
    off = Q(revoked_at__isnull=False) | Q(service_account__is_active=False)
    keys = ApiKey.objects.filter(off | Q(tenant__is_active=False)).values("pk")
    return rows.filter(key_id__in=keys).order_by().values_list("tenant_id", "id")[:AT_ONCE]


def _of_people(rows: QuerySet[Generation]) -> Iterable[tuple[str, str]]:
    theirs = rows.filter(principal__startswith=PERSON).order_by()
    asked = set(theirs.values_list("principal", "tenant_id").distinct())
    members = chatting_among(person.removeprefix(PERSON) for person, _ in asked)
    gone = [each for each in asked if (each[0].removeprefix(PERSON), each[1]) not in members]
    return [
        each
        for person, tenant_id in gone
        for each in theirs.filter(principal=person, tenant_id=tenant_id).values_list(
            "tenant_id", "id"
        )[:AT_ONCE]
    ]
