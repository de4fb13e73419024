"""A tenant keeps an owner, and the platform an operator, whoever asks and however many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection

from kernel.errors import BadRequest, Conflict, PermissionDenied, PlatformError
from streaming.services.sessions import principal_of_session
from tenants import scope
from tenants.models import Membership, PlatformGrant, PlatformRole, Role
from tenants.principal import Principal
from tenants.services import people
from tenants.services.platform_roles import grant_role, withdraw_role
from tests.tenants.worlds import NOW, World, joined, person, platform_person, world


def membership_of(where: World, user: User) -> Membership:
    with scope.tenant(where.tenant.pk):
        found: Membership = Membership.objects.get(user=user)
    return found


def demote(where: World, user: User, actor: User | None) -> None:
    membership = membership_of(where, user)
    with scope.tenant(where.tenant.pk):
        people.change_role(membership=membership, role=Role.MEMBER, actor=actor, now=NOW)


def remove(where: World, user: User, actor: User | None) -> None:
    membership = membership_of(where, user)
    with scope.tenant(where.tenant.pk):
        people.remove_member(membership=membership, actor=actor, now=NOW)


Attempt = Callable[[World, User, User | None], None]


@pytest.mark.parametrize("attempt", [demote, remove])
@pytest.mark.parametrize("by", ["owner", "operator", "platform"])
def test_the_last_owner_stays(attempt: Attempt, by: str, acme: World) -> None:
    operator = person("operator", superuser=True)
    actor = {"owner": acme.owner, "operator": operator, "platform": None}[by]
    with pytest.raises(Conflict) as refused:
        attempt(acme, acme.owner, actor)
    assert refused.value.code == "last_owner"
    assert membership_of(acme, acme.owner).role == Role.OWNER


@pytest.mark.parametrize("attempt", [demote, remove])
def test_an_owner_beside_another_may_go(attempt: Attempt, acme: World, globex: World) -> None:
    second = joined(acme, person("second"), Role.OWNER)
    attempt(acme, acme.owner, second)
    with pytest.raises(Conflict):
        attempt(acme, second, second)


def test_owners_of_other_tenants_and_owners_switched_off_do_not_count(
    acme: World, globex: World
) -> None:
    joined(globex, person("elsewhere"), Role.OWNER)
    retired = joined(acme, person("retired"), Role.OWNER)
    User.objects.filter(pk=retired.pk).update(is_active=False)
    with pytest.raises(Conflict):
        demote(acme, acme.owner, acme.owner)


def test_an_owner_who_stays_one_is_no_matter(acme: World) -> None:
    membership = membership_of(acme, acme.owner)
    with scope.tenant(acme.tenant.pk):
        people.change_role(membership=membership, role=Role.OWNER, actor=acme.owner, now=NOW)


def at_once(*attempts: Callable[[], None]) -> list[PlatformError]:
    """Run them together. What each was refused with."""
    together, refused = threading.Barrier(len(attempts)), list[PlatformError]()

    def run(attempt: Callable[[], None]) -> None:
        together.wait()
        try:
            attempt()
        except PlatformError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(attempt,)) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", [demote, remove])
def test_two_owners_who_put_each_other_out_leave_one(attempt: Attempt) -> None:
    acme = world("acme")
    for round_ in range(5):
        second = joined(acme, person(f"second-{round_}"), Role.OWNER)
        first = next(each.user for each in _owners(acme) if each.user != second)
        refused = at_once(
            lambda first=first, second=second: attempt(acme, first, second),  # type: ignore[misc]
            lambda first=first, second=second: attempt(acme, second, first),  # type: ignore[misc]
        )
        assert len(refused) == 1
        assert len(_owners(acme)) == 1


def _owners(where: World) -> list[Membership]:
    with scope.tenant(where.tenant.pk):
        return list(Membership.objects.filter(role=Role.OWNER).select_related("user"))


# -- The platform


def test_operators_alone_give_and_withdraw_platform_roles(acme: World) -> None:
    operator, friend = platform_person(PlatformRole.OPERATOR), person("friend")
    robot = Principal(acme.tenant.pk, "service_account", acme.account.pk)
    others = [platform_person(role) for role in PlatformRole if role != PlatformRole.OPERATOR]
    for actor in (acme.owner, acme.member, robot, *others):
        with pytest.raises(PermissionDenied):
            grant_role(user=friend, role=PlatformRole.AUDITOR, actor=actor, now=NOW)
    grant = grant_role(user=friend, role=PlatformRole.AUDITOR, actor=operator, now=NOW)
    friend.refresh_from_db()
    assert friend.is_staff
    with pytest.raises(BadRequest):
        grant_role(user=friend, role=PlatformRole.AUDITOR, actor=operator, now=NOW)
    with pytest.raises(PermissionDenied):
        withdraw_role(grant=grant, actor=acme.owner, now=NOW)
    withdraw_role(grant=grant, actor=operator, now=NOW)
    assert not PlatformGrant.objects.filter(user=friend).exists()


def test_an_operator_who_was_switched_off_gives_nothing(db: None) -> None:
    operator, friend = platform_person(PlatformRole.OPERATOR), person("friend")
    User.objects.filter(pk=operator.pk).update(is_active=False)
    with pytest.raises(PermissionDenied):
        grant_role(user=friend, role=PlatformRole.OPERATOR, actor=operator, now=NOW)


def test_the_last_operator_stays(db: None) -> None:
    operator = platform_person(PlatformRole.OPERATOR)
    grant = PlatformGrant.objects.get(user=operator)
    with pytest.raises(Conflict) as refused:
        withdraw_role(grant=grant, actor=operator, now=NOW)
    assert refused.value.code == "last_operator"
    person("root", superuser=True)
    withdraw_role(grant=grant, actor=operator, now=NOW)


# -- Open sockets: each message asks anew whom its session speaks for


def test_a_role_that_chats_no_more_ends_with_the_next_message(acme: World) -> None:
    from django.test import Client

    client = Client()
    client.force_login(acme.member)
    key = client.session.session_key
    assert principal_of_session(key).tenant_id == acme.tenant.pk
    membership = membership_of(acme, acme.member)
    with scope.tenant(acme.tenant.pk):
        people.change_role(membership=membership, role=Role.ADMIN, actor=acme.owner, now=NOW)
    assert principal_of_session(key).tenant_id == acme.tenant.pk
    with scope.tenant(acme.tenant.pk):
        people.change_role(membership=membership, role=Role.BILLING, actor=acme.owner, now=NOW)
    with pytest.raises(PermissionDenied):
        principal_of_session(key)
