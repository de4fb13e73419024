"""Two tenants that are strangers to each other, so that ownership is tested everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.models import User

from tenants import scope
from tenants.models import ApiKey, Membership, PlatformGrant, Role, ServiceAccount, Tenant
from tenants.services.keys import issue_key

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class World:
    """A tenant with its people, an application and its key, as row and as its holder knows it."""

    tenant: Tenant
    owner: User
    admin: User
    member: User
    account: ServiceAccount
    key: ApiKey
    key_text: str


def person(username: str, *, staff: bool = False, superuser: bool = False) -> User:
    user = User(username=username, is_staff=staff or superuser, is_superuser=superuser)
    user.set_unusable_password()
    user.save()
    return user


def joined(where: World, user: User, role: str, *, staff: bool = False) -> User:
    """The person, now a member; past the services, which tests of access don't depend on."""
    user.is_staff = user.is_staff or staff
    user.save()
    with scope.tenant(where.tenant.pk):
        Membership.objects.create(tenant=where.tenant, user=user, role=role)
    return user


def platform_person(role: str) -> User:
    user = person(f"platform-{role}", staff=True)
    PlatformGrant.objects.create(user=user, role=role)
    return user


def world(slug: str) -> World:
    tenant = Tenant.objects.create(slug=slug, name=f"{slug} and sons")
    people = {
        role: person(f"{slug}-{role}", staff=role != Role.MEMBER)
        for role in (Role.OWNER, Role.ADMIN, Role.MEMBER)
    }
    with scope.tenant(tenant.pk):
        for role, user in people.items():
            Membership.objects.create(tenant=tenant, user=user, role=role)
        account = ServiceAccount.objects.create(tenant=tenant, name=f"{slug}-robot")
        key, text = issue_key(service_account=account, name=f"{slug}-key", actor=None, now=NOW)
    return World(
        tenant, people[Role.OWNER], people[Role.ADMIN], people[Role.MEMBER], account, key, text
    )
