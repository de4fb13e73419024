from __future__ import annotations

from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.fields import Choice, Flag, Moment, Shape, Text, Whole
from tenants.key_scopes import KEY_SCOPES
from tenants.models import ApiKey, Priority
from tenants.services.keys import LONGEST_OVERLAP, MOST_MODELS, MOST_NETWORKS, NAME_LENGTH

STATUSES = ["active", "expired", "revoked"]
LONGEST_OVERLAP_H = int(LONGEST_OVERLAP.total_seconds() // 3600)
EXAMPLE = {
    "id": "01kb8w3v9m2xq4s5t6v7w8x9",
    "prefix": "nhr_prod_01kb8w3v9m2xq4s5t6v7w8x9",
    "name": "nightly reports",
    "service_account_id": "sva_01kb8w3v9m2xq4s5t6v7w8x9y0",
    "status": "active",
    "scopes": ["chat"],
    "models": [],
    "networks": ["192.0.2.0/24"],
    "highest_priority": "standard",
    "created_at": "2030-01-01T12:00:00Z",
    "created_by": "user:7",
    "replaces": None,
    "last_used_at": None,
    "expires_at": None,
    "revoked_at": None,
}


class ServiceAccountShape(Shape):
    example = {
        "id": "sva_01kb8w3v9m2xq4s5t6v7w8x9y0",
        "name": "reports",
        "is_active": True,
        "created_at": "2030-01-01T12:00:00Z",
    }

    id = serializers.CharField()
    name = serializers.CharField()
    is_active = Flag(help_text="Its keys are refused if not.")
    created_at = serializers.DateTimeField()


class NewServiceAccountShape(Shape):
    example = {"name": "reports"}

    name = Text(max_length=100)


class ServiceAccountChangeShape(Shape):
    example = {"is_active": False}

    name = Text(max_length=100, required=False)
    is_active = Flag(required=False)


class KeyShape(Shape):
    example = EXAMPLE

    id = serializers.CharField(help_text="Public: it names the key, and opens nothing.")
    prefix = serializers.CharField(help_text="How the key begins.")
    name = serializers.CharField()
    service_account_id = serializers.CharField()
    status = serializers.SerializerMethodField()
    scopes = serializers.ListField(child=Choice(choices=KEY_SCOPES))
    models = serializers.ListField(child=serializers.CharField(), source="model_names")
    networks = serializers.ListField(child=serializers.CharField())
    highest_priority = Choice(choices=Priority.values)
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()
    replaces = serializers.SerializerMethodField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(Choice(choices=STATUSES))
    def get_status(self, key: ApiKey) -> str:
        now: datetime = self.context["now"]
        return key.status(now=now)

    def get_replaces(self, key: ApiKey) -> str | None:
        return key.replaces or None


class IssuedKeyShape(KeyShape):
    example = EXAMPLE | {"secret": "nhr_prod_01kb8w3v9m2xq4s5t6v7w8x9_…"}

    secret = serializers.CharField(
        allow_null=True,
        read_only=True,
        help_text="The key itself, this once. Null when an Idempotency-Key is answered again: it is"
        " kept nowhere. Who lost it revokes the key and issues another.",
    )


class Texts(serializers.ListField):
    """Of texts alone, each once or more; their order says nothing."""

    def __init__(self, *, item_length: int, **kwargs: Any) -> None:
        super().__init__(**{"child": Text(max_length=item_length)} | kwargs)


class RightsShape(Shape):
    scopes = serializers.ListField(
        child=Choice(choices=KEY_SCOPES), min_length=1, max_length=8, required=False
    )
    models = Texts(
        item_length=200,
        max_length=MOST_MODELS,
        required=False,
        help_text="Those that it may use, by name; empty: all.",
    )
    networks = Texts(
        item_length=50,
        max_length=MOST_NETWORKS,
        required=False,
        help_text="Where it may be used from, as 192.0.2.0/24; empty: anywhere.",
    )
    highest_priority = Choice(choices=Priority.values, required=False)


class NewKeyShape(RightsShape):
    example = {
        "service_account_id": "sva_01kb8w3v9m2xq4s5t6v7w8x9y0",
        "name": "nightly reports",
        "scopes": ["chat"],
        "networks": ["192.0.2.0/24"],
    }

    service_account_id = Text(max_length=32)
    name = Text(max_length=NAME_LENGTH)
    expires_at = Moment(required=False, allow_null=True, help_text="In the future; null: never.")


class KeyChangeShape(RightsShape):
    example = {"scopes": ["chat", "usage"]}

    name = Text(max_length=NAME_LENGTH, required=False)


class RotateKeyShape(Shape):
    example = {"overlap_h": 24}

    overlap_h = Whole(
        min_value=0,
        max_value=LONGEST_OVERLAP_H,
        required=False,
        help_text="Hours that the old key still works; left out: the platform's default.",
    )
