"""What the audit log tells of an API key: never its secret, nor the digest of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tenants.audit_actions import AuditAction
from tenants.models import ApiKey
from tenants.principal import Actor
from tenants.services.audit import fields_of, record

RIGHTS = ("highest_priority", "scopes", "model_names", "networks")
ISSUED = ("name", "service_account_id", "expires_at", "replaces", *RIGHTS)


def issued(key: ApiKey, *, actor: Actor, now: datetime) -> None:
    _tell(AuditAction.KEY_ISSUE, key, {}, fields_of(key, ISSUED), actor=actor, now=now)


def changeable(key: ApiKey) -> dict[str, Any]:
    """What may be changed of a key, as it is."""
    return fields_of(key, ("name", *RIGHTS))


def changed(key: ApiKey, before: dict[str, Any], *, actor: Actor, now: datetime) -> None:
    """before: `changeable` of the key as it was; what changes nothing leaves no record"""
    after = changeable(key)
    if after != before:
        _tell(AuditAction.KEY_CHANGE, key, before, after, actor=actor, now=now)


def rotated(
    key: ApiKey, new: ApiKey, until: datetime | None, *, actor: Actor, now: datetime
) -> None:
    """until: when it would have expired"""
    after = {"expires_at": key.expires_at, "replaced_by": new.pk}
    _tell(AuditAction.KEY_ROTATE, key, {"expires_at": until}, after, actor=actor, now=now)


def revoked(key: ApiKey, *, actor: Actor, now: datetime) -> None:
    _tell(AuditAction.KEY_REVOKE, key, {"revoked": False}, {"revoked": True}, actor=actor, now=now)


def _tell(
    action: AuditAction,
    key: ApiKey,
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    actor: Actor,
    now: datetime,
) -> None:
    """Called in the transaction of what was done to the key."""
    record(
        action,
        actor=actor,
        now=now,
        tenant_id=key.tenant_id,
        target=key,
        before=before,
        after=after,
    )
