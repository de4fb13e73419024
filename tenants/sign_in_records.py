"""Records of people signing in and out, wherever they do: Django tells of it by signals alone.

A record is the tenant's of a person who belongs to a single one; of others it is the platform's,
since one tenant is not told what they do in another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from allauth.account.authentication import get_authentication_records
from allauth.core import ratelimit
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core.cache import cache
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from kernel import origin
from kernel.clock import SystemClock
from kernel.database import writing
from tenants.audit_actions import AuditAction
from tenants.models import AuditOutcome, Decision
from tenants.services.audit import Target, record
from tenants.services.sessions import only_tenant_of

CLOCK = SystemClock()
NAME_DIGITS = 16
TOLD_AGAIN_S = 300


def connect() -> None:
    user_logged_in.connect(signed_in, dispatch_uid="audit")
    user_logged_out.connect(signed_out, dispatch_uid="audit")
    user_login_failed.connect(refused, dispatch_uid="audit")


def signed_in(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    # Here and not by allauth alone, so that no session is missing from the list of them.
    UserSession.objects.create_from_request(request, user=user)
    _write(AuditAction.SIGN_IN, request, user, after={"by": _ways(request, user)})


def signed_out(sender: Any, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        _write(AuditAction.SIGN_OUT, request, user)


def refused(
    sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    """A name that nobody has is told by a keyed digest: it may be a password in the wrong field.

    Who fails is limited by account and address before it comes to this; what many do together from
    many addresses is told one by one up to a rate, and beyond it that there is more.
    """
    if request is not None and not ratelimit.consume(request, action="failure_recorded", key="all"):
        _more_than_is_told()
        return
    name = str(credentials.get("username", ""))
    user = User.objects.filter(username=name).first()
    target = Target("user", str(user.pk) if user else "", digest=_digest_of(name))
    _refuse("invalid_login", target, only_tenant_of(user))


def throttled(request: HttpRequest, name: str) -> None:
    """Further attempts are not even looked at. Told once in five minutes for a name."""
    digest = _digest_of(name)
    if cache.add(f"throttled:{digest}", 1, TOLD_AGAIN_S):
        _refuse("too_many_attempts", Target("user", "", digest=digest), None)


def _more_than_is_told() -> None:
    if cache.add("failures-untold", 1, 60):
        _refuse("many_failures_untold", Target("user", ""), None)


def _refuse(reason: str, target: Target, tenant_id: str | None) -> None:
    with writing():
        record(
            AuditAction.SIGN_IN,
            actor=AnonymousUser(),
            now=CLOCK.now(),
            tenant_id=tenant_id,
            target=target,
            decision=Decision.DENIED,
            reason=reason,
            outcome=AuditOutcome.REFUSED,
        )


def _digest_of(name: str) -> str:
    return salted_hmac("nehir.audit.username", name).hexdigest()[:NAME_DIGITS]


def _write(
    action: AuditAction, request: HttpRequest, user: User, after: dict[str, Any] | None = None
) -> None:
    session = origin.digest_of(request.session.session_key)
    with origin.entered(replace(origin.current(), session=session)), writing():
        record(
            action,
            actor=user,
            now=CLOCK.now(),
            tenant_id=only_tenant_of(user),
            target=user,
            after=after,
        )


def _ways(request: HttpRequest, user: User) -> str:
    """How they proved who they are, such as `password+mfa`; else the backend that vouches."""
    ways = [str(each["method"]) for each in get_authentication_records(request, user)]
    return "+".join(ways) or str(getattr(user, "backend", "")).rpartition(".")[2]
