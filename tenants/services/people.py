"""People and their tenants: who may chat where, who manages what, who comes and goes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import cast

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import BadRequest, PermissionDenied
from tenants import scope
from tenants.models import Membership, Role, Tenant
from tenants.models.membership import CHATTING, MANAGING
from tenants.principal import Actor, Principal, Visitor, actor_name
from tenants.priority import PriorityClass

log = logging.getLogger(__name__)


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


def principal_of(user: Visitor, *, tenant_id: str | None) -> Principal:
    """Whom a person acts as: in the named tenant, or in the first where they may chat. One query.

    Raises PermissionDenied `no_membership` where there is none.
    """
    membership = _first(memberships_of(user), CHATTING, tenant_id)
    if membership is None:
        raise no_membership()
    return as_principal(membership)


def no_membership() -> PermissionDenied:
    return PermissionDenied(
        gettext_noop("You are not a member of a tenant that may chat."), code="no_membership"
    )


def chatting_among(user_ids: Iterable[str]) -> set[tuple[str, str]]:
    """(user id, tenant id) of the memberships by which these people may chat now. One query."""
    with scope.whole_platform():
        rows = Membership.objects.filter(
            user_id__in=list(user_ids),
            user__is_active=True,
            tenant__is_active=True,
            role__in=CHATTING,
        ).values_list("user_id", "tenant_id")
        return {(str(user_id), tenant_id) for user_id, tenant_id in rows}


def as_principal(membership: Membership) -> Principal:
    """Whom a membership, loaded with its tenant, lets its user act as."""
    return Principal(
        membership.tenant_id,
        "user",
        str(membership.user_id),
        high_water_tokens=membership.tenant.high_water_tokens,
        weight=membership.tenant.weight,
        default_priority=cast(PriorityClass, membership.tenant.default_priority),
        highest_priority=cast(PriorityClass, membership.tenant.highest_priority),
    )


def managed_membership(user: Visitor, *, tenant_id: str | None) -> Membership | None:
    """The person's managing membership in the named tenant, or else their first one. One query."""
    memberships = memberships_of(user)
    return _first(memberships, MANAGING, tenant_id) or _first(memberships, MANAGING, None)


def may_assign(role: str, *, assigner: str | None) -> bool:
    """Whether one with the role `assigner` may give or take `role`: owners are made by owners.

    assigner: None for an operator
    """
    if assigner is None or assigner == Role.OWNER:
        return True
    return assigner == Role.ADMIN and role != Role.OWNER


def add_member(*, tenant: Tenant, user: User, role: str, actor: Actor, now: datetime) -> Membership:
    """Make a person a member. Called in the tenant's scope.

    Raises BadRequest `already_member` and PermissionDenied `role_not_yours`.
    """
    _check_assigner(actor, tenant.pk, role)
    with transaction.atomic():
        membership: Membership
        membership, created = Membership.objects.get_or_create(
            tenant=tenant, user=user, defaults={"role": role, "created_at": now}
        )
        if not created:
            raise BadRequest(
                gettext_noop("This person is a member already."), code="already_member"
            )
        _let_in(user, role)
    log.info("%s made %s of %s by %s", user.pk, role, tenant.pk, actor_name(actor))
    return membership


def change_role(*, membership: Membership, role: str, actor: Actor, now: datetime) -> None:
    """Give a member another role. Raises PermissionDenied `role_not_yours`."""
    with transaction.atomic():
        row = (
            Membership.objects.select_for_update(of=("self",))
            .select_related("user")
            .get(pk=membership.pk)
        )
        _check_assigner(actor, row.tenant_id, row.role, role)
        row.role = role
        row.save(update_fields=["role"])
        _let_in(row.user, role)
    membership.role = role
    log.info("%s made %s of %s by %s", row.user_id, role, row.tenant_id, actor_name(actor))


def remove_member(*, membership: Membership, actor: Actor, now: datetime) -> None:
    """End a membership; the person and their other tenants stay.

    Raises PermissionDenied `role_not_yours`.
    """
    _check_assigner(actor, membership.tenant_id, membership.role)
    user_id, tenant_id = membership.user_id, membership.tenant_id
    membership.delete()
    log.info("%s removed from %s by %s", user_id, tenant_id, actor_name(actor))


def _first(
    memberships: Iterable[Membership], roles: frozenset[Role], tenant_id: str | None
) -> Membership | None:
    return next(
        (
            membership
            for membership in memberships
            if membership.role in roles and tenant_id in (None, membership.tenant_id)
        ),
        None,
    )


def _check_assigner(actor: Actor, tenant_id: str, *roles: str) -> None:
    """Operators and the platform may assign every role, managers those that `may_assign` says."""
    if actor is None or (isinstance(actor, User) and actor.is_superuser and actor.is_active):
        return
    assigner = Membership.objects.filter(
        tenant_id=tenant_id, user_id=_user_id(actor), role__in=MANAGING
    ).first()
    if assigner is None or not all(may_assign(role, assigner=assigner.role) for role in roles):
        raise PermissionDenied(
            gettext_noop("Your role does not let you give or take this one."), code="role_not_yours"
        )


def _user_id(actor: Actor) -> str | int | None:
    if isinstance(actor, Principal):
        return actor.id if actor.kind == "user" else None
    return None if actor is None else actor.pk


def _let_in(user: User, role: str) -> None:
    """The admin site opens to staff alone; what they see there their membership decides."""
    if role in MANAGING and not user.is_staff:
        user.is_staff = True
        user.save(update_fields=["is_staff"])
