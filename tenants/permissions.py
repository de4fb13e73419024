"""Who may do what: one table, asked by everyone.

A platform role holds in every tenant and on the platform; a tenant's role holds in that tenant
alone. What is not in the table nobody may do.

Pure: no database. `tenants.services.standing` says what somebody is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tenants.models.membership import Role
from tenants.models.platform_grant import PlatformRole

# An application's part in its tenant, by a key with and without the scope `admin`; no person's, so
# not among `Role`.
SERVICE_ACCOUNT = "service_account"
ADMIN_KEY = "admin_key"


class Action(StrEnum):
    """`<object>.<what is done to it>`."""

    ANSWER_ASK = "answer.ask"
    AUDIT_EXPORT = "audit.export"
    AUDIT_VIEW = "audit.view"
    CHECKPOINT_VIEW = "checkpoint.view"
    CONVERSATION_VIEW = "conversation.view"
    GENERATION_VIEW = "generation.view"
    KEY_MANAGE = "key.manage"
    KEY_VIEW = "key.view"
    LIMIT_MANAGE = "limit.manage"
    LIMIT_VIEW = "limit.view"
    MAINTENANCE_VIEW = "maintenance.view"
    MEMBER_MANAGE = "member.manage"
    MEMBER_VIEW = "member.view"
    PERSON_MANAGE = "person.manage"
    PERSON_VIEW = "person.view"
    PLATFORM_ROLE_MANAGE = "platform_role.manage"
    PLATFORM_ROLE_VIEW = "platform_role.view"
    RELEASE_APPROVE = "release.approve"
    RELEASE_MANAGE = "release.manage"
    RELEASE_VIEW = "release.view"
    REPLAY_KEY_VIEW = "replay_key.view"
    REPLICA_MANAGE = "replica.manage"
    REPLICA_VIEW = "replica.view"
    ROUTE_MANAGE = "route.manage"
    ROUTE_VIEW = "route.view"
    SERVICE_ACCOUNT_MANAGE = "service_account.manage"
    SERVICE_ACCOUNT_VIEW = "service_account.view"
    SIGN_IN_POLICY_MANAGE = "sign_in_policy.manage"
    SETTINGS_MANAGE = "settings.manage"
    SETTINGS_VIEW = "settings.view"
    TENANT_MANAGE = "tenant.manage"
    TENANT_SUSPEND = "tenant.suspend"
    TENANT_VIEW = "tenant.view"


# Conversations and generations are seen as records: who, when, how many tokens; never the words.
# Nothing asks `release.approve` before releases are approved.
TABLE = """
                       | operator release_manager approver auditor billing | owner admin member billing auditor service_account
answer.ask             |    .            .           .        .       .    |   x     x     x      .       .           x
audit.view             |    x            .           .        x       .    |   x     x     .      .       x           .
audit.export           |    .            .           .        x       .    |   .     .     .      .       x           .
checkpoint.view        |    x            .           .        x       .    |   x     x     .      .       x           .
conversation.view      |    x            .           .        x       .    |   x     x     .      .       x           .
generation.view        |    x            .           .        x       x    |   x     x     .      x       x           .
key.view               |    x            .           .        x       .    |   x     x     .      .       x           .
key.manage             |    x            .           .        .       .    |   x     x     .      .       .           .
limit.view             |    x            .           .        x       x    |   x     x     .      x       x           .
limit.manage           |    x            .           .        .       .    |   .     .     .      .       .           .
maintenance.view       |    x            .           .        x       .    |   .     .     .      .       .           .
member.view            |    x            .           .        x       .    |   x     x     .      .       x           .
member.manage          |    x            .           .        .       .    |   x     x     .      .       .           .
person.view            |    x            .           .        x       .    |   .     .     .      .       .           .
person.manage          |    x            .           .        .       .    |   .     .     .      .       .           .
platform_role.view     |    x            .           .        x       .    |   .     .     .      .       .           .
platform_role.manage   |    x            .           .        .       .    |   .     .     .      .       .           .
release.view           |    x            x           x        x       .    |   .     .     .      .       .           .
release.manage         |    x            x           .        .       .    |   .     .     .      .       .           .
release.approve        |    .            .           x        .       .    |   .     .     .      .       .           .
replay_key.view        |    x            .           .        x       .    |   x     x     .      .       x           .
replica.view           |    x            .           .        .       .    |   .     .     .      .       .           .
replica.manage         |    x            .           .        .       .    |   .     .     .      .       .           .
route.view             |    x            x           x        x       .    |   .     .     .      .       .           .
route.manage           |    x            x           .        .       .    |   .     .     .      .       .           .
service_account.view   |    x            .           .        x       .    |   x     x     .      .       x           .
service_account.manage |    x            .           .        .       .    |   x     x     .      .       .           .
sign_in_policy.manage  |    x            .           .        .       .    |   x     x     .      .       .           .
settings.view          |    x            .           .        x       .    |   x     x     .      .       x           .
settings.manage        |    x            .           .        .       .    |   x     x     .      .       .           .
tenant.view            |    x            .           .        x       x    |   x     x     .      x       x           .
tenant.manage          |    x            .           .        .       .    |   .     .     .      .       .           .
tenant.suspend         |    x            .           .        .       .    |   .     .     .      .       .           .
"""  # noqa: E501 - a table

# What a key with the scope `admin` may do in its tenant: apart from the table, so that what is
# added there is nothing that a key may do unless it is said here.
OF_ADMIN_KEYS = (
    Action.ANSWER_ASK,
    Action.AUDIT_VIEW,
    Action.GENERATION_VIEW,
    Action.KEY_MANAGE,
    Action.KEY_VIEW,
    Action.LIMIT_VIEW,
    Action.MEMBER_MANAGE,
    Action.MEMBER_VIEW,
    Action.SERVICE_ACCOUNT_MANAGE,
    Action.SERVICE_ACCOUNT_VIEW,
    Action.TENANT_VIEW,
)

# Who gives roles in a tenant gives none above their own.
RANK: Mapping[str, int] = {
    Role.OWNER: 2,
    Role.ADMIN: 1,
    ADMIN_KEY: 1,
    Role.MEMBER: 0,
    Role.BILLING: 0,
    Role.AUDITOR: 0,
}


def _cells() -> Iterator[tuple[bool, str, Action]]:
    """Each x: whether of the platform, role, action. Raises ValueError for a word unknown here."""
    head, *rows = TABLE.strip("\n").splitlines()
    _, *sides = (side.split() for side in head.split("|"))
    columns = [(True, PlatformRole(role).value) for role in sides[0]]
    columns += [(False, role if role == SERVICE_ACCOUNT else Role(role).value) for role in sides[1]]
    for row in rows:
        name, *marks = row.replace("|", " ").split()
        for (of_platform, role), mark in zip(columns, marks, strict=True):
            if mark == "x":
                yield of_platform, role, Action(name)


_ALLOWED = frozenset(_cells()) | {(False, ADMIN_KEY, action) for action in OF_ADMIN_KEYS}


@dataclass(frozen=True, slots=True)
class Standing:
    """What somebody is. platform: their platform roles; tenants: their role by tenant's id"""

    platform: frozenset[str] = frozenset()
    tenants: Mapping[str, str] = field(default_factory=dict)


def allowed(standing: Standing, action: Action, tenant_id: str | None) -> bool:
    """Whether this may be done to something of a tenant, or, for None, of the platform."""
    if any((True, role, action) in _ALLOWED for role in standing.platform):
        return True
    return tenant_id is not None and role_allows(standing.tenants.get(tenant_id), action)


def role_allows(role: str | None, action: Action) -> bool:
    """Whether a tenant's role lets one do this in its tenant."""
    return (False, role, action) in _ALLOWED


def opens_console(role: str) -> bool:
    """Whether a tenant's role has anything to see in the admin."""
    return any(role_allows(role, action) for action in Action if action != Action.ANSWER_ASK)


def may_assign(standing: Standing, role: str, tenant_id: str | None) -> bool:
    """Whether one may give or take this role in a tenant: of the platform any, else none above
    their own.
    """
    if allowed(standing, Action.MEMBER_MANAGE, None):
        return True
    if tenant_id is None or not allowed(standing, Action.MEMBER_MANAGE, tenant_id):
        return False
    return RANK[role] <= RANK[standing.tenants[tenant_id]]
