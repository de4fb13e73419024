"""People's accounts, as operators keep them."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
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
from tenants.services.sessions import end_sessions

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
        end_sessions(user=row, actor=actor, now=now, reason="deactivated")
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


def save_account(*, user: User, actor: Actor, now: datetime) -> None:
    """Create or change an account. Who is switched off is signed out everywhere, and, if ever
    switched on again, signs in anew.
    """
    with transaction.atomic():
        if user.pk is not None and not user.is_active:
            end_sessions(user=user, actor=actor, now=now, reason="deactivated")
        save_row(user, listed=LISTED, actor=actor, now=now)


def password_was_set(
    *, user: User, actor: Actor, now: datetime, but_key: str | None = None
) -> None:
    """Tell the log, and end the person's sessions, which the password before had opened, but for
    the one that set it. Called in the transaction that set it.
    """
    end_sessions(user=user, actor=actor, now=now, reason="password_set", but_key=but_key)
    record(AuditAction.PERSON_PASSWORD, actor=actor, now=now, tenant_id=None, target=user)
