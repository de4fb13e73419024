"""The tenant scope of an admin request: operators see the platform, tenant admins their tenant.

The middleware decides once a request who is asking and enters that scope for as long as the request
is answered, the rendering of its template included. Who may not come in gets no scope, so that the
site turns them away and anything that asked for a tenant's rows by mistake would raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.decorators import sync_and_async_middleware

from tenants import scope
from tenants.models import Tenant
from tenants.services.people import managed_membership

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

ATTRIBUTE = "console_access"
SESSION_KEY = "tenant_id"


@dataclass(frozen=True, slots=True)
class Access:
    """Who is in the console, and what they may see.

    tenant, role: the one tenant they manage and as what; both None for an operator
    """

    user: User
    tenant: Tenant | None = None
    role: str | None = None

    @property
    def is_operator(self) -> bool:
        return self.tenant is None

    def enter(self) -> AbstractContextManager[scope.Scope]:
        return scope.whole_platform() if self.tenant is None else scope.tenant(self.tenant.pk)


def access_of(request: HttpRequest) -> Access | None:
    """The access that the middleware gave this request; None for whoever may not come in."""
    return cast(Access | None, getattr(request, ATTRIBUTE, None))


def actor_of(request: HttpRequest) -> User:
    """Who does what this request asks for. Raises Django's PermissionDenied for a stranger."""
    access = access_of(request)
    if access is None:
        raise PermissionDenied
    return access.user


@sync_and_async_middleware
def AdminScopeMiddleware(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:  # noqa: N802
    if iscoroutinefunction(get_response):

        async def async_middleware(request: HttpRequest) -> HttpResponseBase:
            # In the thread of the session and authentication middleware, on their connection.
            access = await sync_to_async(_decide)(request) if _in_console(request) else None
            respond = cast(AsyncHandler, get_response)
            if access is None:
                return await respond(request)
            with access.enter():
                return await respond(request)

        return async_middleware

    def middleware(request: HttpRequest) -> HttpResponseBase:
        respond = cast(Handler, get_response)
        access = _decide(request) if _in_console(request) else None
        if access is None:
            return respond(request)
        with access.enter():
            return respond(request)

    return middleware


def _in_console(request: HttpRequest) -> bool:
    return request.path.startswith(reverse("admin:index"))


def _decide(request: HttpRequest) -> Access | None:
    access = _access(request)
    setattr(request, ATTRIBUTE, access)
    return access


def _access(request: HttpRequest) -> Access | None:
    user = request.user
    if not (user.is_authenticated and user.is_active and user.is_staff):
        return None
    if user.is_superuser:
        return Access(user)
    membership = managed_membership(user, tenant_id=request.session.get(SESSION_KEY))
    return None if membership is None else Access(user, membership.tenant, membership.role)
