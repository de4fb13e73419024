from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.pages import TenantAdmin
from streaming.models import Conversation
from tenants.permissions import Action


@admin.register(Conversation)
class ConversationPages(TenantAdmin):
    """That people talk, never what about: titles and messages are their owner's alone."""

    sees = Action.CONVERSATION_VIEW
    list_display = ("id", "username", "message_count", "created_at", "updated_at")
    list_select_related = ("user",)
    search_fields = ("id", "user__username")
    show_full_result_count = False
    ordering = ("-updated_at",)
    fields = ("id", "username", "message_count", "created_at", "updated_at")
    readonly_fields = ("username", "message_count")
    private_fields = ("title",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        rows: QuerySet[Conversation] = super().get_queryset(request)
        return rows.annotate(message_total=Count("messages"))

    @display(description=_("person"), ordering="user__username")  # type: ignore[untyped-decorator]
    def username(self, obj: Any) -> str:
        return str(obj.user.get_username())

    @display(description=_("messages"), ordering="message_total")  # type: ignore[untyped-decorator]
    def message_count(self, obj: Any) -> int:
        return int(obj.message_total)
