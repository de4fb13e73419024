"""Platform roles: given and withdrawn by operators."""

from __future__ import annotations

import logging
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import BadRequest, Conflict, PermissionDenied
from tenants.audit_actions import AuditAction
from tenants.models import PlatformGrant, PlatformRole
from tenants.permissions import Action, allowed
from tenants.principal import Actor, actor_name
from tenants.services.audit import Target, record
from tenants.services.standing import standing_of

log = logging.getLogger(__name__)


def grant_role(*, user: User, role: str, actor: Actor, now: datetime) -> PlatformGrant:
    """Give a person a platform role, and let them into the admin.

    Raises BadRequest `already_granted` and PermissionDenied `role_not_yours`.
    """
    with transaction.atomic():
        _check_grantor(actor)
        grant, created = PlatformGrant.objects.get_or_create(
            user=user, role=role, defaults={"created_at": now}
        )
        if not created:
            raise BadRequest(
                gettext_noop("This person has this role already."), code="already_granted"
            )
        if not user.is_staff:
            user.is_staff = True
            user.save(update_fields=["is_staff"])
        record(
            AuditAction.PLATFORM_ROLE_GRANT,
            actor=actor,
            now=now,
            tenant_id=None,
            target=user,
            after={"role": role},
        )
    log.info("%s made %s of the platform by %s", user.pk, role, actor_name(actor))
    return grant


def withdraw_role(*, grant: PlatformGrant, actor: Actor, now: datetime) -> None:
    """Take a platform role away: gone with the person's next request.

    Raises PermissionDenied `role_not_yours` and Conflict `last_operator`.
    """
    user_id, role = grant.user_id, grant.role
    with transaction.atomic():
        # One after the other: two operators who withdraw each other's role would leave none.
        operators = list(
            PlatformGrant.objects.select_for_update()
            .filter(role=PlatformRole.OPERATOR)
            .order_by("pk")
        )
        _check_grantor(actor)
        if role == PlatformRole.OPERATOR and not _others(operators, grant):
            raise Conflict(
                gettext_noop("The platform needs an operator: make somebody else one first."),
                code="last_operator",
            )
        grant.delete()
        record(
            AuditAction.PLATFORM_ROLE_WITHDRAW,
            actor=actor,
            now=now,
            tenant_id=None,
            target=Target("user", str(user_id)),
            before={"role": role},
        )
    log.info("%s is no longer %s of the platform, by %s", user_id, role, actor_name(actor))


def _others(operators: list[PlatformGrant], grant: PlatformGrant) -> bool:
    ids = {each.user_id for each in operators if each.pk != grant.pk}
    active = User.objects.filter(is_active=True)
    return active.filter(pk__in=ids).exists() or active.filter(is_superuser=True).exists()


def _check_grantor(actor: Actor) -> None:
    if not allowed(standing_of(actor), Action.PLATFORM_ROLE_MANAGE, None):
        raise PermissionDenied(
            gettext_noop("Your role does not let you give or take this one."), code="role_not_yours"
        )
