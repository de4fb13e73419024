"""A request id on every request and reply, taken over from a well-formed `X-Request-Id` or made
anew; and, with the client's address, where services find it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import async_only_middleware

from kernel import origin
from kernel.ids import new_id
from web.client_address import client_address

HEADER = "X-Request-Id"
WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{8,64}")

Handler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@async_only_middleware
def RequestIdMiddleware(get_response: Handler) -> Handler:  # noqa: N802 - as Django names middleware
    async def middleware(request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get(HEADER, "")
        request_id = given if WELL_FORMED.fullmatch(given) else new_id("req")
        request.META["NEHIR_REQUEST_ID"] = request_id
        address = client_address(request)
        ip = "" if address is None else str(address)
        with origin.entered(origin.Origin(request_id=request_id, ip=ip)):
            response = await get_response(request)
        response.headers[HEADER] = request_id
        return response

    return middleware
