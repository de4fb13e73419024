from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.suspension import Suspends
from tenants.models import Membership, Tenant
from tenants.permissions import Action
from tenants.services.tenants import EDITED, LISTED


@admin.register(Tenant)
class TenantPages(Suspends):
    sees, manages = Action.TENANT_VIEW, Action.TENANT_MANAGE
    listed = LISTED
    list_display = ("name", "slug", "is_active", "member_count", "created_at")
    list_filter = ("is_active",)
    search_fields = ("name", "slug")
    fields = (*EDITED, "is_active", "suspension_reason", "created_at")
    readonly_fields = ("is_active", "suspension_reason", "created_at")
    actions_detail = ("suspend_one", "resume_one")
    prepopulated_fields = {"slug": ("name",)}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        members = (
            Membership.objects.filter(tenant_id=OuterRef("pk"))
            .order_by()
            .values("tenant_id")
            .annotate(count=Count("pk"))
            .values("count")
        )
        rows: QuerySet[Tenant] = super().get_queryset(request)
        return rows.annotate(members=Coalesce(Subquery(members), 0))

    @display(description=_("members"), ordering="members")  # type: ignore[untyped-decorator]
    def member_count(self, obj: Any) -> int:
        return int(obj.members)
