"""Django's request handling for the API: its own addresses, and none of the pages' middleware.

The pages' chain serves sessions, CSRF tokens and languages, none of which the API has, and costs
every request a dozen turns of a thread.
"""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponseBase

from web.request_id import RequestIdMiddleware


class ApiHandler(ASGIHandler):
    def __init__(self, urlconf: str) -> None:
        self._urlconf = urlconf
        super().__init__()

    def load_middleware(self, is_async: bool = True) -> None:
        self._view_middleware: list[object] = []
        self._template_response_middleware: list[object] = []
        self._exception_middleware: list[object] = []
        inner: Any = convert_exception_to_response(self._respond)
        self._middleware_chain = RequestIdMiddleware(inner)

    async def _respond(self, request: HttpRequest) -> HttpResponseBase:
        request.urlconf = self._urlconf
        # Django has no public name for "resolve the address and call its view".
        resolve_and_call: Any = super()._get_response_async  # type: ignore[misc]
        response: HttpResponseBase = await resolve_and_call(request)
        return response
