"""The tenant scope of an admin request: who has a platform role sees the platform, others see one
of their tenants.

The middleware decides once a request who is asking and enters that scope for as long as the request
is answered, the rendering of its template included. Who may not come in gets no scope, so that the
site turns them away and anything that asked for a tenant's rows by mistake would raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.decorators import sync_and_async_middleware

from kernel import origin
from tenants import scope
from tenants.models import Tenant
from tenants.permissions import Action, Standing, allowed, opens_console
from tenants.services.standing import memberships_of, platform_roles_of

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

ATTRIBUTE = "console_access"
# The chat reads the same entry, so that both are in the same tenant.
SESSION_KEY = "tenant_id"
# Of people with a platform role: they have gone from the platform over to that tenant.
IN_TENANT_KEY = "console_in_tenant"


@dataclass(frozen=True, slots=True)
class Access:
    """Who is in the console, and what they may see.

    standing: what they are where they are: on the platform or in a tenant, never both
    tenant: the one in sight; None for the platform
    places: where they may be; None among them for the platform
    session: `kernel.origin.digest_of` the session's key
    """

    user: User
    standing: Standing
    tenant: Tenant | None = None
    places: tuple[Tenant | None, ...] = ()
    session: str = ""

    @property
    def sees_platform(self) -> bool:
        return self.tenant is None

    @property
    def tenant_id(self) -> str | None:
        return None if self.tenant is None else self.tenant.pk

    def may(self, action: Action) -> bool:
        return allowed(self.standing, action, self.tenant_id)

    @contextmanager
    def enter(self) -> Iterator[None]:
        here = replace(origin.current(), session=self.session)
        rows = scope.whole_platform() if self.tenant is None else scope.tenant(self.tenant.pk)
        with rows, origin.entered(here):
            yield


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
    platform_roles = platform_roles_of(user)
    opening = {each.tenant: each for each in memberships_of(user) if opens_console(each.role)}
    places = ((None,) if platform_roles else ()) + tuple(opening)
    if not places:
        return None
    tenant = _place(request, places)
    standing = (
        Standing(platform_roles)
        if tenant is None
        else Standing(tenants={tenant.pk: opening[tenant].role})
    )
    session = origin.digest_of(request.session.session_key)
    return Access(user, standing, tenant, places, session)


def _place(request: HttpRequest, places: tuple[Tenant | None, ...]) -> Tenant | None:
    """The one chosen, as far as it is still theirs, else the first."""
    on_platform = places[0] is None
    chosen = request.session.get(IN_TENANT_KEY if on_platform else SESSION_KEY)
    return next((each for each in places if each is not None and each.pk == chosen), places[0])


def choose_place(request: HttpRequest, tenant_id: str) -> None:
    """Go over to another of one's places; the empty text is the platform. Raises Django's
    PermissionDenied for one that isn't theirs.
    """
    access = access_of(request)
    ids = {"" if place is None else place.pk for place in access.places} if access else set()
    if tenant_id not in ids:
        raise PermissionDenied
    request.session[IN_TENANT_KEY] = tenant_id
    if tenant_id:
        request.session[SESSION_KEY] = tenant_id
