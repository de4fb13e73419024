from __future__ import annotations

from rest_framework import serializers

from console.api.fields import Choice, Flag, Shape, Text
from tenants.key_scopes import KEY_SCOPES
from tenants.models import PlatformRole, Role
from tenants.permissions import ADMIN_KEY


class PlaceShape(Shape):
    id = serializers.CharField()
    slug = serializers.CharField()
    name = serializers.CharField()
    role = Choice(choices=[*Role.values, ADMIN_KEY])


class MeShape(Shape):
    example = {
        "kind": "user",
        "id": "7",
        "name": "ada",
        "key_id": None,
        "scopes": [],
        "platform_roles": [],
        "tenants": [
            {
                "id": "ten_01kb8w3v9m2xq4s5t6v7w8x9y0",
                "slug": "acme",
                "name": "Acme and sons",
                "role": "owner",
            }
        ],
    }

    kind = Choice(choices=["user", "service_account"])
    id = serializers.CharField()
    name = serializers.CharField()
    key_id = serializers.CharField(allow_null=True, help_text="Of the API key that was sent.")
    scopes = serializers.ListField(child=Choice(choices=KEY_SCOPES), help_text="Of that key.")
    platform_roles = serializers.ListField(child=Choice(choices=PlatformRole.values))
    tenants = PlaceShape(many=True)


class MemberShape(Shape):
    example = {
        "id": "7",
        "username": "ada",
        "role": "member",
        "is_active": True,
        "joined_at": "2030-01-01T12:00:00Z",
    }

    id = serializers.CharField(source="user_id", help_text="The person's.")
    username = serializers.CharField(source="user.username")
    role = Choice(choices=Role.values)
    is_active = Flag(source="user.is_active", help_text="Whether they may sign in at all.")
    joined_at = serializers.DateTimeField(source="created_at")


class NewMemberShape(Shape):
    example = {"username": "ada", "role": "member"}

    username = Text(max_length=150, help_text="Exactly as the person signs in.")
    role = Choice(choices=Role.values)


class MemberChangeShape(Shape):
    example = {"role": "auditor"}

    role = Choice(choices=Role.values)


class PersonShape(Shape):
    example = {
        "id": "7",
        "username": "ada",
        "is_active": True,
        "created_at": "2030-01-01T12:00:00Z",
        "last_sign_in_at": None,
    }

    id = serializers.CharField(source="pk")
    username = serializers.CharField()
    is_active = Flag()
    created_at = serializers.DateTimeField(source="date_joined")
    last_sign_in_at = serializers.DateTimeField(source="last_login", allow_null=True)


class DeactivateShape(Shape):
    example = {"revoke_keys": True}

    revoke_keys = Flag(
        default=False, help_text="Also revoke the API keys that the person issued, in all tenants."
    )
