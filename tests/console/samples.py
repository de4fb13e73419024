"""A row of every model that the admin shows, for the probe that looks across tenants.

A new ModelAdmin needs an entry in SAMPLES, or the probe fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model

from inference.models import (
    Checkpoint,
    Generation,
    MaintenanceRun,
    Release,
    ReplayKey,
    Route,
)
from streaming.models import Conversation, Message
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import (
    ApiKey,
    AuditRecord,
    Membership,
    PlatformGrant,
    PlatformRole,
    ServiceAccount,
    Tenant,
    TenantSettings,
)
from tenants.services.audit import record
from tests.tenants.worlds import NOW, World


@dataclass(frozen=True, slots=True)
class Sample:
    """find: the world's row; post: form data that changes or adds such a row."""

    find: Callable[[World], Model]
    post: dict[str, Any]
    operators_only: bool = False


def furnish(world: World) -> None:
    """Give a world rows of the upper packages' models too, each marked with the tenant's name."""
    mark = world.tenant.slug
    release = Release.objects.create(name=f"{mark}-release", engine="fake", context_tokens=64)
    PlatformGrant.objects.create(user=world.member, role=PlatformRole.APPROVER)
    # A model's public name is everybody's to know, so it names no tenant.
    route = Route.objects.create(name=f"model {Route.objects.count()}", release=release)
    MaintenanceRun.objects.create(name=f"{mark}-round", started_at=NOW)
    with transaction.atomic():
        record(
            AuditAction.SERVICE_ACCOUNT_CHANGE,
            actor=world.owner,
            now=NOW,
            tenant_id=world.tenant.pk,
            target=world.account,
            after={"name": f"{mark}-robot"},
            reason=f"{mark}-reason",
        )
    with scope.tenant(world.tenant.pk):
        Checkpoint.objects.create(
            tenant=world.tenant,
            generation_id=f"gen_{mark}_kept",
            request=f"{mark} secret prompt".encode(),
            seq=1,
            size_bytes=20,
            created_at=NOW,
            expires_at=NOW,
        )
        ReplayKey.objects.create(
            tenant=world.tenant,
            principal=f"{mark}-principal",
            key_digest=f"{mark}-key-digest",
            body_digest=f"{mark}-body-digest",
            generation_id=f"gen_{mark}_kept",
            expires_at=NOW,
        )
        Generation.objects.create(
            tenant=world.tenant,
            principal=f"{mark}-principal",
            route=route,
            release=release,
            prompt_tokens=1,
            created_at=NOW,
        )
        talk = Conversation.objects.create(
            tenant=world.tenant, user=world.member, title=f"{mark} secret plan"
        )
        Message.objects.create(
            tenant=world.tenant, conversation=talk, author="user", text=f"{mark} secret word"
        )


def first(model: Any) -> Callable[[World], Model]:
    def find(world: World) -> Model:
        with scope.tenant(world.tenant.pk):
            return model.objects.order_by("pk").first()  # type: ignore[no-any-return]

    return find


SAMPLES: dict[type[Model], Sample] = {
    ApiKey: Sample(
        lambda world: world.key,
        {"name": "taken", "scopes": ["chat"], "highest_priority": "standard"},
    ),
    AuditRecord: Sample(first(AuditRecord), {"action": "taken", "actor_id": "taken"}),
    Checkpoint: Sample(first(Checkpoint), {"seq": "9", "expires_at_0": "2040-01-01"}),
    Conversation: Sample(first(Conversation), {"title": "taken"}),
    Generation: Sample(first(Generation), {"principal": "taken", "output_tokens": "9"}),
    MaintenanceRun: Sample(
        lambda world: MaintenanceRun.objects.get(name=f"{world.tenant.slug}-round"),
        {"name": "taken", "error": "taken"},
        operators_only=True,
    ),
    Membership: Sample(first(Membership), {"role": "billing"}),
    PlatformGrant: Sample(
        lambda world: PlatformGrant.objects.get(user=world.member),
        {"username": "acme-admin", "role": "operator"},
        operators_only=True,
    ),
    ReplayKey: Sample(first(ReplayKey), {"principal": "taken", "key_digest": "taken"}),
    ServiceAccount: Sample(lambda world: world.account, {"name": "taken", "is_active": "on"}),
    Tenant: Sample(
        lambda world: world.tenant, {"name": "taken", "slug": "taken"}, operators_only=True
    ),
    TenantSettings: Sample(
        lambda world: TenantSettings.objects.get(pk=world.tenant.pk),
        {"default_priority": "batch", "own_high_water_tokens": "7"},
    ),
    User: Sample(
        lambda world: world.member,
        {"username": "taken", "is_superuser": "on", "password1": "x", "password2": "x"},
        operators_only=True,
    ),
    Release: Sample(
        lambda world: Release.objects.get(name=f"{world.tenant.slug}-release"),
        {"name": "taken", "engine": "fake", "context_tokens": "64", "engine_arguments": "{}"},
        operators_only=True,
    ),
    Route: Sample(
        lambda world: Route.objects.get(release__name=f"{world.tenant.slug}-release"),
        {"name": "taken"},
        operators_only=True,
    ),
}
