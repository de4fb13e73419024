"""Suspending a tenant: its people and keys are refused, what they have is kept.

Requests learn of it as of every right that ends (`known_keys`, `streaming.open_sessions`): open
streams and sockets end within a second, in every process.
"""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import BadRequest, Conflict, PermissionDenied
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import Membership, Tenant
from tenants.permissions import Action, allowed
from tenants.principal import Actor, Visitor, actor_name
from tenants.services.audit import record
from tenants.services.standing import standing_of

log = logging.getLogger(__name__)

REASON_LENGTH = 200


def suspend(*, tenant: Tenant, reason: str, actor: Actor, now: datetime) -> None:
    """reason: one sentence, which the tenant's people read.

    Raises PermissionDenied, BadRequest without a reason, and Conflict `already_suspended`.
    """
    reason = " ".join(reason.split())
    if not 0 < len(reason) <= REASON_LENGTH:
        raise BadRequest(gettext_noop("Give a reason of 1 to 200 characters."), param="reason")
    with transaction.atomic():
        row = _locked(tenant, actor)
        if not row.is_active:
            raise Conflict(
                gettext_noop("This tenant is suspended already."), code="already_suspended"
            )
        _set(row, is_active=False, reason=reason)
        record(
            AuditAction.TENANT_SUSPEND,
            actor=actor,
            now=now,
            tenant_id=row.pk,
            target=row,
            before={"is_active": True, "suspension_reason": ""},
            after={"is_active": False, "suspension_reason": reason},
        )
    tenant.is_active, tenant.suspension_reason = False, reason
    log.info("Tenant %s suspended by %s", tenant.pk, actor_name(actor))


def resume(*, tenant: Tenant, actor: Actor, now: datetime) -> None:
    """Let a tenant's people and keys in again.

    Raises PermissionDenied, and Conflict `not_suspended`.
    """
    with transaction.atomic():
        row = _locked(tenant, actor)
        if row.is_active:
            raise Conflict(gettext_noop("This tenant is not suspended."), code="not_suspended")
        before = row.suspension_reason
        _set(row, is_active=True, reason="")
        record(
            AuditAction.TENANT_RESUME,
            actor=actor,
            now=now,
            tenant_id=row.pk,
            target=row,
            before={"is_active": False, "suspension_reason": before},
            after={"is_active": True, "suspension_reason": ""},
        )
    tenant.is_active, tenant.suspension_reason = True, ""
    log.info("Tenant %s resumed by %s", tenant.pk, actor_name(actor))


def suspended_tenants_of(user: Visitor) -> list[Tenant]:
    """The suspended tenants that a person belongs to, to tell them why they get nowhere. One
    query; none for anonymous visitors and people who were switched off.
    """
    if user.pk is None or not user.is_active:
        return []
    with scope.whole_platform():
        rows = (
            Membership.objects.filter(user_id=user.pk, tenant__is_active=False)
            .select_related("tenant")
            .order_by("created_at", "pk")
        )
        return [each.tenant for each in rows]


def _locked(tenant: Tenant, actor: Actor) -> Tenant:
    if not allowed(standing_of(actor), Action.TENANT_SUSPEND, tenant.pk):
        raise PermissionDenied(
            gettext_noop("Only the platform's operators suspend and resume tenants.")
        )
    row: Tenant = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    return row


def _set(row: Tenant, *, is_active: bool, reason: str) -> None:
    row.is_active, row.suspension_reason = is_active, reason
    row.save(update_fields=["is_active", "suspension_reason"])
