"""Records of what was refused, written once its transaction is rolled back."""

from __future__ import annotations

from datetime import datetime

from kernel.database import writing
from kernel.errors import Conflict, PermissionDenied, PlatformError
from tenants.audit_actions import AuditAction
from tenants.models import AuditOutcome, Decision
from tenants.principal import Actor
from tenants.services.audit import Target, record

# By a rule about who or what; a slip of the pen, such as a name that is taken, is no decision.
DECISIONS = (PermissionDenied, Conflict)


def record_refusal(
    action: AuditAction | None,
    error: PlatformError,
    *,
    actor: Actor,
    now: datetime,
    tenant_id: str | None,
    target: Target,
) -> None:
    if action is None or not isinstance(error, DECISIONS):
        return
    with writing():
        record(
            action,
            actor=actor,
            now=now,
            tenant_id=tenant_id,
            target=target,
            decision=Decision.DENIED,
            reason=error.code,
            outcome=AuditOutcome.REFUSED,
        )
