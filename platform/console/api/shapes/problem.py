from __future__ import annotations

from rest_framework import serializers

from console.api.fields import Shape, Text, Whole


class FaultShape(Shape):
    pointer = serializers.CharField(
        help_text="JSON pointer into the body, or the name of a parameter or header."
    )
    detail = serializers.CharField()


class ProblemShape(Shape):
    """Problem details (RFC 9457)."""

    example = {
        "type": "urn:nehir:problem:not_found",
        "title": "Not Found",
        "status": 404,
        "detail": "There is no such thing.",
        "code": "not_found",
        "request_id": "req_01kb8w3v9m2xq4s5t6v7w8x9y0",
    }

    type = serializers.CharField(help_text="`urn:nehir:problem:` and the code.")
    title = serializers.CharField(help_text="Of the status.")
    status = Whole()
    detail = serializers.CharField(help_text="For people.")
    code = Text(help_text="For programs; docs/api.md lists them.")
    request_id = serializers.CharField(help_text="Names the request in logs.")
    errors = FaultShape(  # type: ignore[assignment] # a field, taken out by the metaclass
        many=True, required=False, help_text="Where the request is at fault."
    )
