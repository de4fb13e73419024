"""Who a browser session speaks for, read anew: a socket outlives the request that opened it."""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore

from kernel.errors import Unauthenticated
from tenants.principal import Principal
from tenants.services.people import principal_of


class SignedOut(Unauthenticated):
    code = "signed_out"


def principal_of_session(session_key: str | None) -> Principal:
    """Raises SignedOut when the session has ended or its user was deactivated, PermissionDenied
    without a tenant.
    """
    session = SessionStore(session_key)
    user_id = session.get(SESSION_KEY)
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first() if user_id else None
    if user is None:
        raise SignedOut("You are signed out.")
    return principal_of(user, tenant_id=session.get("tenant_id"))
