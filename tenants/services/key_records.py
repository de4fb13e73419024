"""What the audit log tells of an API key: never its secret, nor the digest of it."""

from __future__ import annotations

from datetime import datetime

from tenants.audit_actions import AuditAction
from tenants.models import ApiKey
from tenants.principal import Actor
from tenants.services.audit import fields_of, record

ISSUED = ("name", "service_account_id", "expires_at", "highest_priority")


def key_record(action: AuditAction, key: ApiKey, *, actor: Actor, now: datetime) -> None:
    """Called in the transaction of what was done to the key."""
    issued = action == AuditAction.KEY_ISSUE
    record(
        action,
        actor=actor,
        now=now,
        tenant_id=key.tenant_id,
        target=key,
        before=None if issued else {"revoked": False},
        after=fields_of(key, ISSUED) if issued else {"revoked": True},
    )
