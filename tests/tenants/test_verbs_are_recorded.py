"""Each verb writes its record in its own transaction, and none for what it refused to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from kernel.errors import Conflict
from tenants import scope
from tenants.models import Membership, PlatformGrant, Role, Tenant
from tenants.services import accounts, people
from tenants.services.keys import issue_key, revoke_key
from tenants.services.platform_roles import grant_role, withdraw_role
from tests.tenants.recorded import new_records, recorded
from tests.tenants.worlds import NOW, World, joined, person

Story = tuple[str, str, str | None, dict[str, Any], dict[str, Any]]


def stories(records: list[Any]) -> list[Story]:
    return [
        (row.action, f"{row.object_type} {row.object_id}", row.tenant_id, row.before, row.after)
        for row in records
    ]


def test_members_who_come_change_and_go(acme: World) -> None:
    friend = person("friend")
    with new_records() as found, scope.tenant(acme.tenant.pk):
        membership = people.add_member(
            tenant=acme.tenant, user=friend, role=Role.MEMBER, actor=acme.admin, now=NOW
        )
        people.change_role(membership=membership, role=Role.ADMIN, actor=acme.owner, now=NOW)
        people.remove_member(membership=membership, actor=acme.owner, now=NOW)
    who, where = f"member {friend.pk}", acme.tenant.pk
    assert stories(found) == [
        ("member.add", who, where, {}, {"role": "member"}),
        ("member.change", who, where, {"role": "member"}, {"role": "admin"}),
        ("member.remove", who, where, {"role": "admin"}, {}),
    ]
    assert [row.actor_id for row in found] == [str(acme.admin.pk)] + [str(acme.owner.pk)] * 2
    assert {(row.decision, row.outcome, row.at) for row in found} == {("allowed", "done", NOW)}


def test_platform_roles_given_and_withdrawn(db: None) -> None:
    root, friend = person("root", superuser=True), person("friend")
    with new_records() as found:
        grant = grant_role(user=friend, role="auditor", actor=root, now=NOW)
        withdraw_role(grant=grant, actor=root, now=NOW)
    who = f"user {friend.pk}"
    assert stories(found) == [
        ("platform_role.grant", who, None, {}, {"role": "auditor"}),
        ("platform_role.withdraw", who, None, {"role": "auditor"}, {}),
    ]


def test_keys_issued_and_revoked_once(acme: World) -> None:
    with new_records() as found, scope.tenant(acme.tenant.pk):
        key, text = issue_key(service_account=acme.account, name="k", actor=acme.admin, now=NOW)
        for _ in range(2):
            revoke_key(key=key, actor=acme.admin, now=NOW)
    assert [row.action for row in found] == ["key.issue", "key.revoke"]
    assert {row.object_id for row in found} == {key.pk}
    assert found[0].after["service_account_id"] == acme.account.pk
    told = str([vars(row) for row in recorded()])
    assert text.split("_")[2] not in told
    assert key.digest not in told


def test_what_is_refused_leaves_no_record_of_having_been_done(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        owner = Membership.objects.get(user=acme.owner)
        with new_records() as found:
            for refused in (people.remove_member,):
                with pytest.raises(Conflict):
                    refused(membership=owner, actor=acme.owner, now=NOW)
    assert found == []


def failing(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", ["add", "change", "remove", "grant", "issue", "revoke"])
def test_without_its_record_nothing_is_done(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tenants.worlds import world

    acme, friend = world("acme"), person("friend")
    with scope.tenant(acme.tenant.pk):
        member = Membership.objects.get(user=acme.member)
        verbs: dict[str, Callable[[], Any]] = {
            "add": lambda: people.add_member(
                tenant=acme.tenant, user=friend, role="member", actor=None, now=NOW
            ),
            "change": lambda: people.change_role(
                membership=member, role="admin", actor=None, now=NOW
            ),
            "remove": lambda: people.remove_member(membership=member, actor=None, now=NOW),
            "grant": lambda: grant_role(user=friend, role="auditor", actor=None, now=NOW),
            "issue": lambda: issue_key(service_account=acme.account, name="k", actor=None, now=NOW),
            "revoke": lambda: revoke_key(key=acme.key, actor=None, now=NOW),
        }
        before = state(acme)
        monkeypatch.setattr("tenants.services.audit._append", failing)
        with pytest.raises(ZeroDivisionError):
            verbs[verb]()
        assert state(acme) == before


def state(world: World) -> list[Any]:
    from tenants.models import ApiKey

    return [
        list(Membership.objects.order_by("pk").values()),
        list(ApiKey.objects.order_by("pk").values()),
        list(PlatformGrant.objects.values()),
        list(Membership.objects.order_by("pk").values("user__is_staff")),
    ]


def test_an_account_is_deleted_only_if_its_tenants_keep_an_owner(acme: World) -> None:
    with pytest.raises(Conflict), transaction.atomic():
        accounts.delete_account(user=acme.owner, actor=None, now=NOW)
    joined(acme, person("second"), Role.OWNER)
    pk = acme.owner.pk
    with new_records() as found:
        accounts.delete_account(user=acme.owner, actor=None, now=NOW)
    assert [(row.action, row.object_id) for row in found] == [("person.delete", str(pk))]
    assert found[0].before["username"] == "acme-owner"
    assert Tenant.objects.filter(pk=acme.tenant.pk).exists()
