"""What was asked by somebody who may not ask any more ends, with or without a reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from inference import queue
from inference.messages import QueuedRequest
from inference.models import State
from inference.services.withdrawn import end_withdrawn
from kernel.database import database
from kernel.redis import Client
from tenants import scope
from tenants.models import Membership, ServiceAccount, Tenant
from tenants.services.keys import revoke_key
from tests.inference.making import START, Records, StoppedClock, request
from tests.tenants.worlds import World, world

CLOCK = StoppedClock()


def revoke(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        revoke_key(key=acme.key, actor=None, now=START)


def switch_account_off(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        ServiceAccount.objects.filter(pk=acme.account.pk).update(is_active=False)


def switch_person_off(acme: World) -> None:
    User.objects.filter(pk=acme.member.pk).update(is_active=False)


def remove_person(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        Membership.objects.filter(user=acme.member).delete()


def switch_tenant_off(acme: World) -> None:
    Tenant.objects.filter(pk=acme.tenant.pk).update(is_active=False)


@pytest.mark.parametrize(
    ("take_away", "ended"),
    [
        (lambda _: None, []),
        (revoke, ["application"]),
        (switch_account_off, ["application"]),
        (switch_person_off, ["person"]),
        (remove_person, ["person"]),
        (switch_tenant_off, ["application", "person"]),
    ],
)
async def test_what_goes_on_without_a_reader(
    redis: Client, records: Records, take_away: Callable[[World], None], ended: list[str]
) -> None:
    acme, globex = await database(world, "acme"), await database(world, "globex")
    asked: dict[str, QueuedRequest] = {}
    for where, name in ((acme, ""), (globex, "stranger's ")):
        by = {
            f"{name}application": (f"service_account:{where.account.pk}", where.key.pk),
            f"{name}person": (f"user:{where.member.pk}", ""),
        }
        for who, (principal, key_id) in by.items():
            asked[who] = request(where.tenant.pk)
            await database(records.open, asked[who], principal=principal, key_id=key_id)
            await queue.enqueue(redis, asked[who])
    await database(take_away, acme)
    assert await end_withdrawn(redis, CLOCK) == len(ended)
    states = {who: (await database(records.of, each)).state for who, each in asked.items()}
    assert sorted(who for who, state in states.items() if state == State.CANCELLED) == ended
    assert await end_withdrawn(redis, CLOCK) == 0
