from __future__ import annotations

from django.contrib import admin

from console.pages import OperatorAdmin
from inference.models import Route


@admin.register(Route)
class RoutePages(OperatorAdmin):
    list_display = ("name", "release", "is_active", "created_at")
    list_filter = ("is_active",)
    list_select_related = ("release",)
    search_fields = ("name", "release__name")
    fields = ("name", "release", "is_active", "detached", "replays")
