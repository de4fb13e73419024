from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.pages import TenantAdmin
from tenants.models import ApiKey, ServiceAccount
from tenants.permissions import Action
from tenants.services.service_accounts import LISTED


@admin.register(ServiceAccount)
class ServiceAccountPages(TenantAdmin):
    """An account that has had keys is switched off, not deleted: its keys' records stay."""

    sees, manages = Action.SERVICE_ACCOUNT_VIEW, Action.SERVICE_ACCOUNT_MANAGE
    listed = LISTED
    can_add = can_change = can_delete = True
    list_display = ("name", "is_active", "key_count", "created_at")
    list_filter = ("is_active",)
    search_fields = ("name",)
    fields = ("name", "is_active")
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ServiceAccount]:
        keys = (
            ApiKey.objects.filter(service_account_id=OuterRef("pk"), revoked_at=None)
            .order_by()
            .values("service_account_id")
            .annotate(count=Count("pk"))
            .values("count")
        )
        rows: QuerySet[ServiceAccount] = super().get_queryset(request)
        return rows.annotate(keys=Coalesce(Subquery(keys), 0))

    @display(description=_("keys not revoked"), ordering="keys")  # type: ignore[untyped-decorator]
    def key_count(self, obj: Any) -> int:
        return int(obj.keys)
