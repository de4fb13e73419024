from __future__ import annotations

from django.contrib import admin

from console.pages import OperatorAdmin
from inference.models import Release


@admin.register(Release)
class ReleasePages(OperatorAdmin):
    list_display = ("name", "engine", "model_path", "context_tokens", "created_at")
    list_filter = ("engine",)
    search_fields = ("name", "model_path")
    fields = ("name", "engine", "model_path", "engine_arguments", "context_tokens", "created_at")
    readonly_fields = ("created_at",)
    ordering = ("name",)
