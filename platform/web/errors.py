"""Errors over HTTP: one renderer for the API in OpenAI's shape, and the wrapper that every API view
wears.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from kernel.errors import InternalError, MethodNotAllowed, PlatformError
from kernel.redis import OUTAGE, unavailable

log = logging.getLogger(__name__)

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Django's own view types leave asynchronous ones out: `path` takes what returns anything.
View = Callable[..., Any]


def error_body(error: PlatformError) -> dict[str, Any]:
    """OpenAI's error object."""
    by_family = "server_error" if error.http_status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": error.message,
            "type": TYPES.get(error.http_status, by_family),
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: PlatformError) -> JsonResponse:
    response = JsonResponse(error_body(error), status=error.http_status)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.http_status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def as_platform_error(error: Exception) -> PlatformError:
    """The tree's own error for any other; what is not foreseen is logged and says nothing of
    itself.
    """
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, OUTAGE):
        return unavailable()
    log.error("Unforeseen error", exc_info=error)
    return InternalError("The server had an error while processing your request.")


def api_view(*methods: str) -> Callable[[View], View]:
    """An async view that answers these methods, and every error in OpenAI's shape."""

    def decorate(view: View) -> View:
        @functools.wraps(view)
        async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method not in methods:
                allowed = ", ".join(methods)
                refused = MethodNotAllowed(f"Not allowed: {request.method}. Allowed: {allowed}.")
                response: HttpResponseBase = error_response(refused)
                response.headers["Allow"] = allowed
                return response
            try:
                response = await view(request, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - rendered, and logged where unforeseen
                response = error_response(as_platform_error(error))
            return response

        return wrapped

    return decorate
