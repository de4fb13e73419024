"""Records of people's passwords and addresses, and what follows from a change: allauth tells of it
by signals alone.
"""

from __future__ import annotations

from typing import Any

from allauth.account import signals
from django.contrib.auth.models import User
from django.http import HttpRequest

from kernel.clock import SystemClock
from kernel.database import writing
from tenants.audit_actions import AuditAction
from tenants.services.accounts import password_was_set
from tenants.services.audit import Target, record
from tenants.services.sessions import only_tenant_of

CLOCK = SystemClock()


def connect() -> None:
    signals.password_changed.connect(changed, dispatch_uid="audit")
    signals.password_set.connect(changed, dispatch_uid="audit")
    signals.password_reset.connect(reset, dispatch_uid="audit")
    signals.email_changed.connect(email_changed, dispatch_uid="audit")


def changed(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    key = request.session.session_key
    with writing():
        password_was_set(user=user, actor=user, now=CLOCK.now(), but_key=key)


def reset(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    """By whoever has the mail: nobody is signed in, so no session is left out."""
    with writing():
        password_was_set(user=user, actor=user, now=CLOCK.now())


def email_changed(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    with writing():
        record(
            AuditAction.EMAIL_CHANGE,
            actor=user,
            now=CLOCK.now(),
            tenant_id=only_tenant_of(user),
            target=Target("user", str(user.pk)),
        )
