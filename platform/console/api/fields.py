"""Serializers' fields without DRF's leniency: a number in quotes is no number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers

INTEGER_MAX = 2_147_483_647
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")


class Shape(serializers.Serializer[Any]):
    """An object as it travels. Fields that it doesn't have are refused.

    example: for the description
    """

    example: ClassVar[Mapping[str, Any]] = {}

    def to_internal_value(self, data: Any) -> Any:
        known = {name for name, field in self.fields.items() if not field.read_only}
        if isinstance(data, Mapping) and (unknown := set(data) - known):
            raise serializers.ValidationError(
                {name: ["Unknown field."] for name in sorted(unknown)}
            )
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """min_length: 1 unless said otherwise"""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, "min_length": 1} | kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_value": INTEGER_MAX} | kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class Decimal(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Choice(serializers.ChoiceField):
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)


class Moment(serializers.DateTimeField):
    def to_internal_value(self, value: Any) -> Any:
        """As RFC 3339 writes it, with its zone."""
        if not isinstance(value, str) or not RFC_3339.fullmatch(value):
            self.fail("invalid", format="YYYY-MM-DDThh:mm:ss[.uuuuuu]Z")
        return super().to_internal_value(value)
