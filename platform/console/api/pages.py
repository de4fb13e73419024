"""The API's description, the page that shows it, and what isn't there."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.resource import Resource
from kernel.errors import NotFound


class OpenAPI(Resource):
    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        """The whole of it, whoever asks: it holds nothing of anybody's."""
        return Response(SchemaGenerator().get_schema(request=None, public=True))  # type: ignore[no-untyped-call]


class Unknown(Resource):
    """Whatever the method: DRF asks for it by name, and each is this one."""

    @extend_schema(exclude=True)
    def get(self, request: Request, **kwargs: str) -> Response:
        raise NotFound("There is no such address.", code="unknown_url")

    post = put = patch = delete = get


@login_required
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "console/api_docs.html")
