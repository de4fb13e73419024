from __future__ import annotations

from django.contrib import admin

from console.pages import PlatformAdmin
from inference.models import Release
from tenants.audit_actions import AuditAction
from tenants.permissions import Action
from tenants.services.rows import Listed


@admin.register(Release)
class ReleasePages(PlatformAdmin):
    sees, manages = Action.RELEASE_VIEW, Action.RELEASE_MANAGE
    listed = Listed(
        AuditAction.RELEASE_CREATE,
        AuditAction.RELEASE_CHANGE,
        AuditAction.RELEASE_DELETE,
        ("name", "engine", "model_path", "engine_arguments", "context_tokens"),
    )
    list_display = ("name", "engine", "model_path", "context_tokens", "created_at")
    list_filter = ("engine",)
    search_fields = ("name", "model_path")
    fields = ("name", "engine", "model_path", "engine_arguments", "context_tokens", "created_at")
    readonly_fields = ("created_at",)
    ordering = ("name",)
