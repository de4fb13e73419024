"""Whether a request came over TLS, as far as that can be told from its ASGI scope."""

from __future__ import annotations

from typing import Any

from django.conf import settings


def scheme_of(scope: dict[str, Any]) -> str:
    """`https` or `http`, for sockets too: what the proxy says, if one is configured to."""
    if settings.SECURE_PROXY_SSL_HEADER is not None:
        name, secure = settings.SECURE_PROXY_SSL_HEADER
        header = name.removeprefix("HTTP_").replace("_", "-").lower().encode()
        said = dict(scope["headers"]).get(header)
        if said is not None:
            return "https" if said.decode("latin1") == secure else "http"
    return "https" if scope.get("scheme") in ("wss", "https") else "http"
