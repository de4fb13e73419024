"""What every resource of the management API is made of."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone, translation
from django_filters import FilterSet
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import preconditions, problems
from console.api.authentication import KeyAuthentication, SessionAuthentication, caller_of
from console.api.caller import Caller
from console.api.fields import Shape
from console.api.pagination import Pages
from console.api.parsing import StrictJSONParser
from console.api.problems import Invalid
from kernel.errors import NotFound

WELL_FORMED = re.compile(r"[0-9A-Za-z_]{1,32}")


class Resource(GenericAPIView[Any]):
    """ordering: of its list: one column, and unique. Where several rows are at one place, DRF
        counts on from it, and rows that come meanwhile would repeat others.

    throttle_classes is the place for a limit on requests: what it refuses is 429 `rate_limited`.
    """

    authentication_classes = (KeyAuthentication, SessionAuthentication)
    permission_classes = ()
    throttle_classes = ()
    parser_classes = (StrictJSONParser,)
    renderer_classes: tuple[type[JSONRenderer], ...] = (JSONRenderer,)
    metadata_class = None
    pagination_class = Pages
    filter_backends = ()
    ordering: tuple[str, ...] = ()
    caller: Caller

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # Programs read codes; the words beside them are in one language.
        with translation.override("en"):
            response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        response.headers["Cache-Control"] = "no-store"
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # Read before the parser does, which leaves nothing of it to look at.
        _ = request._request.body  # noqa: SLF001 - documented by DRF
        self.caller = caller_of(request)
        super().initial(request, *args, **kwargs)

    def get_exception_handler(self) -> Any:
        return problems.handle

    def listed(
        self, rows: QuerySet[Any], shape: type[Shape], filters: type[FilterSet] | None = None
    ) -> Response:
        """A page of the rows that the query asks for."""
        if filters is not None:
            rows = self.narrowed(rows, filters)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(shape(page, many=True, context=_context()).data)

    def narrowed(self, rows: QuerySet[Any], filters: type[FilterSet]) -> QuerySet[Any]:
        """The rows that the query asks for. Raises Invalid."""
        asked = filters(self.request.query_params, queryset=rows)
        if not asked.is_valid():
            faults = [
                {"pointer": name, "detail": str(text)}
                for name, texts in asked.errors.items()
                for text in texts
            ]
            raise Invalid("A parameter is not valid.", faults)
        found: QuerySet[Any] = asked.qs
        return found


def shown(row: Any, shape: type[Shape], *, status: int = 200, **extra: Any) -> Response:
    """One object, with its ETag. extra: fields that aren't the row's"""
    data = represented(row, shape)
    headers = {"ETag": preconditions.etag_of(data)}
    return Response(data | extra, status=status, headers=headers)


def represented(row: Any, shape: type[Shape]) -> dict[str, Any]:
    return dict(shape(row, context=_context()).data)


def found(rows: QuerySet[Any], **wanted: Any) -> Any:
    """The row in sight, by what its address says. Raises NotFound, for others' as for what isn't
    there, and for what no database should be asked.
    """
    if not all(WELL_FORMED.fullmatch(text) for text in wanted.values()):
        raise no_such_thing()
    row: Model | None = rows.filter(**wanted).first()
    if row is None:
        raise no_such_thing()
    return row


def person_id(text: str) -> str:
    """Raises NotFound for what is no person's id."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise no_such_thing()
    return text


def no_such_thing() -> NotFound:
    return NotFound("There is no such thing.")


def _context() -> dict[str, Any]:
    return {"now": timezone.now()}
