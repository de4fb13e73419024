"""People and their tenants: who may chat where, who comes, goes, and becomes what."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import cast

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import BadRequest, Conflict, PermissionDenied
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import Membership, Role, Tenant
from tenants.permissions import Action, may_assign, opens_console, role_allows
from tenants.principal import Actor, Principal, Visitor, actor_name
from tenants.priority import PriorityClass
from tenants.services.audit import Target, record
from tenants.services.standing import memberships_of, standing_of

log = logging.getLogger(__name__)


def principal_of(user: Visitor, *, tenant_id: str | None) -> Principal:
    """Whom a person acts as: in the named tenant, or in the first where they may chat. One query.

    Raises PermissionDenied `no_membership` where there is none.
    """
    membership = next(
        (each for each in chatting(memberships_of(user)) if tenant_id in (None, each.tenant_id)),
        None,
    )
    if membership is None:
        raise no_membership()
    return as_principal(membership)


def chatting(memberships: Iterable[Membership]) -> list[Membership]:
    """Those that let their person ask for answers."""
    return [each for each in memberships if role_allows(each.role, Action.ANSWER_ASK)]


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
            role__in=[role for role in Role if role_allows(role, Action.ANSWER_ASK)],
        ).values_list("user_id", "tenant_id")
        return {(str(user_id), tenant_id) for user_id, tenant_id in rows}


def as_principal(membership: Membership) -> Principal:
    """Whom a membership, loaded with its tenant, lets its user act as."""
    return Principal(
        membership.tenant_id,
        "user",
        str(membership.user_id),
        high_water_tokens=membership.tenant.read_ahead_tokens,
        weight=membership.tenant.weight,
        default_priority=cast(PriorityClass, membership.tenant.default_priority),
        highest_priority=cast(PriorityClass, membership.tenant.highest_priority),
    )


def add_member(*, tenant: Tenant, user: User, role: str, actor: Actor, now: datetime) -> Membership:
    """Make a person a member. Called in the tenant's scope.

    Raises BadRequest `already_member` and PermissionDenied `role_not_yours`.
    """
    with transaction.atomic():
        _check_assigner(actor, tenant.pk, role)
        membership: Membership
        membership, created = Membership.objects.get_or_create(
            tenant=tenant, user=user, defaults={"role": role, "created_at": now}
        )
        if not created:
            raise BadRequest(
                gettext_noop("This person is a member already."), code="already_member"
            )
        _let_in(user, role)
        _record(AuditAction.MEMBER_ADD, membership, actor, now, after={"role": role})
    log.info("%s made %s of %s by %s", user.pk, role, tenant.pk, actor_name(actor))
    return membership


def change_role(
    *,
    membership: Membership,
    role: str,
    actor: Actor,
    now: datetime,
    check: Callable[[Membership], None] | None = None,
) -> None:
    """Give a member another role: in force with their next request, and with the next message of
    a socket that is open.

    check: is shown the membership as it is, while nobody else changes it, and raises if that isn't
        what the change was meant for

    Raises PermissionDenied `role_not_yours` and Conflict `last_owner`.
    """
    with transaction.atomic():
        row = _locked(membership)
        if check is not None:
            check(row)
        _check_assigner(actor, row.tenant_id, row.role, role)
        if role != Role.OWNER:
            _check_not_last_owner(row)
        before, row.role = row.role, role
        row.save(update_fields=["role"])
        _let_in(row.user, role)
        _record(
            AuditAction.MEMBER_CHANGE,
            row,
            actor,
            now,
            before={"role": before},
            after={"role": role},
        )
    membership.role = role
    log.info("%s made %s of %s by %s", row.user_id, role, row.tenant_id, actor_name(actor))


def remove_member(*, membership: Membership, actor: Actor, now: datetime) -> None:
    """End a membership; the person and their other tenants stay.

    Raises PermissionDenied `role_not_yours` and Conflict `last_owner`.
    """
    with transaction.atomic():
        row = _locked(membership)
        _check_assigner(actor, row.tenant_id, row.role)
        _check_not_last_owner(row)
        row.delete()
        _record(AuditAction.MEMBER_REMOVE, row, actor, now, before={"role": row.role})
    log.info("%s removed from %s by %s", row.user_id, row.tenant_id, actor_name(actor))


def _record(
    action: AuditAction,
    membership: Membership,
    actor: Actor,
    now: datetime,
    *,
    before: dict[str, str] | None = None,
    after: dict[str, str] | None = None,
) -> None:
    """Told of the person, not of the row: that one is gone once they leave."""
    record(
        action,
        actor=actor,
        now=now,
        tenant_id=membership.tenant_id,
        target=Target("member", str(membership.user_id)),
        before=before,
        after=after,
    )


def _locked(membership: Membership) -> Membership:
    """The row as it is, while no other role of its tenant changes: two owners who demote each other
    at once would leave none.
    """
    # Not FOR UPDATE: that would wait for, and stop, every request that refers to the tenant.
    Tenant.objects.select_for_update(no_key=True).get(pk=membership.tenant_id)
    row: Membership = Membership.objects.select_related("user").get(pk=membership.pk)
    return row


def _check_not_last_owner(row: Membership) -> None:
    if row.role != Role.OWNER:
        return
    others = Membership.objects.filter(
        tenant_id=row.tenant_id, role=Role.OWNER, user__is_active=True
    ).exclude(pk=row.pk)
    if not others.exists():
        raise Conflict(
            gettext_noop("A tenant needs an owner: make somebody else one first."),
            code="last_owner",
        )


def _check_assigner(actor: Actor, tenant_id: str, *roles: str) -> None:
    standing = standing_of(actor)
    if not all(may_assign(standing, role, tenant_id) for role in roles):
        raise PermissionDenied(
            gettext_noop("Your role does not let you give or take this one."), code="role_not_yours"
        )


def _let_in(user: User, role: str) -> None:
    """The admin site opens to staff alone; what they see there their roles decide."""
    if opens_console(role) and not user.is_staff:
        user.is_staff = True
        user.save(update_fields=["is_staff"])
