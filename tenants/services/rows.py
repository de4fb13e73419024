"""Writing rows that have no verbs of their own: each with a record of what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Model

from tenants.audit_actions import AuditAction
from tenants.models import Tenant
from tenants.models.scoped import ScopedModel
from tenants.principal import Actor
from tenants.services.audit import fields_of, record, target_of


@dataclass(frozen=True, slots=True)
class Listed:
    """How the log tells of a model's rows.

    fields: what it may hold of them, a foreign key as `<field>_id`; nothing else ever
    """

    create: AuditAction | None
    change: AuditAction | None
    delete: AuditAction | None
    fields: tuple[str, ...] = ()


def save_row(row: Model, *, listed: Listed, actor: Actor, now: datetime) -> None:
    """Create or change a row. What changes nothing that is listed leaves no record."""
    with transaction.atomic():
        rows = type(row)._default_manager.select_for_update()  # noqa: SLF001 - Django's documented name
        old = rows.filter(pk=row.pk).first() if row.pk is not None else None
        before = fields_of(old, listed.fields) if old is not None else None
        row.save()
        after = fields_of(row, listed.fields)
        action = listed.create if before is None else listed.change
        if action is not None and before != after:
            record(
                action,
                actor=actor,
                now=now,
                tenant_id=tenant_id_of(row),
                target=row,
                before=before,
                after=after,
            )


def delete_row(row: Model, *, listed: Listed, actor: Actor, now: datetime) -> None:
    """Delete a row; the record keeps what was listed of it."""
    with transaction.atomic():
        target, tenant_id, before = target_of(row), tenant_id_of(row), fields_of(row, listed.fields)
        row.delete()
        if listed.delete is not None:
            record(
                listed.delete,
                actor=actor,
                now=now,
                tenant_id=tenant_id,
                target=target,
                before=before,
            )


def tenant_id_of(row: Model) -> str | None:
    """Whom a row concerns; None for the platform's own."""
    if isinstance(row, Tenant):
        return row.pk
    return row.tenant_id if isinstance(row, ScopedModel) else None
