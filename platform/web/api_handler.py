"""Django's request handling for the API: its own addresses, and nothing that an API has no use for.

The pages' chain serves sessions, CSRF tokens and languages, and costs every request a dozen turns
of a thread. Django's own handler starts a thread for each request as well, to open and close
database connections in; the API borrows its connections from `kernel.database`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.exceptions import RequestAborted
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

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            request, refusal = self.create_request(scope, body)
            if request is not None:
                await self._serve_until_gone(request, receive, send)
            elif refusal is not None:
                await self.send_response(refusal, send)
        finally:
            body.close()

    async def _serve_until_gone(self, request: HttpRequest, receive: Any, send: Any) -> None:
        """Answer; if the client leaves first, the view and its stream are cancelled."""
        serving = asyncio.create_task(self._serve(request, send))
        leaving = asyncio.create_task(receive())
        try:
            await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not serving.done():
                serving.cancel()
            await asyncio.gather(serving, leaving, return_exceptions=True)
        if not serving.cancelled():
            serving.result()

    async def _serve(self, request: HttpRequest, send: Any) -> None:
        response = await self.run_get_response(request)
        try:
            await self.send_response(response, send)
        finally:
            _close(response)

    async def _respond(self, request: HttpRequest) -> HttpResponseBase:
        request.urlconf = self._urlconf
        # Django has no public name for "resolve the address and call its view".
        resolve_and_call: Any = super()._get_response_async  # type: ignore[misc]
        response: HttpResponseBase = await resolve_and_call(request)
        return response


def _close(response: Any) -> None:
    """Without Django's signal for it, which closes caches and connections of a thread that has
    served a whole request; here none has.
    """
    for close in response._resource_closers:  # noqa: SLF001 - Django has no public name for them
        close()
