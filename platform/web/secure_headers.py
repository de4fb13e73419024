"""Headers that protect browsers, on every answer: pages and the API, files, errors, refusals.

Outermost of what answers, so that no way of answering can leave them out. An answer's own word
counts: a page's content policy, a file's time to be kept.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from web.scheme import scheme_of

Scope = dict[str, Any]


class SecureHeaders:
    """ASGI wrapper: adds `headers` where an answer has none of that name, and HSTS under HTTPS."""

    def __init__(self, app: Any, *, headers: dict[str, str]) -> None:
        self._app = app
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        async def secured(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = message | {"headers": self._completed(scope, message["headers"])}
            await send(message)

        await self._app(scope, receive, secured)

    def _completed(self, scope: Scope, given: Any) -> list[tuple[bytes, bytes]]:
        said = list(given)
        names = {name.lower() for name, _ in said}
        more = [header for header in self._headers if header[0] not in names]
        if b"strict-transport-security" not in names:
            more += _hsts(scope)
        return said + more


def _hsts(scope: Scope) -> list[tuple[bytes, bytes]]:
    """As Django's own middleware, which only pages have. Over plain HTTP it must not be said."""
    if not settings.SECURE_HSTS_SECONDS or scheme_of(scope) != "https":
        return []
    value = f"max-age={settings.SECURE_HSTS_SECONDS}"
    if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS:
        value += "; includeSubDomains"
    if settings.SECURE_HSTS_PRELOAD:
        value += "; preload"
    return [(b"strict-transport-security", value.encode())]
