"""Who a browser session speaks for, read anew: a socket outlives the request that opened it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from kernel.errors import PermissionDenied, PlatformError, Unauthenticated
from tenants.principal import Principal
from tenants.services.people import chatting_among, no_membership, principal_of


class SignedOut(Unauthenticated):
    code = "signed_out"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person in a tenant, by a session."""

    session_key: str
    user_id: str
    tenant_id: str


def principal_of_session(session_key: str | None) -> Principal:
    """Raises SignedOut when the session has ended or its user was deactivated, PermissionDenied
    without a tenant.
    """
    session = SessionStore(session_key)
    user_id = session.get(SESSION_KEY)
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first() if user_id else None
    if user is None:
        raise _signed_out()
    return principal_of(user, tenant_id=session.get("tenant_id"))


def refusals(signed_in: Collection[SignedIn], *, now: datetime) -> dict[SignedIn, PlatformError]:
    """Of those that were let in, who would not be any more, and why. Three queries, and nothing
    read out of a session.

    SignedOut only says that the session has ended; PermissionDenied that the person may not chat
    there, by whatever session.
    """
    users = {each.user_id for each in signed_in}
    active = get_user_model().objects.filter(pk__in=users, is_active=True)
    people = {str(pk) for pk in active.values_list("pk", flat=True)}
    members = chatting_among(users)
    keys = {each.session_key for each in signed_in}
    going_on = Session.objects.filter(session_key__in=keys, expire_date__gt=now)
    live = set(going_on.values_list("session_key", flat=True))

    def refusal(each: SignedIn) -> PlatformError | None:
        if each.user_id not in people:
            return PermissionDenied("You were switched off.", code="signed_out")
        if (each.user_id, each.tenant_id) not in members:
            return no_membership()
        return None if each.session_key in live else _signed_out()

    found = {each: refusal(each) for each in signed_in}
    return {each: error for each, error in found.items() if error is not None}


def _signed_out() -> SignedOut:
    return SignedOut("You are signed out.")
