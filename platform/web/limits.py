"""Limits on what a request may bring, kept before any of it is read into memory."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.template.loader import render_to_string
from django.utils import translation

from kernel.errors import BodyTooLarge
from web.content_policy import bare_policy
from web.errors import error_body

Scope = dict[str, Any]


class _TooLarge(Exception):
    pass


class BodyLimit:
    """ASGI wrapper: refuses bodies over `max_bytes` with 413, by their announced length or as they
    arrive; browsers, which ask for HTML, get a page.
    """

    def __init__(self, app: Any, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_bytes:
            await self._refuse(scope, send)
            return
        received = 0

        async def limited() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise _TooLarge
            return message

        try:
            await self._app(scope, limited, send)
        except _TooLarge:
            await self._refuse(scope, send)

    async def _refuse(self, scope: Scope, send: Any) -> None:
        error = BodyTooLarge(f"The request body is larger than {self._max_bytes} bytes.")
        headers = [(b"connection", b"close")]
        if b"text/html" in dict(scope["headers"]).get(b"accept", b""):
            body = _page(scope)
            headers.append((b"content-type", b"text/html; charset=utf-8"))
            headers.append((b"content-security-policy", bare_policy().encode()))
        else:
            body = json.dumps(error_body(error)).encode()
            headers.append((b"content-type", b"application/json"))
        await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _page(scope: Scope) -> bytes:
    """In the browser's language."""
    request = ASGIRequest(scope, BytesIO())
    with translation.override(translation.get_language_from_request(request)):
        return render_to_string("413.html").encode()
