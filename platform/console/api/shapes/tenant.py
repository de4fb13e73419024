from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.api.fields import Choice, Decimal, Flag, Shape, Text, Whole
from tenants.models import Priority
from tenants.models.tenant import LEAST_WEIGHT, MOST_WEIGHT


class Slug(serializers.RegexField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(r"^[-a-zA-Z0-9_]+\Z", **{"min_length": 1, "max_length": 50} | kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class TenantShape(Shape):
    example = {
        "id": "ten_01kb8w3v9m2xq4s5t6v7w8x9y0",
        "slug": "acme",
        "name": "Acme and sons",
        "is_active": True,
        "suspension_reason": "",
        "created_at": "2030-01-01T12:00:00Z",
    }

    id = serializers.CharField()
    slug = serializers.CharField()
    name = serializers.CharField()
    is_active = Flag(help_text="Its people and keys are refused if not.")
    suspension_reason = serializers.CharField(help_text="Empty unless it is suspended.")
    created_at = serializers.DateTimeField()


class LimitsShape(Shape):
    example = {
        "high_water_tokens": None,
        "weight": 1.0,
        "default_priority": "standard",
        "highest_priority": "interactive",
    }

    high_water_tokens = Whole(
        min_value=1,
        allow_null=True,
        help_text="How far an answer may be ahead of its reader; null: the platform's default.",
    )
    weight = Decimal(
        min_value=LEAST_WEIGHT,
        max_value=MOST_WEIGHT,
        help_text="How large its fair share is beside that of a tenant with weight 1.",
    )
    default_priority = Choice(
        choices=Priority.values, help_text="Of requests through the API that ask for none."
    )
    highest_priority = Choice(
        choices=Priority.values, help_text="That its people and keys may use."
    )


class NewTenantShape(Shape):
    example = {"slug": "acme", "name": "Acme and sons", "weight": 2.0}

    slug = Slug()
    name = Text(max_length=200)
    high_water_tokens = Whole(min_value=1, allow_null=True, required=False)
    weight = Decimal(min_value=LEAST_WEIGHT, max_value=MOST_WEIGHT, required=False)
    default_priority = Choice(choices=Priority.values, required=False)
    highest_priority = Choice(choices=Priority.values, required=False)


class TenantChangeShape(Shape):
    example = {"name": "Acme and daughters"}

    slug = Slug(required=False)
    name = Text(max_length=200, required=False)


class SuspensionShape(Shape):
    example = {"reason": "The contract has ended. Ask the service desk."}

    reason = Text(max_length=200, help_text="One sentence, which the tenant's people read.")


class LimitsChangeShape(Shape):
    example = {"weight": 2.0}

    high_water_tokens = Whole(min_value=1, allow_null=True, required=False)
    weight = Decimal(min_value=LEAST_WEIGHT, max_value=MOST_WEIGHT, required=False)
    default_priority = Choice(choices=Priority.values, required=False)
    highest_priority = Choice(choices=Priority.values, required=False)
