from __future__ import annotations

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.utils import timezone
from django_filters import CharFilter, ChoiceFilter, FilterSet
from drf_spectacular.types import OpenApiTypes
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.filters import MomentFilter
from console.api.operations import operation
from console.api.resource import Resource
from console.api.shapes.records import AuditRecordShape
from console.audit_export import JSON_LINES, download
from kernel.database import writing
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import AuditOutcome, AuditRecord
from tenants.permissions import Action
from tenants.services.audit import record


class AuditFilters(FilterSet):  # type: ignore[misc] # no types
    action = ChoiceFilter(choices=AuditAction.choices, label="What was done.")
    actor_id = CharFilter(label="Who did it: a person's or a service account's id.", max_length=32)
    object_type = CharFilter(label="A kind of thing, as `apikey` or `member`.", max_length=64)
    object_id = CharFilter(label="To what it was done.", max_length=128)
    request_id = CharFilter(label="By which request.", max_length=64)
    outcome = ChoiceFilter(choices=AuditOutcome.choices, label="How it ended.")
    since = MomentFilter(field_name="at", lookup_expr="gte", label="Not before.")
    until = MomentFilter(field_name="at", lookup_expr="lt", label="Before.")


class JSONLinesRenderer(JSONRenderer):
    """For its name: what is asked for by it is a file, and renders itself."""

    media_type = JSON_LINES.content_type
    format = "jsonl"


class AuditLog(Resource):
    tags = ["Audit"]
    ordering = ("-seq",)

    @operation(
        "listAuditRecords",
        "What was done in a tenant, the latest first",
        needs=Action.AUDIT_VIEW,
        answer=AuditRecordShape(many=True),
        filters=AuditFilters,
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        return self.listed(_records(), AuditRecordShape, AuditFilters)


class PlatformAuditLog(Resource):
    tags = ["Audit"]
    ordering = ("-seq",)

    @operation(
        "listPlatformAuditRecords",
        "What was done anywhere, the latest first",
        needs=Action.AUDIT_VIEW,
        answer=AuditRecordShape(many=True),
        filters=AuditFilters,
    )
    def get(self, request: Request) -> Response:
        return self.listed(_records(), AuditRecordShape, AuditFilters)


class AuditExport(Resource):
    tags = ["Audit"]
    renderer_classes = (JSONLinesRenderer, JSONRenderer)

    @operation(
        "exportAuditRecords",
        "A tenant's audit log as JSON lines, the oldest first",
        needs=Action.AUDIT_EXPORT,
        answer=OpenApiTypes.STR,
        filters=AuditFilters,
        media_type=JSON_LINES.content_type,
        about="Leaves a record of itself. Streamed, however long it is.",
    )
    def get(self, request: Request, tenant_id: str) -> HttpResponseBase:
        rows = self.narrowed(_records(), AuditFilters)
        now = timezone.now()
        with writing():
            told = record(
                AuditAction.AUDIT_EXPORT,
                actor=self.caller.actor,
                now=now,
                tenant_id=scope.current().tenant_id,
                after={"format": JSON_LINES.suffix, "filters": request.GET.urlencode()},
            )
        return download(rows, JSON_LINES, last_seq=told.seq, now=now)


def _records() -> QuerySet[AuditRecord]:
    return AuditRecord.objects.all()
