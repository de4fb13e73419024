from __future__ import annotations

from django.contrib import admin

from console.pages import TenantAdmin
from inference.models import ReplayKey
from tenants.permissions import Action


@admin.register(ReplayKey)
class ReplayKeyPages(TenantAdmin):
    """Which generation answers a request that comes again, and for how long."""

    sees = Action.REPLAY_KEY_VIEW
    list_display = ("generation_id", "principal", "expires_at")
    search_fields = ("generation_id", "principal")
    show_full_result_count = False
    ordering = ("-expires_at",)
    fields = ("generation_id", "principal", "expires_at")
    private_fields = ("key_digest", "body_digest")
