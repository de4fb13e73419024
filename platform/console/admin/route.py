from __future__ import annotations

from django.contrib import admin

from console.pages import PlatformAdmin
from inference.models import Route
from tenants.permissions import Action


@admin.register(Route)
class RoutePages(PlatformAdmin):
    sees, manages = Action.ROUTE_VIEW, Action.ROUTE_MANAGE
    list_display = ("name", "release", "is_active", "created_at")
    list_filter = ("is_active",)
    list_select_related = ("release",)
    search_fields = ("name", "release__name")
    fields = ("name", "release", "is_active", "detached", "replays")
