"""The table of permissions, asked of one's own tenant, another one, and the platform."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.models import PlatformRole, Role
from tenants.permissions import (
    ADMIN_KEY,
    RANK,
    SERVICE_ACCOUNT,
    Action,
    Standing,
    allowed,
    may_assign,
    opens_console,
)

OWN, OTHER = "ten_own", "ten_other"
TENANT_ROLES = [*Role.values, SERVICE_ACCOUNT, ADMIN_KEY]

RECORDS = {"checkpoint.view", "conversation.view", "generation.view", "replay_key.view"}
VIEWS = RECORDS | {"audit.view", "key.view", "member.view", "service_account.view", "settings.view"}
MANAGING = VIEWS | {
    "key.manage",
    "member.manage",
    "service_account.manage",
    "settings.manage",
    "sign_in_policy.manage",
}
# For people in the admin alone.
POLICIES = {"settings.view", "settings.manage", "sign_in_policy.manage"}
RELEASES = {"release.view", "route.view"}
OWN_TENANT = {"limit.view", "tenant.view"}

# Written down anew here: the table itself would only prove itself.
IN_THEIR_TENANT = {
    Role.OWNER: MANAGING | OWN_TENANT | {"answer.ask"},
    Role.ADMIN: MANAGING | OWN_TENANT | {"answer.ask"},
    Role.MEMBER: {"answer.ask"},
    Role.BILLING: OWN_TENANT | {"generation.view"},
    Role.AUDITOR: VIEWS | OWN_TENANT | {"audit.export"},
    SERVICE_ACCOUNT: {"answer.ask"},
    ADMIN_KEY: (MANAGING - RECORDS - POLICIES) | OWN_TENANT | {"answer.ask", "generation.view"},
}
PLATFORM_VIEWS = OWN_TENANT | {"maintenance.view", "person.view", "platform_role.view"}
EVERYWHERE = {
    PlatformRole.OPERATOR: MANAGING
    | RELEASES
    | PLATFORM_VIEWS
    | {"person.manage", "platform_role.manage", "release.manage", "route.manage"}
    | {"limit.manage", "replica.view", "replica.manage", "tenant.manage", "tenant.suspend"},
    PlatformRole.RELEASE_MANAGER: RELEASES | {"release.manage", "route.manage"},
    PlatformRole.APPROVER: RELEASES | {"release.approve"},
    PlatformRole.AUDITOR: VIEWS | RELEASES | PLATFORM_VIEWS | {"audit.export"},
    PlatformRole.BILLING: OWN_TENANT | {"generation.view"},
}


def what(standing: Standing, tenant_id: str | None) -> set[str]:
    return {action.value for action in Action if allowed(standing, action, tenant_id)}


@pytest.mark.parametrize("role", TENANT_ROLES)
def test_a_tenants_role_holds_in_its_tenant_alone(role: str) -> None:
    standing = Standing(tenants={OWN: role})
    assert what(standing, OWN) == IN_THEIR_TENANT[role]  # type: ignore[index]
    assert what(standing, OTHER) == set()
    assert what(standing, None) == set()


@pytest.mark.parametrize("role", PlatformRole.values)
def test_a_platform_role_holds_in_every_tenant_and_on_the_platform(role: str) -> None:
    standing = Standing(frozenset({role}))
    for place in (OWN, OTHER, None):
        assert what(standing, place) == EVERYWHERE[role]  # type: ignore[index]


def test_nobody_may_do_nothing_else() -> None:
    assert what(Standing(), OWN) == set()
    assert what(Standing(frozenset({"owner"}), {OWN: "operator"}), OWN) == set()
    assert what(Standing(tenants={OWN: "root"}), OWN) == set()


@given(
    st.frozensets(st.sampled_from(PlatformRole.values)),
    st.dictionaries(st.sampled_from([OWN, OTHER]), st.sampled_from(TENANT_ROLES)),
)
def test_roles_add_up_and_nothing_more(platform: frozenset[str], tenants: dict[str, str]) -> None:
    standing = Standing(platform, tenants)
    for place in (OWN, OTHER, None):
        expected: set[str] = set()
        for role in platform:
            expected |= EVERYWHERE[role]  # type: ignore[index]
        if place in tenants:
            expected |= IN_THEIR_TENANT[tenants[place]]  # type: ignore[index]
        assert what(standing, place) == expected


def test_all_but_members_have_something_to_see() -> None:
    opening = {role for role in Role.values if opens_console(role)}
    assert opening == {Role.OWNER, Role.ADMIN, Role.BILLING, Role.AUDITOR}


@pytest.mark.parametrize(("giver", "role"), [*itertools.product(TENANT_ROLES, Role.values)])
def test_nobody_gives_a_role_above_their_own(giver: str, role: str) -> None:
    standing = Standing(tenants={OWN: giver})
    managing = giver in (Role.OWNER, Role.ADMIN, ADMIN_KEY)
    above = role == Role.OWNER and giver != Role.OWNER
    assert may_assign(standing, role, OWN) is (managing and not above)
    assert not may_assign(standing, role, OTHER)
    assert not may_assign(standing, role, None)


@pytest.mark.parametrize(("giver", "role"), [*itertools.product(PlatformRole.values, Role.values)])
def test_of_the_platform_operators_give_every_role(giver: str, role: str) -> None:
    for place in (OWN, OTHER, None):
        standing = Standing(frozenset({giver}))
        assert may_assign(standing, role, place) is (giver == PlatformRole.OPERATOR)


def test_every_role_has_its_rank() -> None:
    assert set(RANK) == {*Role, ADMIN_KEY}
