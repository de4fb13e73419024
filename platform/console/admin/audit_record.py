from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.paginator import InfinitePaginator

from console.audit_export import CSV, JSON_LINES, Format, download
from console.pages import TenantAdmin
from console.scope import actor_of
from kernel.database import writing
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import ActorType, AuditOutcome, AuditRecord, Membership
from tenants.permissions import Action
from tenants.services.audit import record

PERIODS = {
    "hour": (timedelta(hours=1), _("the last hour")),
    "day": (timedelta(days=1), _("the last day")),
    "week": (timedelta(days=7), _("the last week")),
    "month": (timedelta(days=30), _("the last 30 days")),
}
ACTIONS = dict(AuditAction.choices)


class PeriodFilter(admin.SimpleListFilter):
    title = _("time")
    parameter_name = "period"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, label) for name, (_length, label) in PERIODS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        period = PERIODS.get(self.value() or "")
        return queryset.filter(at__gte=timezone.now() - period[0]) if period else queryset


class ActionFilter(admin.SimpleListFilter):
    """The words there are, not those in the table: looking for these would read all of it."""

    title = _("action")
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(AuditAction.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(action=self.value()) if self.value() else queryset


@admin.register(AuditRecord)
class AuditRecordPages(TenantAdmin):
    """Who did what. Nobody writes here, and no page counts the table."""

    sees = Action.AUDIT_VIEW
    list_display = ("moment", "actor", "action_label", "thing", "outcome_label", "ip")
    list_filter = (PeriodFilter, ActionFilter, "outcome", "actor_type")
    search_fields = ("actor_id__exact", "object_id__exact", "request_id__exact")
    search_help_text = _("A person's username, or the exact id of an actor, object or request.")
    ordering = ("-seq",)
    sortable_by = ()
    paginator = InfinitePaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = None
    actions_list = ("export_csv", "export_json_lines")
    fields = (
        *("seq", "moment", "actor_type", "actor", "session", "key_id", "auth_method", "mfa"),
        *("ip", "request_id", "action_label", "object_type", "object_id"),
        *("object_version", "object_digest", "before", "after"),
        *("decision", "reason", "outcome", "prev_hash", "hash"),
    )
    readonly_fields = ("moment", "actor", "action_label")

    @display(description=_("time"))  # type: ignore[untyped-decorator]
    def moment(self, obj: Any) -> str:
        # To the second, and as a log has it: the language's own way leaves both out.
        return f"{obj.at:%Y-%m-%d %H:%M:%S} UTC"

    @display(description=_("actor"))  # type: ignore[untyped-decorator]
    def actor(self, obj: Any) -> str:
        if obj.actor_type == ActorType.USER:
            names = obj.names if hasattr(obj, "names") else _names([obj.actor_id])
            return names.get(obj.actor_id) or f"user:{obj.actor_id}"
        name = str(ActorType(obj.actor_type).label)
        return f"{name}: {obj.actor_id}" if obj.actor_id else name

    @display(description=_("action"))  # type: ignore[untyped-decorator]
    def action_label(self, obj: Any) -> Any:
        return ACTIONS.get(obj.action, obj.action)

    @display(description=_("object"))  # type: ignore[untyped-decorator]
    def thing(self, obj: Any) -> str:
        return f"{obj.object_type} {obj.object_id}".strip() or "–"

    @display(  # type: ignore[untyped-decorator]
        description=_("outcome"),
        label={
            AuditOutcome.DONE: "success",
            AuditOutcome.REFUSED: "warning",
            AuditOutcome.FAILED: "danger",
        },
    )
    def outcome_label(self, obj: Any) -> tuple[str, str]:
        return obj.outcome, obj.get_outcome_display()

    @display(description=_("tenant"))  # type: ignore[untyped-decorator]
    def tenant_name(self, obj: Any) -> str:
        return str(obj.tenant or obj.tenant_id or "–")

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditRecord]:
        # Joined, a tenant that was deleted is none; asked for, it would be an error.
        rows: QuerySet[AuditRecord] = super().get_queryset(request)
        return rows.select_related("tenant")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        records = list(found.result_list)
        names = _names([each.actor_id for each in records])
        for each in records:
            each.names = names
        found.result_list = records
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, may_repeat = super().get_search_results(request, queryset, search_term)
        pk = _person_in_sight(search_term)
        if pk is not None:
            person = Q(actor_type=ActorType.USER, actor_id=pk)
            person |= Q(object_type__in=("user", "member"), object_id=pk)
            found = queryset.filter(person)
        return found, may_repeat

    # -- Export

    def has_export_permission(self, request: HttpRequest) -> bool:
        return self._may(request, Action.AUDIT_EXPORT)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = super().changelist_view(request, *args, **kwargs)
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            for each in response.context_data.get("actions_list", ()):
                # What is exported is what is listed.
                each["path"] = f"{each['path']}?{request.GET.urlencode()}"
        return response

    @action(description=_("Export as CSV"), url_path="export-csv", permissions=["export"])  # type: ignore[untyped-decorator]
    def export_csv(self, request: HttpRequest) -> HttpResponseBase:
        return self._export(request, CSV)

    @action(  # type: ignore[untyped-decorator]
        description=_("Export as JSON lines"), url_path="export-jsonl", permissions=["export"]
    )
    def export_json_lines(self, request: HttpRequest) -> HttpResponseBase:
        return self._export(request, JSON_LINES)

    def _export(self, request: HttpRequest, chosen: Format) -> HttpResponseBase:
        try:
            listed = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(reverse("admin:tenants_auditrecord_changelist"))
        now = timezone.now()
        with writing():
            told = record(
                AuditAction.AUDIT_EXPORT,
                actor=actor_of(request),
                now=now,
                tenant_id=scope.current().tenant_id,
                after={"format": chosen.suffix, "filters": request.GET.urlencode()},
            )
        return download(listed, chosen, last_seq=told.seq, now=now)


def _people_in_sight() -> QuerySet[User]:
    """In a tenant its members alone: an operator's name is not theirs to know."""
    if scope.current().tenant_id is None:
        return User.objects.all()
    return User.objects.filter(pk__in=Membership.objects.values("user_id"))


def _names(ids: list[str]) -> dict[str, str]:
    pks = [int(each) for each in ids if each.isdecimal()]
    found = _people_in_sight().filter(pk__in=pks).values_list("pk", "username")
    return {str(pk): name for pk, name in found}


def _person_in_sight(username: str) -> str | None:
    pk = _people_in_sight().filter(username=username).values_list("pk", flat=True).first()
    return None if pk is None else str(pk)
