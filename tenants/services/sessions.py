"""Where people are signed in, and ending it: sockets and streams of a session that has ended are
closed within a second (`streaming.open_sessions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction

from kernel import origin
from tenants.audit_actions import AuditAction
from tenants.models import Membership
from tenants.principal import Actor
from tenants.services.audit import Target, record
from tenants.services.standing import memberships_of


@dataclass(frozen=True, slots=True)
class OpenSession:
    """id: of its row, to name it by; the session's key itself is as good as a password
    seen_at: of the last page that was asked for, to a minute
    """

    id: int
    address: str
    user_agent: str
    since: datetime
    seen_at: datetime
    is_current: bool


def sessions_of(user: User, *, current_key: str | None, now: datetime) -> list[OpenSession]:
    """Those that have not ended, the current one first, then by when they were seen."""
    rows = list(UserSession.objects.filter(user_id=user.pk).order_by("-last_seen_at"))
    keys = [row.session_key for row in rows]
    live = set(
        Session.objects.filter(session_key__in=keys, expire_date__gt=now).values_list(
            "session_key", flat=True
        )
    )
    found = [
        OpenSession(
            row.pk,
            row.ip,
            row.user_agent,
            row.created_at,
            row.last_seen_at,
            row.session_key == current_key,
        )
        for row in rows
        if row.session_key in live
    ]
    return sorted(found, key=lambda each: not each.is_current)


def end_session(*, user: User, session_id: int, actor: Actor, now: datetime) -> bool:
    """End one of a person's sessions. Whether there was such a one."""
    with transaction.atomic():
        ended = _end(UserSession.objects.filter(user_id=user.pk, pk=session_id))
        _tell(user, ended, "one", actor, now)
    return bool(ended)


def end_sessions(
    *, user: User, actor: Actor, now: datetime, reason: str, but_key: str | None = None
) -> int:
    """End all of a person's sessions, or all but one. How many there were.

    reason: what the log tells: `asked_for`, or what brought it about
    """
    with transaction.atomic():
        ended = _end(UserSession.objects.filter(user_id=user.pk).exclude(session_key=but_key or ""))
        _tell(user, ended, reason, actor, now)
    return len(ended)


def _end(rows: Iterable[UserSession]) -> list[str]:
    """Their keys. Of those that had ended before only the row goes."""
    keys = [row.session_key for row in rows]
    live = list(Session.objects.filter(session_key__in=keys).values_list("session_key", flat=True))
    Session.objects.filter(session_key__in=live).delete()
    UserSession.objects.filter(session_key__in=keys).delete()
    return live


def _tell(user: User, ended: list[str], reason: str, actor: Actor, now: datetime) -> None:
    if not ended:
        return
    record(
        AuditAction.SESSION_END,
        actor=actor,
        now=now,
        tenant_id=only_tenant_of(user),
        target=Target("user", str(user.pk)),
        after={"sessions": [origin.digest_of(key) for key in ended[:50]], "count": len(ended)},
        reason=reason,
    )


def only_tenant_of(user: User | None) -> str | None:
    """The tenant that is told what a person does; None, the platform, for those of several: one is
    not told what they do in another.
    """
    # Asked for nobody as well, so that a name that is known takes no longer.
    memberships: list[Membership] = memberships_of(user or User(pk=0))
    tenants = [each.tenant_id for each in memberships]
    return tenants[0] if len(tenants) == 1 else None
