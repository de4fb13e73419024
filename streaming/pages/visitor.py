"""Who looks at a page: a signed-in person, in one of the tenants in which they may chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from tenants.models import Membership
from tenants.models.membership import CHATTING
from tenants.principal import Principal
from tenants.services import people

P = ParamSpec("P")
# The socket reads the same entry, so a page and its socket are always in the same tenant.
TENANT_IN_SESSION = "tenant_id"


@dataclass(frozen=True, slots=True)
class Visitor:
    """membership: the one in force; memberships: all in which the person may chat."""

    principal: Principal
    membership: Membership
    memberships: list[Membership]


View = Callable[Concatenate[HttpRequest, Visitor, P], HttpResponse]


def for_members(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page for signed-in members of a tenant.

    Others go to the login, or are told that they have no tenant.
    """

    @never_cache
    @login_required
    @wraps(view)
    def page(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        visitor = _visitor(request)
        if visitor is None:
            return render(request, "pages/no_membership.html", status=403)
        return view(request, visitor, *args, **kwargs)

    return page


def chatting_memberships(user: AbstractBaseUser | AnonymousUser) -> list[Membership]:
    """The person's memberships of active tenants whose role may chat."""
    return [each for each in people.memberships_of(user) if each.role in CHATTING]


def _visitor(request: HttpRequest) -> Visitor | None:
    memberships = chatting_memberships(request.user)
    if not memberships:
        return None
    chosen = request.session.get(TENANT_IN_SESSION)
    # A tenant chosen earlier may have been left or closed since.
    membership = next((each for each in memberships if each.tenant_id == chosen), memberships[0])
    if membership.tenant_id != chosen:
        request.session[TENANT_IN_SESSION] = membership.tenant_id
    principal = people.principal_of(request.user, tenant_id=membership.tenant_id)
    return Visitor(principal, membership, memberships)
