"""What a tenant sets for itself, within what the operator granted it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import BadRequest, PermissionDenied
from tenants.audit_actions import AuditAction
from tenants.models import Priority, Tenant
from tenants.permissions import Action, allowed
from tenants.principal import Actor
from tenants.priority import RANKS, PriorityClass
from tenants.services.audit import fields_of, record
from tenants.services.standing import standing_of

FIELDS = ("default_priority", "own_high_water_tokens")


@dataclass(frozen=True, slots=True)
class Wanted:
    """As `Tenant`'s fields of the same names say."""

    default_priority: str
    own_high_water_tokens: int | None


def granted_tokens(tenant: Tenant) -> int:
    """How far its answers may be ahead of their readers at most."""
    platforms: int = settings.HIGH_WATER_TOKENS
    granted = tenant.high_water_tokens
    return platforms if granted is None else min(granted, platforms)


def granted_priorities(tenant: Tenant) -> list[str]:
    """The priorities that its requests may have, the highest first."""
    highest = RANKS[cast(PriorityClass, tenant.highest_priority)]
    return [each for each in Priority.values if RANKS[cast(PriorityClass, each)] >= highest]


def check_within(tenant: Tenant, wanted: Wanted) -> None:
    """Raises BadRequest `above_granted`, with the field, for what the operator has not granted."""
    if wanted.default_priority not in granted_priorities(tenant):
        raise BadRequest(
            gettext_noop("The operator has not granted your organisation this priority."),
            code="above_granted",
            param="default_priority",
        )
    tokens = wanted.own_high_water_tokens
    if tokens is not None and not 1 <= tokens <= granted_tokens(tenant):
        raise BadRequest(
            gettext_noop("The read-ahead is at least 1 and at most what the operator granted."),
            code="above_granted",
            param="own_high_water_tokens",
        )


def configure(*, tenant: Tenant, wanted: Wanted, actor: Actor, now: datetime) -> None:
    """Set it; in force with the next request. Compared with what is granted by then.

    Raises BadRequest `above_granted` and PermissionDenied `not_allowed`.
    """
    with transaction.atomic():
        # Not FOR UPDATE: that would stop every request that refers to the tenant.
        row = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if not allowed(standing_of(actor), Action.SETTINGS_MANAGE, row.pk):
            raise PermissionDenied(
                gettext_noop("Your role does not let you change this."), code="not_allowed"
            )
        check_within(row, wanted)
        before = fields_of(row, FIELDS)
        for name in FIELDS:
            setattr(row, name, getattr(wanted, name))
        row.save(update_fields=FIELDS)
        after = fields_of(row, FIELDS)
        if before != after:
            record(
                AuditAction.TENANT_CHANGE,
                actor=actor,
                now=now,
                tenant_id=row.pk,
                target=row,
                before=before,
                after=after,
            )
