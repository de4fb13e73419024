from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.pages import PlatformAdmin
from inference.models import MaintenanceRun
from tenants.permissions import Action

KINDS = {
    "checkpoints": _("checkpoints"),
    "replay_keys": _("replay keys"),
    "idempotency_keys": _("idempotency keys"),
    "logs": _("logs"),
}


@admin.register(MaintenanceRun)
class MaintenanceRunPages(PlatformAdmin):
    """That housekeeping happens, and what it found; `manage.py clean_up` runs it by hand."""

    sees = Action.MAINTENANCE_VIEW
    can_add = can_change = can_delete = False
    list_display = ("started_at", "name", "outcome", "took", "dealt_with", "error")
    list_filter = ("name",)
    search_fields = ("error",)
    ordering = ("-started_at",)
    fields = ("name", "started_at", "finished_at", "outcome", "dealt_with", "error")
    readonly_fields = ("outcome", "dealt_with")

    @display(  # type: ignore[untyped-decorator]
        description=_("outcome"),
        label={"done": "success", "failed": "danger", "unfinished": "warning"},
    )
    def outcome(self, obj: Any) -> tuple[str, str]:
        if obj.finished_at is None:
            return "unfinished", gettext("Not finished")
        return ("failed", gettext("Failed")) if obj.error else ("done", gettext("Done"))

    @display(description=_("took"))  # type: ignore[untyped-decorator]
    def took(self, obj: Any) -> str:
        if obj.finished_at is None:
            return "–"
        seconds = (obj.finished_at - obj.started_at).total_seconds()
        return gettext("%(seconds).1f s") % {"seconds": seconds}

    @display(description=_("dealt with"))  # type: ignore[untyped-decorator]
    def dealt_with(self, obj: Any) -> str:
        # PostgreSQL keeps no order of keys.
        counts = sorted(obj.counts.items())
        return ", ".join(f"{KINDS.get(kind, kind)}: {count}" for kind, count in counts)
