"""What a signed-in person's requests for pages pass: who must have a second factor and has none is
led to setting it up, and their session is noted as in use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import cast

from allauth.usersessions.models import UserSession
from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.cache import cache
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

from kernel import origin
from tenants.services.second_factor import without_required
from web.client_address import client_address

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

# Signing in and out, one's own account and the language: all that it takes to set one up.
ALWAYS_OPEN = ("/account/", "/login/", "/logout/", "/i18n/")
# A session that is in use is written down as often as this: a page is no reason for a write.
NOTED_EVERY = timedelta(minutes=1)


@sync_and_async_middleware
def AccountGateMiddleware(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:  # noqa: N802
    if iscoroutinefunction(get_response):

        async def async_middleware(request: HttpRequest) -> HttpResponseBase:
            # In the thread of the session and authentication middleware, on their connection.
            answer = await sync_to_async(_pass)(request)
            return answer or await cast(AsyncHandler, get_response)(request)

        return async_middleware

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return _pass(request) or cast(Handler, get_response)(request)

    return middleware


def _pass(request: HttpRequest) -> HttpResponseBase | None:
    user = request.user
    if not user.is_authenticated:
        return None
    _note(request)
    if request.path.startswith(ALWAYS_OPEN) or not without_required([str(user.pk)]):
        return None
    return HttpResponseRedirect(reverse("mfa_index"))


def _note(request: HttpRequest) -> None:
    key = request.session.session_key
    if key and cache.add(f"seen:{origin.digest_of(key)}", 1, NOTED_EVERY.total_seconds()):
        address = client_address(request)
        where = {} if address is None else {"ip": str(address)}
        UserSession.objects.filter(session_key=key).update(last_seen_at=timezone.now(), **where)
