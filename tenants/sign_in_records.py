"""Records of people signing in and out, wherever they do: Django tells of it by signals alone.

A record is the tenant's of a person who belongs to a single one; of others it is the platform's,
since one tenant is not told what they do in another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from allauth.account.authentication import get_authentication_records
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from kernel import origin
from kernel.clock import SystemClock
from kernel.database import writing
from tenants.audit_actions import AuditAction
from tenants.models import AuditOutcome, Decision
from tenants.services.audit import Target, record
from tenants.services.standing import memberships_of

CLOCK = SystemClock()
NAME_DIGITS = 16


def connect() -> None:
    user_logged_in.connect(signed_in, dispatch_uid="audit")
    user_logged_out.connect(signed_out, dispatch_uid="audit")
    user_login_failed.connect(refused, dispatch_uid="audit")


def signed_in(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    _write(AuditAction.SIGN_IN, request, user, after={"by": _ways(request, user)})


def signed_out(sender: Any, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        _write(AuditAction.SIGN_OUT, request, user)


def refused(
    sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    """A name that nobody has is told by a keyed digest: it may be a password in the wrong field."""
    name = str(credentials.get("username", ""))
    user = User.objects.filter(username=name).first()
    digest = salted_hmac("nehir.audit.username", name).hexdigest()[:NAME_DIGITS]
    with writing():
        record(
            AuditAction.SIGN_IN,
            actor=AnonymousUser(),
            now=CLOCK.now(),
            tenant_id=_only_tenant_of(user),
            target=Target("user", str(user.pk) if user else "", digest=digest),
            decision=Decision.DENIED,
            reason="invalid_login",
            outcome=AuditOutcome.REFUSED,
        )


def _write(
    action: AuditAction, request: HttpRequest, user: User, after: dict[str, Any] | None = None
) -> None:
    session = origin.digest_of(request.session.session_key)
    with origin.entered(replace(origin.current(), session=session)), writing():
        record(
            action,
            actor=user,
            now=CLOCK.now(),
            tenant_id=_only_tenant_of(user),
            target=user,
            after=after,
        )


def _ways(request: HttpRequest, user: User) -> str:
    """How they proved who they are, such as `password+mfa`; else the backend that vouches."""
    ways = [str(each["method"]) for each in get_authentication_records(request, user)]
    return "+".join(ways) or str(getattr(user, "backend", "")).rpartition(".")[2]


def _only_tenant_of(user: User | None) -> str | None:
    # Asked for nobody as well, so that a name that is known takes no longer.
    tenants = [each.tenant_id for each in memberships_of(user or User(pk=0))]
    return tenants[0] if len(tenants) == 1 else None
