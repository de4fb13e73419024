from __future__ import annotations

from django.contrib import admin

from console.pages import TenantAdmin
from inference.models import Checkpoint
from tenants.permissions import Action


@admin.register(Checkpoint)
class CheckpointPages(TenantAdmin):
    """That an answer is kept, how far it is and for how long; never what was asked or said."""

    sees = Action.CHECKPOINT_VIEW
    list_display = ("generation_id", "seq", "size_bytes", "created_at", "expires_at")
    search_fields = ("generation_id",)
    show_full_result_count = False
    ordering = ("-created_at",)
    fields = ("generation_id", "seq", "size_bytes", "created_at", "expires_at")
    private_fields = ("request",)
