"""How operations and shapes are told in OpenAPI."""

from __future__ import annotations

from typing import Any

from django_filters import FilterSet
from django_filters.filters import ChoiceFilter
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from console.api.fields import Shape
from console.api.filters import FlagFilter, MomentFilter


class Description(AutoSchema):
    """Components are named as the shapes, without the word."""

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        return type(serializer).__name__.removesuffix("Shape")

    def get_tags(self) -> list[str]:
        tags: list[str] = getattr(self.view, "tags", [])
        return tags


def filter_parameters(filters: type[FilterSet]) -> list[OpenApiParameter]:
    return [
        OpenApiParameter(name, _schema(each), description=str(each.label or ""))
        for name, each in filters.base_filters.items()
    ]


def _schema(each: Any) -> Any:
    if isinstance(each, FlagFilter):
        return OpenApiTypes.BOOL
    if isinstance(each, MomentFilter):
        return OpenApiTypes.DATETIME
    if isinstance(each, ChoiceFilter):
        return {"type": "string", "enum": [value for value, _ in each.extra["choices"]]}
    return {"type": "string", "minLength": 1, "maxLength": each.extra.get("max_length", 200)}


def only_ours(endpoints: list[Any]) -> list[Any]:
    """Hook of drf-spectacular: other views of DRF there may be are not of this API."""
    return [each for each in endpoints if each[0].startswith("/api/v1/")]


def finish(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Hook of drf-spectacular: what shapes say beside their fields, and what requests refuse."""
    shapes = {each.__name__.removesuffix("Shape"): each for each in _all(Shape)}
    asked = _asked_for(result)
    for name, component in result["components"].get("schemas", {}).items():
        shape = shapes.get(name)
        if shape is not None and shape.example:
            component["examples"] = [shape.example]
        if name in asked:
            component["additionalProperties"] = False
    result["components"]["schemas"] = dict(sorted(result["components"]["schemas"].items()))
    return result


def _asked_for(result: dict[str, Any]) -> set[str]:
    """Names of the components that requests are made of."""
    found = set()
    for operations in result["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                found.add(media["schema"].get("$ref", "").rpartition("/")[2])
    return found


def _all(base: type[Shape]) -> list[type[Shape]]:
    return [each for sub in base.__subclasses__() for each in (sub, *_all(sub))]
