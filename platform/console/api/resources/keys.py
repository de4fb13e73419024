from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from django_filters import CharFilter, ChoiceFilter, FilterSet
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import preconditions
from console.api.operations import operation
from console.api.resource import Resource, found, represented, shown
from console.api.shapes.keys import (
    STATUSES,
    IssuedKeyShape,
    KeyChangeShape,
    KeyShape,
    NewKeyShape,
    RotateKeyShape,
)
from kernel.errors import BadRequest, NotFound
from tenants.audit_actions import AuditAction
from tenants.models import ApiKey, ServiceAccount
from tenants.permissions import Action
from tenants.services import keys
from tenants.services.keys import KeyRights

# Names here, and the columns' own.
RIGHTS = {
    "scopes": "scopes",
    "models": "model_names",
    "networks": "networks",
    "highest_priority": "highest_priority",
}


class KeyFilters(FilterSet):  # type: ignore[misc] # no types
    status = ChoiceFilter(
        choices=[(each, each) for each in STATUSES], method="with_status", label="As of now."
    )
    service_account_id = CharFilter(label="Whose keys.", max_length=32)
    created_by = CharFilter(label="As `user:7`.", max_length=64)

    def with_status(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        expired = Q(expires_at__lte=timezone.now())
        if value == "revoked":
            return rows.exclude(revoked_at=None)
        rows = rows.filter(revoked_at=None)
        return rows.filter(expired) if value == "expired" else rows.exclude(expired)


class Keys(Resource):
    tags = ["API keys"]
    ordering = ("pk",)

    @operation(
        "listKeys",
        "A tenant's API keys",
        needs=Action.KEY_VIEW,
        answer=KeyShape(many=True),
        filters=KeyFilters,
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        return self.listed(_keys(tenant_id), KeyShape, KeyFilters)

    @sensitive_variables()
    @operation(
        "issueKey",
        "Issue an API key",
        needs=Action.KEY_MANAGE,
        body=NewKeyShape,
        answer=IssuedKeyShape,
        status=201,
        tells=AuditAction.KEY_ISSUE,
        about="The answer has the key itself in `secret`, this once. Keys issue none with the scope"
        " `admin`: people do.",
    )
    def post(self, request: Request, tenant_id: str, body: dict[str, Any]) -> Response:
        key, secret = keys.issue_key(
            service_account=_account(tenant_id, body["service_account_id"]),
            name=body["name"],
            expires_at=body.get("expires_at"),
            rights=KeyRights(**_rights(body)),
            actor=self.caller.actor,
            now=timezone.now(),
        )
        response = shown(key, KeyShape, status=201, secret=secret)
        response["Location"] = f"{request.path}/{key.pk}"
        return response


class OneKey(Resource):
    tags = ["API keys"]

    @operation("getKey", "An API key", needs=Action.KEY_VIEW, answer=KeyShape)
    def get(self, request: Request, tenant_id: str, key_id: str) -> Response:
        return shown(_key(tenant_id, key_id), KeyShape)

    @operation(
        "changeKey",
        "Change an API key's name or rights",
        needs=Action.KEY_MANAGE,
        body=KeyChangeShape,
        answer=KeyShape,
        tells=AuditAction.KEY_CHANGE,
        if_match=True,
        errors=(412,),
        about="In force within a second, for what is open as well. Fields left out stay.",
    )
    def patch(
        self, request: Request, tenant_id: str, key_id: str, body: dict[str, Any]
    ) -> Response:
        key = keys.change_key(
            key=_key(tenant_id, key_id),
            name=body.get("name"),
            changes=_rights(body),
            actor=self.caller.actor,
            now=timezone.now(),
            check=lambda row: preconditions.check(request, represented(row, KeyShape)),
        )
        return shown(key, KeyShape)


class RotateKey(Resource):
    tags = ["API keys"]

    @sensitive_variables()
    @operation(
        "rotateKey",
        "Issue a key in place of another",
        needs=Action.KEY_MANAGE,
        body=RotateKeyShape,
        answer=IssuedKeyShape,
        status=201,
        tells=AuditAction.KEY_ROTATE,
        about="With the same rights and length of life. The old one works for the overlap longer.",
    )
    def post(self, request: Request, tenant_id: str, key_id: str, body: dict[str, Any]) -> Response:
        overlap_h = body.get("overlap_h")
        new, secret = keys.rotate_key(
            key=_key(tenant_id, key_id),
            overlap=None if overlap_h is None else timedelta(hours=overlap_h),
            actor=self.caller.actor,
            now=timezone.now(),
        )
        return shown(new, KeyShape, status=201, secret=secret)


class RevokeKey(Resource):
    tags = ["API keys"]

    @operation(
        "revokeKey",
        "Revoke an API key",
        needs=Action.KEY_MANAGE,
        answer=KeyShape,
        tells=AuditAction.KEY_REVOKE,
        about="For good. Within a second it is refused and what is open by it ends. Done already,"
        " nothing happens.",
    )
    def post(self, request: Request, tenant_id: str, key_id: str) -> Response:
        key = _key(tenant_id, key_id)
        keys.revoke_key(key=key, actor=self.caller.actor, now=timezone.now())
        return shown(key, KeyShape)


def _rights(body: dict[str, Any]) -> dict[str, Any]:
    return {column: body[name] for name, column in RIGHTS.items() if name in body}


def _keys(tenant_id: str) -> QuerySet[ApiKey]:
    rows: QuerySet[ApiKey] = ApiKey.objects.filter(tenant_id=tenant_id)
    return rows


def _key(tenant_id: str, key_id: str) -> ApiKey:
    return cast(ApiKey, found(_keys(tenant_id), pk=key_id))


def _account(tenant_id: str, account_id: str) -> ServiceAccount:
    """Named in a body: that there is none is the body's fault."""
    try:
        rows = ServiceAccount.objects.filter(tenant_id=tenant_id)
        return cast(ServiceAccount, found(rows, pk=account_id))
    except NotFound as error:
        raise BadRequest(
            "There is no such service account.", code="not_found", param="service_account_id"
        ) from error
