"""Who a browser session speaks for, read anew: a socket outlives the request that opened it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare

from kernel.errors import PermissionDenied, PlatformError, Unauthenticated
from tenants.principal import Principal
from tenants.services.people import chatting_among, no_membership, principal_of
from tenants.services.second_factor import without_required


class SignedOut(Unauthenticated):
    """Pages lead on from here: to signing in, or to setting up a second factor."""

    code = "signed_out"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person in a tenant, by a session.

    password_mark: what the session keeps of the password that it was begun with, as Django does for
        pages: with another password, wherever it was set, the session is over
    """

    session_key: str
    password_mark: str
    user_id: str
    tenant_id: str


def principal_of_session(session_key: str | None) -> Principal:
    """Raises SignedOut when the session has ended, its user was deactivated or must first set up a
    second factor, PermissionDenied without a tenant.
    """
    session = SessionStore(session_key)
    user_id = session.get(SESSION_KEY)
    user = User.objects.filter(pk=user_id, is_active=True).first() if user_id else None
    if user is None or not _is_of(user, str(session.get(HASH_SESSION_KEY, ""))):
        raise _signed_out()
    if without_required([str(user.pk)]):
        raise _must_add_factor()
    return principal_of(user, tenant_id=session.get("tenant_id"))


def refusals(signed_in: Collection[SignedIn], *, now: datetime) -> dict[SignedIn, PlatformError]:
    """Of those that were let in, who would not be any more, and why. A handful of queries, and
    nothing read out of a session.

    SignedOut only says that the session has ended; PermissionDenied that the person may not chat
    there, by whatever session.
    """
    users = {each.user_id for each in signed_in}
    active = User.objects.filter(pk__in=users, is_active=True).only("password")
    people = {str(user.pk): user for user in active}
    lacking = without_required(users)
    members = chatting_among(users)
    keys = {each.session_key for each in signed_in}
    going_on = Session.objects.filter(session_key__in=keys, expire_date__gt=now)
    live = set(going_on.values_list("session_key", flat=True))

    def refusal(each: SignedIn) -> PlatformError | None:
        if each.user_id not in people:
            return PermissionDenied("You were switched off.", code="signed_out")
        if (each.user_id, each.tenant_id) not in members:
            return no_membership()
        if each.session_key not in live or not _is_of(people[each.user_id], each.password_mark):
            return _signed_out()
        return _must_add_factor() if each.user_id in lacking else None

    found = {each: refusal(each) for each in signed_in}
    return {each: error for each, error in found.items() if error is not None}


def _is_of(user: User, password_mark: str) -> bool:
    return constant_time_compare(password_mark, user.get_session_auth_hash())


def _must_add_factor() -> SignedOut:
    return SignedOut("You have to set up a second factor first.")


def _signed_out() -> SignedOut:
    return SignedOut("You are signed out.")
