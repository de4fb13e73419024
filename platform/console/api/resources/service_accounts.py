from __future__ import annotations

from typing import Any, cast

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import CharFilter, FilterSet
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import preconditions
from console.api.filters import FlagFilter
from console.api.operations import operation
from console.api.resource import Resource, found, represented, shown
from console.api.shapes.keys import (
    NewServiceAccountShape,
    ServiceAccountChangeShape,
    ServiceAccountShape,
)
from tenants.audit_actions import AuditAction
from tenants.models import ServiceAccount
from tenants.permissions import Action
from tenants.services import service_accounts


class ServiceAccountFilters(FilterSet):  # type: ignore[misc] # no types
    name = CharFilter(label="Exactly.", max_length=100)
    is_active = FlagFilter(label="Switched on, or off.")


class ServiceAccounts(Resource):
    tags = ["Service accounts"]
    ordering = ("pk",)

    @operation(
        "listServiceAccounts",
        "A tenant's applications",
        needs=Action.SERVICE_ACCOUNT_VIEW,
        answer=ServiceAccountShape(many=True),
        filters=ServiceAccountFilters,
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        return self.listed(_accounts(tenant_id), ServiceAccountShape, ServiceAccountFilters)

    @operation(
        "createServiceAccount",
        "Create an application",
        needs=Action.SERVICE_ACCOUNT_MANAGE,
        body=NewServiceAccountShape,
        answer=ServiceAccountShape,
        status=201,
        tells=AuditAction.SERVICE_ACCOUNT_CREATE,
    )
    def post(self, request: Request, tenant_id: str, body: dict[str, Any]) -> Response:
        account = service_accounts.create_account(
            tenant_id=tenant_id, name=body["name"], actor=self.caller.actor, now=timezone.now()
        )
        response = shown(account, ServiceAccountShape, status=201)
        response["Location"] = f"{request.path}/{account.pk}"
        return response


class OneServiceAccount(Resource):
    tags = ["Service accounts"]

    @operation(
        "getServiceAccount",
        "An application",
        needs=Action.SERVICE_ACCOUNT_VIEW,
        answer=ServiceAccountShape,
    )
    def get(self, request: Request, tenant_id: str, account_id: str) -> Response:
        return shown(_account(tenant_id, account_id), ServiceAccountShape)

    @operation(
        "changeServiceAccount",
        "Rename an application, or switch it off or on",
        needs=Action.SERVICE_ACCOUNT_MANAGE,
        body=ServiceAccountChangeShape,
        answer=ServiceAccountShape,
        tells=AuditAction.SERVICE_ACCOUNT_CHANGE,
        if_match=True,
        errors=(412,),
        about="Switched off, its keys are refused within a second, and what is open by them ends.",
    )
    def patch(
        self, request: Request, tenant_id: str, account_id: str, body: dict[str, Any]
    ) -> Response:
        account = service_accounts.change_account(
            account=_account(tenant_id, account_id),
            changes=body,
            actor=self.caller.actor,
            now=timezone.now(),
            check=lambda row: preconditions.check(request, represented(row, ServiceAccountShape)),
        )
        return shown(account, ServiceAccountShape)

    @operation(
        "deleteServiceAccount",
        "Delete an application that never had a key",
        needs=Action.SERVICE_ACCOUNT_MANAGE,
        answer=None,
        status=204,
        tells=AuditAction.SERVICE_ACCOUNT_DELETE,
        about="One that has had keys is switched off instead (409 `has_keys`).",
    )
    def delete(self, request: Request, tenant_id: str, account_id: str) -> Response:
        service_accounts.delete_account(
            account=_account(tenant_id, account_id), actor=self.caller.actor, now=timezone.now()
        )
        return Response(status=204)


def _accounts(tenant_id: str) -> QuerySet[ServiceAccount]:
    rows: QuerySet[ServiceAccount] = ServiceAccount.objects.filter(tenant_id=tenant_id)
    return rows


def _account(tenant_id: str, account_id: str) -> ServiceAccount:
    return cast(ServiceAccount, found(_accounts(tenant_id), pk=account_id))
