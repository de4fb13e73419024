from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from pytest_django import DjangoAssertNumQueries

from kernel.errors import BadRequest, PermissionDenied
from tenants import scope
from tenants.models import Membership, Role
from tenants.principal import Principal, actor_name
from tenants.services import people
from tenants.services.standing import memberships_of
from tests.tenants.worlds import NOW, World, person


def join(where: World, user: object, role: str, *, days: int = 1) -> Membership:
    with scope.tenant(where.tenant.pk):
        membership: Membership = Membership.objects.create(
            tenant=where.tenant, user=user, role=role, created_at=NOW + timedelta(days=days)
        )
    return membership


def test_a_person_acts_in_their_first_tenant_or_the_one_they_chose(
    acme: World, globex: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    both = person("both")
    join(globex, both, Role.MEMBER, days=2)
    join(acme, both, Role.MEMBER, days=1)
    with django_assert_num_queries(1):
        first = people.principal_of(both, tenant_id=None)
    with django_assert_num_queries(1):
        chosen = people.principal_of(both, tenant_id=globex.tenant.pk)

    assert first == Principal(acme.tenant.pk, "user", str(both.pk))
    assert chosen.tenant_id == globex.tenant.pk
    assert chosen.name == f"user:{both.pk}" == actor_name(both)


def test_a_tenant_of_strangers_is_denied(acme: World, globex: World) -> None:
    with pytest.raises(PermissionDenied) as denial:
        people.principal_of(acme.member, tenant_id=globex.tenant.pk)
    assert denial.value.code == "no_membership"


@pytest.mark.parametrize("role", [Role.BILLING, Role.AUDITOR])
def test_roles_that_do_not_chat_are_denied(acme: World, role: Role) -> None:
    clerk = person("clerk")
    join(acme, clerk, role)
    with pytest.raises(PermissionDenied):
        people.principal_of(clerk, tenant_id=None)


def test_the_first_tenant_is_the_first_where_one_may_chat(acme: World, globex: World) -> None:
    clerk = person("clerk")
    join(acme, clerk, Role.BILLING, days=1)
    join(globex, clerk, Role.MEMBER, days=2)

    assert people.principal_of(clerk, tenant_id=None).tenant_id == globex.tenant.pk


def test_inactive_people_inactive_tenants_and_nobody_are_denied(acme: World, globex: World) -> None:
    globex.tenant.is_active = False
    globex.tenant.save()
    acme.member.is_active = False
    acme.member.save()
    for nobody in (AnonymousUser(), acme.member, globex.member, person("alone")):
        assert memberships_of(nobody) == []
        with pytest.raises(PermissionDenied):
            people.principal_of(nobody, tenant_id=None)


def test_memberships_come_with_their_tenants(
    acme: World, globex: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    join(globex, acme.member, Role.ADMIN)
    with django_assert_num_queries(1):
        slugs = [one.tenant.slug for one in memberships_of(acme.member)]
    assert sorted(slugs) == ["acme", "globex"]


def test_an_admin_adds_and_removes_members_and_lets_managers_into_the_admin(acme: World) -> None:
    friend = person("friend")
    with scope.tenant(acme.tenant.pk):
        membership = people.add_member(
            tenant=acme.tenant, user=friend, role=Role.MEMBER, actor=acme.admin, now=NOW
        )
        assert not friend.is_staff
        people.change_role(membership=membership, role=Role.ADMIN, actor=acme.admin, now=NOW)
        friend.refresh_from_db()
        assert friend.is_staff
        assert membership.role == Role.ADMIN
        with pytest.raises(BadRequest):
            people.add_member(
                tenant=acme.tenant, user=friend, role=Role.MEMBER, actor=acme.admin, now=NOW
            )
        people.remove_member(membership=membership, actor=acme.admin, now=NOW)
        assert not Membership.objects.filter(user=friend).exists()


def test_an_admin_neither_makes_nor_unmakes_owners(acme: World) -> None:
    friend = person("friend")
    with scope.tenant(acme.tenant.pk):
        owner = Membership.objects.get(user=acme.owner)
        admin = Membership.objects.get(user=acme.admin)
        for attempt in (
            lambda: people.add_member(
                tenant=acme.tenant, user=friend, role=Role.OWNER, actor=acme.admin, now=NOW
            ),
            lambda: people.change_role(
                membership=admin, role=Role.OWNER, actor=acme.admin, now=NOW
            ),
            lambda: people.change_role(
                membership=owner, role=Role.MEMBER, actor=acme.admin, now=NOW
            ),
            lambda: people.remove_member(membership=owner, actor=acme.admin, now=NOW),
        ):
            with pytest.raises(PermissionDenied) as denial:
                attempt()
            assert denial.value.code == "role_not_yours"
        people.change_role(membership=admin, role=Role.OWNER, actor=acme.owner, now=NOW)


def test_members_strangers_and_keys_assign_nothing(acme: World, globex: World) -> None:
    robot = Principal(acme.tenant.pk, "service_account", acme.account.pk, key_id=acme.key.pk)
    with scope.tenant(acme.tenant.pk):
        membership = Membership.objects.get(user=acme.member)
        for actor in (acme.member, globex.owner, robot):
            with pytest.raises(PermissionDenied):
                people.change_role(membership=membership, role=Role.ADMIN, actor=actor, now=NOW)
