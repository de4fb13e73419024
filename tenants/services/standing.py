"""What somebody is, read anew each time: a role that was taken away is gone at the next request."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.models import User

from tenants import scope
from tenants.models import Membership, PlatformGrant, PlatformRole
from tenants.permissions import ADMIN_KEY, SERVICE_ACCOUNT, Standing
from tenants.principal import Actor, Principal, Visitor


def memberships_of(user: Visitor) -> list[Membership]:
    """A person's memberships in active tenants, oldest first, tenants loaded. One query.

    Empty for anonymous visitors and for people who were switched off.
    """
    if user.pk is None:
        return []
    with scope.whole_platform():
        return list(
            Membership.objects.filter(user_id=user.pk, user__is_active=True, tenant__is_active=True)
            .select_related("tenant")
            .order_by("created_at", "pk")
        )


def platform_roles_of(user: Visitor) -> frozenset[str]:
    """A person's platform roles. One query; none for people who were switched off."""
    if user.pk is None or not user.is_active:
        return frozenset()
    roles = set(PlatformGrant.objects.filter(user_id=user.pk).values_list("role", flat=True))
    if cast(User, user).is_superuser:
        roles.add(PlatformRole.OPERATOR.value)
    return frozenset(roles)


def standing_of(actor: Actor) -> Standing:
    """Of a person all that they are, of an application its part in its tenant, of the platform
    itself what operators are.
    """
    if actor is None:
        return Standing(frozenset({PlatformRole.OPERATOR.value}))
    if isinstance(actor, Principal) and actor.kind == "service_account":
        part = ADMIN_KEY if "admin" in actor.scopes else SERVICE_ACCOUNT
        return Standing(tenants={actor.tenant_id: part})
    pk = actor.id if isinstance(actor, Principal) else actor.pk
    # What is in hand may have been loaded before it was switched off.
    user = User.objects.filter(pk=pk, is_active=True).first()
    if user is None:
        return Standing()
    roles = {each.tenant_id: each.role for each in memberships_of(user)}
    return Standing(platform_roles_of(user), roles)
