"""Who looks at a page: a signed-in person, in one of the tenants in which they may chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from tenants.models import Membership
from tenants.principal import Principal
from tenants.services.people import as_principal, chatting
from tenants.services.standing import memberships_of
from tenants.services.suspension import suspended_tenants_of

P = ParamSpec("P")
# The socket reads the same entry, so a page and its socket are always in the same tenant.
TENANT_IN_SESSION = "tenant_id"


@dataclass(frozen=True, slots=True)
class Member:
    """membership: the one in force; memberships: all in which the person may chat."""

    principal: Principal
    membership: Membership
    memberships: list[Membership]


View = Callable[Concatenate[HttpRequest, Member, P], HttpResponse]


def for_members(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page for signed-in members of a tenant.

    Others go to the login, or are told that they have no tenant.
    """

    @never_cache
    @wraps(view)
    def page(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            # What was posted is not posted again after the login.
            seen = request.method in ("GET", "HEAD")
            return redirect_to_login(request.get_full_path() if seen else reverse("chat"))
        member = _member(request)
        if member is None:
            return _without_tenant(request)
        return view(request, member, *args, **kwargs)

    return page


def _without_tenant(request: HttpRequest) -> HttpResponse:
    suspended = suspended_tenants_of(request.user)
    page = "pages/suspended.html" if suspended else "pages/no_membership.html"
    return render(request, page, {"suspended": suspended}, status=403)


def _member(request: HttpRequest) -> Member | None:
    memberships = chatting(memberships_of(request.user))
    if not memberships:
        return None
    chosen = request.session.get(TENANT_IN_SESSION)
    # A tenant chosen earlier may have been left or closed since.
    membership = next((each for each in memberships if each.tenant_id == chosen), memberships[0])
    if membership.tenant_id != chosen:
        request.session[TENANT_IN_SESSION] = membership.tenant_id
    return Member(as_principal(membership), membership, memberships)
