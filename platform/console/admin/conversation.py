from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from console.pages import TenantAdmin
from streaming.models import Conversation, Message
from tenants.permissions import Action


@admin.register(Conversation)
class ConversationPages(TenantAdmin):
    """That people talk, never what about: titles and messages are their owner's alone."""

    sees = Action.CONVERSATION_VIEW
    list_display = ("id", "username", "message_count", "created_at", "updated_at")
    list_select_related = ("user",)
    search_fields = ("id__exact", "user__username__exact")
    search_help_text = _("The exact id of a conversation, or a person's username.")
    sortable_by = ()
    paginator = InfinitePaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = None
    ordering = ("-updated_at",)
    fields = ("id", "username", "message_count", "created_at", "updated_at")
    readonly_fields = ("username", "message_count")
    private_fields = ("title",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        rows: QuerySet[Conversation] = super().get_queryset(request)
        # Counted for the rows that are shown; a join would group all there are.
        messages = Message.objects.filter(conversation=OuterRef("pk")).order_by()
        total = messages.values("conversation").annotate(total=Count("pk")).values("total")
        return rows.annotate(message_total=Coalesce(Subquery(total), 0))

    @display(description=_("person"), ordering="user__username")  # type: ignore[untyped-decorator]
    def username(self, obj: Any) -> str:
        return str(obj.user.get_username())

    @display(description=_("messages"), ordering="message_total")  # type: ignore[untyped-decorator]
    def message_count(self, obj: Any) -> int:
        return int(obj.message_total)
