"""WebSockets from our own pages alone.

A browser sends cookies with a socket from any page. Channels' validator compares hosts only, so
another scheme or port on the same host passes; here the whole origin has to match.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from web.scheme import scheme_of

Scope = dict[str, Any]
REFUSED = 4403


class ExactOrigin:
    """ASGI wrapper: closes sockets whose Origin is neither this host's own nor one of
    CSRF_TRUSTED_ORIGINS.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> Any:
        if is_own_origin(scope):
            return await self._app(scope, receive, send)
        # Accepted first: a browser is told the code of a close, not of a refused handshake.
        await receive()
        await send({"type": "websocket.accept"})
        return await send({"type": "websocket.close", "code": REFUSED})


def is_own_origin(scope: Scope) -> bool:
    headers = {name: value.decode("latin1") for name, value in scope["headers"]}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _port = split_domain_port(host)
    allowed = settings.ALLOWED_HOSTS or ["localhost", "127.0.0.1", "[::1]"]
    return (
        bool(domain) and validate_host(domain, allowed) and origin == f"{scheme_of(scope)}://{host}"
    )
