"""The admin's pages, one file a model. Importing this registers them all."""

from console.admin import (
    api_key,
    audit_record,
    checkpoint,
    conversation,
    generation,
    maintenance_run,
    membership,
    platform_grant,
    release,
    replay_key,
    route,
    service_account,
    tenant,
    tenant_settings,
    user,
)

__all__ = [
    "api_key",
    "audit_record",
    "checkpoint",
    "conversation",
    "generation",
    "maintenance_run",
    "membership",
    "platform_grant",
    "release",
    "replay_key",
    "route",
    "service_account",
    "tenant",
    "tenant_settings",
    "user",
]
