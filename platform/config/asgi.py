"""ASGI: the API and the pages over HTTP, the chat over WebSocket."""

from __future__ import annotations

import os
from typing import Any, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

pages = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from config import web_security  # noqa: E402
from kernel import garbage  # noqa: E402
from streaming.consumer import ChatConsumer  # noqa: E402
from web import flow_metrics  # noqa: E402
from web.api_handler import ApiHandler  # noqa: E402
from web.limits import BodyLimit  # noqa: E402
from web.origin import ExactOrigin  # noqa: E402
from web.probes import PATHS  # noqa: E402
from web.secure_headers import SecureHeaders  # noqa: E402

flow_metrics.export()

api = ApiHandler("streaming.openai.urls")
probes = ApiHandler("web.probes")


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["path"].startswith("/v1/"):
        await api(scope, receive, send)
    elif scope["path"] in PATHS:
        await probes(scope, receive, send)
    else:
        await pages(scope, receive, send)


async def no_such_socket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """403, where Channels would raise an error for every stranger who tries an address."""
    await receive()
    await send({"type": "websocket.close"})


application = ProtocolTypeRouter(
    {
        "http": SecureHeaders(
            BodyLimit(http, max_bytes=settings.MAX_BODY_BYTES), headers=web_security.HEADERS
        ),
        "websocket": ExactOrigin(
            AuthMiddlewareStack(
                URLRouter(
                    [
                        path("ws/chat/", ChatConsumer.as_asgi()),
                        re_path("", cast(Any, no_such_socket)),
                    ]
                )
            )
        ),
    }
)

garbage.freeze_what_is_loaded()
