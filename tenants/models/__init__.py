"""Tenancy's state, one file a concept. Its verbs are in `tenants.services`."""

from tenants.models.api_key import ApiKey
from tenants.models.audit_record import (
    ActorType,
    AppendOnly,
    AuditHead,
    AuditOutcome,
    AuditRecord,
    Decision,
)
from tenants.models.idempotency_key import IdempotencyKey
from tenants.models.key_scope import KeyScopeChoice
from tenants.models.membership import Membership, Role
from tenants.models.platform_grant import PlatformGrant, PlatformRole
from tenants.models.priority import Priority
from tenants.models.service_account import ServiceAccount
from tenants.models.tenant import Tenant
from tenants.models.tenant_settings import TenantSettings

__all__ = [
    "ActorType",
    "ApiKey",
    "AppendOnly",
    "AuditHead",
    "AuditOutcome",
    "AuditRecord",
    "Decision",
    "IdempotencyKey",
    "KeyScopeChoice",
    "Membership",
    "PlatformGrant",
    "PlatformRole",
    "Priority",
    "Role",
    "ServiceAccount",
    "Tenant",
    "TenantSettings",
]
