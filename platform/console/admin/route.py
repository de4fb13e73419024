from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from console.pages import PlatformAdmin
from inference.models import Route
from tenants.audit_actions import AuditAction
from tenants.permissions import Action
from tenants.priority import CLASSES
from tenants.services.rows import Listed


@admin.register(Route)
class RoutePages(PlatformAdmin):
    sees, manages = Action.ROUTE_VIEW, Action.ROUTE_MANAGE
    listed = Listed(
        AuditAction.ROUTE_CREATE,
        AuditAction.ROUTE_CHANGE,
        AuditAction.ROUTE_DELETE,
        ("name", "release_id", "is_active", "detached", "replays"),
    )
    list_display = ("name", "release", "is_active", "created_at")
    list_filter = ("is_active",)
    list_select_related = ("release",)
    search_fields = ("name", "release__name")
    fieldsets = (
        (None, {"fields": ("name", "release", "is_active", "detached", "replays")}),
        (
            _("Latency objective"),
            {"fields": tuple(f"itl_p95_{each}_ms" for each in CLASSES)},
        ),
    )
