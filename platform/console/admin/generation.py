from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from console.pages import TenantAdmin
from inference.models import Generation, State
from tenants.permissions import Action


@admin.register(Generation)
class GenerationPages(TenantAdmin):
    """What was asked of which model by whom, in tokens: a record, so nobody edits it."""

    sees = Action.GENERATION_VIEW
    list_display = (
        "id",
        "principal",
        "model_name",
        "state_label",
        "prompt_tokens",
        "output_tokens",
        "created_at",
    )
    list_filter = ("state",)
    list_select_related = ("route",)
    # Each by an index of its own: a text in the middle would be looked for in every row.
    search_fields = ("id__exact", "principal__exact", "key_id__exact")
    search_help_text = _("The exact id of a generation, principal or API key.")
    sortable_by = ()
    paginator = InfinitePaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = None
    ordering = ("-created_at",)
    fields = (
        "id",
        "principal",
        "key_id",
        "model_name",
        "state",
        "finish_reason",
        "error_code",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "created_at",
        "settled_at",
    )
    readonly_fields = ("model_name",)

    @display(description=_("model"), ordering="route__name")  # type: ignore[untyped-decorator]
    def model_name(self, obj: Any) -> str:
        return str(obj.route)

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        ordering="state",
        label={State.OPEN: "info", State.FINISHED: "success", State.FAILED: "danger"},
    )
    def state_label(self, obj: Any) -> tuple[str, str]:
        return obj.state, obj.get_state_display()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = super().get_fields(request, obj)
        return [*fields, "release"] if self._sees_all(request) else fields
