"""A tenant's applications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_noop

from kernel.errors import Conflict
from tenants.audit_actions import AuditAction
from tenants.models import ApiKey, ServiceAccount
from tenants.principal import Actor
from tenants.services.rows import Listed, delete_row, save_row

EDITED = ("name", "is_active")
LISTED = Listed(
    AuditAction.SERVICE_ACCOUNT_CREATE,
    AuditAction.SERVICE_ACCOUNT_CHANGE,
    AuditAction.SERVICE_ACCOUNT_DELETE,
    EDITED,
)


def create_account(*, tenant_id: str, name: str, actor: Actor, now: datetime) -> ServiceAccount:
    """Called in the tenant's scope. Raises Conflict `name_taken`."""
    account = ServiceAccount(tenant_id=tenant_id, name=name, created_at=now)
    _save(account, actor=actor, now=now)
    return account


def change_account(
    *,
    account: ServiceAccount,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    check: Callable[[ServiceAccount], None] | None = None,
) -> ServiceAccount:
    """Rename an application, or switch it off or on: its keys are refused within `KEY_CACHE_S`.

    check: as of `tenants.change_tenant`

    Called in the tenant's scope. Raises Conflict `name_taken`.
    """
    with transaction.atomic():
        row: ServiceAccount = ServiceAccount.objects.select_for_update().get(pk=account.pk)
        if check is not None:
            check(row)
        for name, value in changes.items():
            setattr(row, name, value)
        _save(row, actor=actor, now=now)
    return row


def delete_account(*, account: ServiceAccount, actor: Actor, now: datetime) -> None:
    """Delete an application that never had a key. Raises Conflict `has_keys`: what keys did stays
    answerable, switch it off instead.
    """
    with transaction.atomic():
        if ApiKey.objects.filter(service_account=account).exists():
            raise Conflict(
                gettext_noop("This service account has had keys: switch it off instead."),
                code="has_keys",
            )
        delete_row(account, listed=LISTED, actor=actor, now=now)


def _save(account: ServiceAccount, *, actor: Actor, now: datetime) -> None:
    try:
        with transaction.atomic():
            save_row(account, listed=LISTED, actor=actor, now=now)
    except IntegrityError as error:
        others = ServiceAccount.objects.filter(name=account.name).exclude(pk=account.pk)
        if others.exists():
            raise Conflict(
                gettext_noop("Another service account has this name."),
                code="name_taken",
                param="name",
            ) from error
        raise
