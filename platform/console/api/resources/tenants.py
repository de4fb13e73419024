from __future__ import annotations

from typing import Any

from django.utils import timezone
from django_filters import CharFilter, FilterSet
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import preconditions
from console.api.caller import no_tenant
from console.api.filters import FlagFilter
from console.api.operations import operation
from console.api.resource import Resource, represented, shown
from console.api.shapes.tenant import (
    LimitsChangeShape,
    LimitsShape,
    NewTenantShape,
    SuspensionShape,
    TenantChangeShape,
    TenantShape,
)
from tenants.audit_actions import AuditAction
from tenants.models import Tenant
from tenants.permissions import Action
from tenants.services import suspension, tenants


class TenantFilters(FilterSet):  # type: ignore[misc] # no types
    slug = CharFilter(label="Exactly.", max_length=50)
    is_active = FlagFilter(label="Not suspended, or suspended.")


class Tenants(Resource):
    tags = ["Tenants"]
    ordering = ("slug",)

    @operation(
        "listTenants",
        "The tenants that the caller may see",
        needs=None,
        answer=TenantShape(many=True),
        filters=TenantFilters,
    )
    def get(self, request: Request) -> Response:
        rows = Tenant.objects.all()
        if not self.caller.may(Action.TENANT_VIEW, None):
            seen = [
                each
                for each in self.caller.standing.tenants
                if self.caller.may(Action.TENANT_VIEW, each)
            ]
            rows = rows.filter(pk__in=seen)
        return self.listed(rows, TenantShape, TenantFilters)

    @operation(
        "createTenant",
        "Create a tenant",
        needs=Action.TENANT_MANAGE,
        body=NewTenantShape,
        answer=TenantShape,
        status=201,
        tells=AuditAction.TENANT_CREATE,
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        tenant = tenants.create_tenant(fields=body, actor=self.caller.actor, now=timezone.now())
        response = shown(tenant, TenantShape, status=201)
        response["Location"] = f"{request.path}/{tenant.pk}"
        return response


class OneTenant(Resource):
    tags = ["Tenants"]

    @operation("getTenant", "A tenant", needs=Action.TENANT_VIEW, answer=TenantShape)
    def get(self, request: Request, tenant_id: str) -> Response:
        return shown(_tenant(tenant_id), TenantShape)

    @operation(
        "changeTenant",
        "Change a tenant's name or slug",
        needs=Action.TENANT_MANAGE,
        body=TenantChangeShape,
        answer=TenantShape,
        tells=AuditAction.TENANT_CHANGE,
        if_match=True,
        errors=(412,),
    )
    def patch(self, request: Request, tenant_id: str, body: dict[str, Any]) -> Response:
        tenant = tenants.change_tenant(
            tenant_id=tenant_id,
            changes=body,
            actor=self.caller.actor,
            now=timezone.now(),
            check=lambda row: preconditions.check(request, represented(row, TenantShape)),
        )
        return shown(tenant, TenantShape)


class Suspend(Resource):
    tags = ["Tenants"]

    @operation(
        "suspendTenant",
        "Suspend a tenant",
        needs=Action.TENANT_SUSPEND,
        body=SuspensionShape,
        answer=TenantShape,
        tells=AuditAction.TENANT_SUSPEND,
        about="Its people and keys are refused, what they have open ends within a second; its data"
        " stays. One that is suspended already: 409.",
    )
    def post(self, request: Request, tenant_id: str, body: dict[str, Any]) -> Response:
        tenant = _tenant(tenant_id)
        suspension.suspend(
            tenant=tenant, reason=body["reason"], actor=self.caller.actor, now=timezone.now()
        )
        return shown(tenant, TenantShape)


class Resume(Resource):
    tags = ["Tenants"]

    @operation(
        "resumeTenant",
        "End a tenant's suspension",
        needs=Action.TENANT_SUSPEND,
        answer=TenantShape,
        tells=AuditAction.TENANT_RESUME,
        about="One that is not suspended: 409.",
    )
    def post(self, request: Request, tenant_id: str) -> Response:
        tenant = _tenant(tenant_id)
        suspension.resume(tenant=tenant, actor=self.caller.actor, now=timezone.now())
        return shown(tenant, TenantShape)


class Limits(Resource):
    tags = ["Limits"]

    @operation("getLimits", "A tenant's limits", needs=Action.LIMIT_VIEW, answer=LimitsShape)
    def get(self, request: Request, tenant_id: str) -> Response:
        return shown(_tenant(tenant_id), LimitsShape)

    @operation(
        "changeLimits",
        "Change a tenant's limits",
        needs=Action.LIMIT_MANAGE,
        body=LimitsChangeShape,
        answer=LimitsShape,
        tells=AuditAction.TENANT_CHANGE,
        if_match=True,
        errors=(412, 428),
        about="In force within a second. `If-Match` is required: of two who change them at once,"
        " the second is told (412), and overwrites nothing.",
    )
    def patch(self, request: Request, tenant_id: str, body: dict[str, Any]) -> Response:
        tenant = tenants.change_tenant(
            tenant_id=tenant_id,
            changes=body,
            actor=self.caller.actor,
            now=timezone.now(),
            check=lambda row: preconditions.check(
                request, represented(row, LimitsShape), required=True
            ),
        )
        return shown(tenant, LimitsShape)


def _tenant(tenant_id: str) -> Tenant:
    tenant = Tenant.objects.filter(pk=tenant_id).first()
    if tenant is None:
        raise no_tenant()
    return tenant
