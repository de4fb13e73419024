from __future__ import annotations

import re
from datetime import date, timedelta

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.operations import operation
from console.api.problems import Invalid
from console.api.resource import Resource
from console.api.shapes.records import UsageShape
from inference.services.daily_usage import by_day
from tenants.permissions import Action

USUAL_DAYS, MOST_DAYS = 30, 92
DAY = re.compile(r"\d{4}-\d\d-\d\d")


class Usage(Resource):
    tags = ["Usage"]

    @operation(
        "getUsage",
        "What a tenant used, by day",
        needs=Action.GENERATION_VIEW,
        answer=UsageShape,
        query=[
            OpenApiParameter(
                "first", OpenApiTypes.DATE, description=f"{USUAL_DAYS - 1} days before the last."
            ),
            OpenApiParameter(
                "last",
                OpenApiTypes.DATE,
                description=f"Today, in UTC. At most {MOST_DAYS} days in all.",
            ),
        ],
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        last = _day(request, "last") or timezone.now().date()
        first = _day(request, "first") or last - timedelta(days=USUAL_DAYS - 1)
        if not 0 <= (last - first).days < MOST_DAYS:
            raise _wrong("first", f"1 to {MOST_DAYS} days, the last not before the first.")
        days = by_day(first, last)
        return Response(UsageShape({"first": first, "last": last, "days": days}).data)


def _day(request: Request, name: str) -> date | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not DAY.fullmatch(text):
        raise _wrong(name, "A day, as 2030-01-31.")
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise _wrong(name, "There is no such day.") from error
    if not 1970 <= day.year < 9000:
        raise _wrong(name, "A day of these times.")
    return day


def _wrong(name: str, detail: str) -> Invalid:
    return Invalid("A parameter is not valid.", [{"pointer": name, "detail": detail}])
