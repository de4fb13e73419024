"""Pages of lists: a cursor, no count. Stable: what is added or removed meanwhile neither repeats
nor hides anything else.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from django.core import signing
from django.http import QueryDict
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.problems import Invalid

PAGE, LARGEST_PAGE = 50, 200
CURSOR_LENGTH = 500


class Pages(CursorPagination):
    """The cursor is signed, and good for its list alone: nobody makes up a position that the
    database would stumble over.
    """

    page_size = PAGE
    max_page_size = LARGEST_PAGE
    page_size_query_param = "limit"
    cursor_query_param = "cursor"

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any] | None:
        """Raises Invalid for a cursor that isn't of this list, and for a limit out of range."""
        self._path = request.path
        found: list[Any] | None = super().paginate_queryset(queryset, request, view)
        return found

    def get_page_size(self, request: Request) -> int:
        text = request.query_params.get("limit", str(PAGE))
        if not re.fullmatch(r"[1-9][0-9]{0,2}", text) or int(text) > LARGEST_PAGE:
            raise _wrong("limit", f"A whole number from 1 to {LARGEST_PAGE}.")
        return int(text)

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> tuple[str, ...]:
        ordering: tuple[str, ...] = view.ordering
        return ordering

    def decode_cursor(self, request: Request) -> Cursor | None:
        text = request.query_params.get("cursor")
        if text is None:
            return None
        try:
            offset, position = signing.loads(text[:CURSOR_LENGTH], salt=self._salt())
        except signing.BadSignature as error:
            raise _wrong("cursor", "No cursor of this list.") from error
        return Cursor(offset=offset, reverse=False, position=position)

    def encode_cursor(self, cursor: Cursor) -> str:
        return signing.dumps((cursor.offset, cursor.position), salt=self._salt())

    def _salt(self) -> str:
        return f"console.api:{self._path}"

    def get_paginated_response(self, data: Any) -> Response:
        cursor = self.get_next_link()
        response = Response({"data": data, "next_cursor": cursor})
        if cursor is not None:
            asked: QueryDict = self.request.GET.copy()  # type: ignore[attr-defined]
            query = {**asked.dict(), "cursor": cursor}
            response["Link"] = f'<{self._path}?{urlencode(query)}>; rel="next"'
        return response

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        cursor = {
            "type": ["string", "null"],
            "description": "`cursor` of the next page; null on the last.",
        }
        return {
            "type": "object",
            "required": ["data", "next_cursor"],
            "properties": {"data": schema, "next_cursor": cursor},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE}
        return [
            _parameter("cursor", "`next_cursor` of the page before.", {"type": "string"}),
            _parameter("limit", "How many a page has at most.", limit),
        ]


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": schema,
    }


def _wrong(name: str, detail: str) -> Invalid:
    return Invalid("A parameter is not valid.", [{"pointer": name, "detail": detail}])
