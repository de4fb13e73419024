"""Who asks the API: every header that can carry a key, by the same checks."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables

from kernel.errors import Unauthenticated
from tenants.access import Access
from tenants.key_scopes import KeyScope
from tenants.services.known_keys import known_keys
from web.client_address import client_address

# Headers of other APIs' clients, which carry a key and no scheme.
BARE = ("HTTP_X_API_KEY", "HTTP_API_KEY")


async def authenticate(request: HttpRequest, *, scope: KeyScope | None = None) -> Access:
    """The access that the request's key gives. scope: what the key must be for.

    Raises Unauthenticated and PermissionDenied as `KnownKeys.authenticate`; and PermissionDenied
    `missing_scope`.
    """
    where = partial(client_address, request)
    access = await known_keys().authenticate(authorization_of(request), where=where)
    if scope is not None:
        access.need_scope(scope)
    return access


@sensitive_variables()
def authorization_of(request: HttpRequest) -> str:
    """What the request presents, as an Authorization header says it. Raises Unauthenticated for
    more than one: which of them counts would be anybody's guess.
    """
    given = [f"Bearer {request.META[name]}" for name in BARE if name in request.META]
    if (authorization := request.META.get("HTTP_AUTHORIZATION")) is not None:
        given.append(authorization)
    if len(given) > 1:
        raise Unauthenticated("Send one API key, in one header.")
    return given[0] if given else ""
