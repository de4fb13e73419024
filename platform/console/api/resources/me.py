from __future__ import annotations

from typing import cast

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.operations import operation
from console.api.resource import Resource
from console.api.shapes.people import MeShape
from tenants import scope
from tenants.models import ServiceAccount, Tenant
from tenants.principal import Principal


class Me(Resource):
    tags = ["Who asks"]

    @operation("getMe", "Who asks, and what they are", needs=None, answer=MeShape)
    def get(self, request: Request) -> Response:
        standing = self.caller.standing
        places = Tenant.objects.filter(pk__in=standing.tenants).order_by("slug")
        roles = [(each, standing.tenants[each.pk]) for each in places]
        told = {
            **_named(self.caller.actor),
            "platform_roles": sorted(standing.platform),
            "tenants": [
                {"id": each.pk, "slug": each.slug, "name": each.name, "role": role}
                for each, role in roles
            ],
        }
        return Response(MeShape(told).data)


def _named(actor: object) -> dict[str, object]:
    if isinstance(actor, Principal):
        with scope.tenant(actor.tenant_id):
            account = ServiceAccount.objects.get(pk=actor.id)
        return {
            "kind": "service_account",
            "id": account.pk,
            "name": account.name,
            "key_id": actor.key_id,
            "scopes": sorted(actor.scopes),
        }
    user = cast(User, actor)
    name = user.get_username()
    return {"kind": "user", "id": str(user.pk), "name": name, "key_id": None, "scopes": []}
