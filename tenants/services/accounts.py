"""People's accounts, as operators keep them."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import Conflict
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import ApiKey, Membership, Role, Tenant
from tenants.principal import Actor, actor_name
from tenants.services.audit import record
from tenants.services.keys import revoke_key
from tenants.services.rows import Listed, delete_row, save_row

LISTED = Listed(
    AuditAction.PERSON_CREATE,
    AuditAction.PERSON_CHANGE,
    AuditAction.PERSON_DELETE,
    ("username", "is_active", "is_staff", "is_superuser"),
)


def deactivate(*, user: User, actor: Actor, now: datetime, revokes_keys: bool = False) -> User:
    """Switch a person off: their sessions end for good, and with them, within `KEY_CACHE_S`, their
    sockets and what they asked for.

    revokes_keys: API keys that they issued end as well, in every tenant

    Never refused, not even to a tenant's last owner: that may not wait.
    """
    with transaction.atomic(), scope.whole_platform():
        row = User.objects.select_for_update().get(pk=user.pk)
        row.is_active = False
        save_row(row, listed=LISTED, actor=actor, now=now)
        _end_sessions(row, now)
        if revokes_keys:
            issued = ApiKey.objects.filter(created_by=actor_name(row), revoked_at=None)
            for key in issued.order_by("pk"):
                revoke_key(key=key, actor=actor, now=now)
    return row


def activate(*, user: User, actor: Actor, now: datetime) -> User:
    """Let a person in again: with the roles that they have, and no session of before."""
    with transaction.atomic():
        row = User.objects.select_for_update().get(pk=user.pk)
        row.is_active = True
        save_row(row, listed=LISTED, actor=actor, now=now)
    return row


def _end_sessions(user: User, now: datetime) -> None:
    """Whose a session is only its contents say, so all that are open are looked through."""
    theirs = [
        session.session_key
        for session in Session.objects.filter(expire_date__gt=now).iterator()
        if str(session.get_decoded().get(SESSION_KEY)) == str(user.pk)
    ]
    Session.objects.filter(session_key__in=theirs).delete()


def delete_account(*, user: User, actor: Actor, now: datetime) -> None:
    """Delete a person with their memberships and conversations.

    Raises Conflict `last_owner` while a tenant would be left without one. Switching an account off
    is never refused: that may not wait.
    """
    with transaction.atomic(), scope.whole_platform():
        owned = set(_owned_by(user))
        # As `people` does before an owner goes: two at once would leave none.
        list(Tenant.objects.select_for_update(no_key=True).filter(pk__in=owned).order_by("pk"))
        shared = Membership.objects.filter(
            tenant_id__in=owned, role=Role.OWNER, user__is_active=True
        ).exclude(user=user)
        if owned - set(shared.values_list("tenant_id", flat=True)):
            raise Conflict(
                gettext_noop("A tenant needs an owner: make somebody else one first."),
                code="last_owner",
            )
        delete_row(user, listed=LISTED, actor=actor, now=now)


def _owned_by(user: User) -> list[str]:
    owners = Membership.objects.filter(user=user, role=Role.OWNER)
    return list(owners.values_list("tenant_id", flat=True))


def password_was_set(*, user: User, actor: Actor, now: datetime) -> None:
    """Tell the log. Called in the transaction that set it."""
    record(AuditAction.PERSON_PASSWORD, actor=actor, now=now, tenant_id=None, target=user)
