"""Tenants, as operators keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_noop

from kernel.errors import Conflict
from tenants.audit_actions import AuditAction
from tenants.models import Tenant
from tenants.principal import Actor
from tenants.services.rows import Listed, save_row

LIMITS = ("high_water_tokens", "weight", "default_priority", "highest_priority")
# What operators set, and what the audit log tells of it.
EDITED = ("name", "slug", *LIMITS, "requires_mfa")
LISTED = Listed(
    AuditAction.TENANT_CREATE, AuditAction.TENANT_CHANGE, AuditAction.TENANT_DELETE, EDITED
)
Check = Callable[[Tenant], None]


def create_tenant(*, fields: Mapping[str, Any], actor: Actor, now: datetime) -> Tenant:
    """fields: of `EDITED`, valid by themselves. Raises Conflict `slug_taken`."""
    tenant = Tenant(created_at=now, **fields)
    _save(tenant, actor=actor, now=now)
    return tenant


def change_tenant(
    *,
    tenant_id: str,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    check: Check | None = None,
) -> Tenant:
    """Set fields of `EDITED`: in force within `KEY_CACHE_S`.

    check: is shown the tenant as it is, while nobody else changes it, and raises if that isn't
    what the change was meant for

    Raises Conflict `slug_taken`.
    """
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=tenant_id)
        if check is not None:
            check(tenant)
        for name, value in changes.items():
            setattr(tenant, name, value)
        _save(tenant, actor=actor, now=now)
    return tenant


def _save(tenant: Tenant, *, actor: Actor, now: datetime) -> None:
    try:
        with transaction.atomic():
            save_row(tenant, listed=LISTED, actor=actor, now=now)
    except IntegrityError as error:
        if Tenant.objects.filter(slug=tenant.slug).exclude(pk=tenant.pk).exists():
            raise Conflict(
                gettext_noop("Another tenant has this slug."), code="slug_taken", param="slug"
            ) from error
        raise
