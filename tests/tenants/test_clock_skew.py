"""Web processes whose clocks differ by minutes: what was taken away stays taken away, what expires
is off by no more than the clock, and the audit log verifies in whatever order times come.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.errors import BadRequest, Unauthenticated
from tenants import scope
from tenants.access import Access, AccessEnded
from tenants.audit_actions import AuditAction
from tenants.models import ApiKey
from tenants.services import known_keys
from tenants.services.audit import record
from tenants.services.audit_check import check
from tenants.services.key_records import KeyRecord, read
from tenants.services.keys import authenticate_key, issue_key, revoke_key, rotate_key
from tests.tenants.recorded import recorded
from tests.tenants.worlds import NOW, World

pytestmark = pytest.mark.django_db
SKEWS = [timedelta(minutes=minutes) for minutes in (-600, -10, -1, 0, 1, 10, 600)]
MINUTE = timedelta(minutes=1)


class Nobody:
    """Looks after no access."""

    def add(self, access: Access) -> None: ...

    def discard(self, access: Access) -> None: ...


def known(key_id: str) -> KeyRecord:
    found = read(key_id)
    assert found is not None
    return found


@pytest.mark.parametrize("skew", SKEWS, ids=str)
def test_a_revoked_key_is_refused_whatever_the_clocks_say(acme: World, skew: timedelta) -> None:
    with scope.tenant(acme.tenant.pk):
        revoke_key(key=acme.key, actor=acme.admin, now=NOW + skew)
    for other in SKEWS:
        with pytest.raises(Unauthenticated):
            authenticate_key(f"Bearer {acme.key_text}", now=NOW + other)


@pytest.mark.parametrize("skew", SKEWS, ids=str)
def test_an_expiry_is_off_by_the_clock_and_no_more(acme: World, skew: timedelta) -> None:
    ends = NOW + timedelta(hours=24)
    with scope.tenant(acme.tenant.pk):
        key, text = issue_key(
            service_account=acme.account, name="ends", actor=None, now=NOW, expires_at=ends
        )
    header = f"Bearer {text}"
    # The process's own time, when it is `ends` less or more a minute by a right clock.
    behind, ahead = ends + skew - MINUTE, ends + skew + MINUTE
    for now in (behind, ahead):
        if now < ends:
            assert authenticate_key(header, now=now).key_id == key.pk
        else:
            with pytest.raises(Unauthenticated):
                authenticate_key(header, now=now)


def test_one_that_is_ahead_ends_a_request_and_withdraws_nothing(acme: World) -> None:
    """What was asked for goes on for its reader in a process whose clock is right."""
    ends = NOW + timedelta(hours=1)
    with scope.tenant(acme.tenant.pk):
        ApiKey.objects.filter(pk=acme.key.pk).update(expires_at=ends)
    found = known(acme.key.pk)
    access = Access(found.check(now=NOW), Nobody(), lambda: None)
    known_keys._renew(access, found, ends + MINUTE)
    with pytest.raises(AccessEnded):
        access.check()
    assert not access.is_withdrawn


@given(
    issued=st.sampled_from(SKEWS),
    rotated=st.sampled_from(SKEWS),
    overlap=st.integers(0, 48).map(lambda hours: timedelta(hours=hours)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_a_rotation_by_another_clock_leaves_a_successor_of_the_same_life(
    acme: World, issued: timedelta, rotated: timedelta, overlap: timedelta
) -> None:
    life = timedelta(days=30)
    with scope.tenant(acme.tenant.pk):
        key, _ = issue_key(
            service_account=acme.account,
            name="rotates",
            actor=None,
            now=NOW + issued,
            expires_at=NOW + issued + life,
        )
        new, _ = rotate_key(key=key, actor=None, now=NOW + rotated, overlap=overlap)
    assert new.expires_at == NOW + rotated + life
    assert known(key.pk).expires_at == min(NOW + rotated + overlap, NOW + issued + life)


def test_a_key_that_is_over_by_ones_own_clock_is_not_rotated(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        key, _ = issue_key(
            service_account=acme.account,
            name="over",
            actor=None,
            now=NOW,
            expires_at=NOW + MINUTE,
        )
        with pytest.raises(BadRequest):
            rotate_key(key=key, actor=None, now=NOW + 10 * MINUTE)


@given(st.lists(st.sampled_from(SKEWS), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_the_audit_log_is_in_the_order_of_what_was_done(
    acme: World, skews: list[timedelta]
) -> None:
    """By number, not by time: clocks that differ make no gap and no break."""
    told: list[datetime] = []
    before = len(recorded())
    for skew in skews:
        with transaction.atomic():
            told.append(NOW + skew)
            record(AuditAction.SIGN_IN, actor=acme.admin, now=told[-1], tenant_id=None)
    rows = recorded()[before:]
    assert [row.at for row in rows] == told
    assert [row.seq for row in rows] == list(range(before + 1, before + 1 + len(skews)))
    assert check().breaks == []
