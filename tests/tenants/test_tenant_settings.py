"""A tenant sets for itself what the operator granted, and nothing beyond."""

from __future__ import annotations

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import BadRequest, PermissionDenied
from tenants import scope
from tenants.models import Membership, Priority, Role, Tenant
from tenants.models.tenant import read_ahead
from tenants.priority import CLASSES
from tenants.services.key_records import read
from tenants.services.people import principal_of
from tenants.services.tenant_settings import (
    Wanted,
    check_within,
    configure,
    granted_tokens,
)
from tests.tenants.recorded import new_records
from tests.tenants.worlds import NOW, World, joined, person, platform_person

pytestmark = pytest.mark.django_db
MARKS = st.none() | st.integers(1, 1000)


def granted(world: World, **fields: object) -> Tenant:
    Tenant.objects.filter(pk=world.tenant.pk).update(**fields)
    world.tenant.refresh_from_db()
    return world.tenant


def test_what_is_set_holds_for_people_and_keys(acme: World) -> None:
    tenant = granted(acme, high_water_tokens=100)
    with new_records() as found:
        configure(tenant=tenant, wanted=Wanted("batch", 40), actor=acme.admin, now=NOW)
        configure(tenant=tenant, wanted=Wanted("batch", 40), actor=acme.admin, now=NOW)
    (record,) = found
    assert (record.action, record.tenant_id) == ("tenant.change", acme.tenant.pk)
    assert record.before == {"default_priority": "standard", "own_high_water_tokens": None}
    assert record.after == {"default_priority": "batch", "own_high_water_tokens": 40}
    person_ = principal_of(acme.member, tenant_id=None)
    key = read(acme.key.pk)
    assert key is not None
    for principal in (person_, key.principal):
        assert (principal.high_water_tokens, principal.default_priority) == (40, "batch")


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        (Wanted("interactive", None), "default_priority"),
        (Wanted("unheard of", None), "default_priority"),
        (Wanted("standard", 101), "own_high_water_tokens"),
        (Wanted("standard", 0), "own_high_water_tokens"),
        (Wanted("standard", -1), "own_high_water_tokens"),
    ],
)
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_beyond_what_is_granted_nothing_is_set(
    acme: World, who: str, wanted: Wanted, param: str
) -> None:
    tenant = granted(acme, high_water_tokens=100, highest_priority="standard")
    with new_records() as found, pytest.raises(BadRequest) as refused:
        configure(tenant=tenant, wanted=wanted, actor=getattr(acme, who), now=NOW)
    assert (refused.value.code, refused.value.param) == ("above_granted", param)
    assert found == []
    assert Tenant.objects.get(pk=tenant.pk).default_priority == "standard"


def test_the_grant_of_the_moment_counts_not_the_one_that_was_seen(acme: World) -> None:
    seen = granted(acme, high_water_tokens=100)
    Tenant.objects.filter(pk=seen.pk).update(high_water_tokens=10)
    with pytest.raises(BadRequest):
        configure(tenant=seen, wanted=Wanted("standard", 50), actor=acme.admin, now=NOW)


def test_a_grant_that_is_taken_back_holds_at_once(acme: World) -> None:
    tenant = granted(acme, high_water_tokens=100)
    configure(tenant=tenant, wanted=Wanted("interactive", 80), actor=acme.admin, now=NOW)
    granted(acme, high_water_tokens=10, highest_priority="batch")
    assert principal_of(acme.member, tenant_id=None).high_water_tokens == 10
    key = read(acme.key.pk)
    assert key is not None
    assert (key.principal.high_water_tokens, key.principal.default_priority) == (10, "batch")


@pytest.mark.parametrize("role", [Role.MEMBER, Role.BILLING, Role.AUDITOR])
def test_others_set_nothing(acme: World, globex: World, role: str) -> None:
    other = joined(acme, person("other"), role)
    for actor in (other, globex.owner):
        with pytest.raises(PermissionDenied):
            configure(tenant=acme.tenant, wanted=Wanted("batch", 1), actor=actor, now=NOW)
    configure(
        tenant=acme.tenant,
        wanted=Wanted("batch", 1),
        actor=platform_person("operator"),
        now=NOW,
    )


def test_a_role_that_was_taken_away_meanwhile_sets_nothing(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        Membership.objects.filter(user=acme.admin).update(role=Role.MEMBER)
    with pytest.raises(PermissionDenied):
        configure(tenant=acme.tenant, wanted=Wanted("batch", 1), actor=acme.admin, now=NOW)


@given(granted=MARKS, own=MARKS, default=st.sampled_from(CLASSES), highest=st.sampled_from(CLASSES))
def test_what_is_accepted_is_never_above_the_grant(
    granted: int | None, own: int | None, default: str, highest: str
) -> None:
    tenant = Tenant(high_water_tokens=granted, highest_priority=highest)
    try:
        check_within(tenant, Wanted(default, own))
    except BadRequest:
        return
    assert own is None or own <= granted_tokens(tenant) <= settings.HIGH_WATER_TOKENS
    assert Priority.values.index(default) >= Priority.values.index(highest)


@given(granted=MARKS, own=MARKS)
def test_the_lesser_of_both_holds(granted: int | None, own: int | None) -> None:
    said = [each for each in (granted, own) if each is not None]
    assert read_ahead(granted, own) == (min(said) if said else None)
