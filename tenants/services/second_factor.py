"""Second factors: who must have one, who lacks it, and taking it from somebody who lost it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext_noop

from kernel.errors import Conflict, PermissionDenied
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import Membership, PlatformGrant, PlatformRole, Tenant
from tenants.permissions import Action, allowed
from tenants.principal import Actor
from tenants.services.audit import Target, record
from tenants.services.sessions import end_sessions, only_tenant_of
from tenants.services.standing import standing_of

# Recovery codes stand in for one of these, and are nothing without.
FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def without_required(user_ids: Iterable[str]) -> set[str]:
    """Of these people those who must have a second factor, by a tenant of theirs or a role on the
    platform, and have none. At most four queries.
    """
    asked = {str(each) for each in user_ids}
    having = Authenticator.objects.filter(user_id__in=asked, type__in=FACTORS)
    lacking = asked - {str(pk) for pk in having.values_list("user_id", flat=True)}
    return _required_among(lacking) if lacking else set()


def _required_among(user_ids: set[str]) -> set[str]:
    with scope.whole_platform():
        members = Membership.objects.filter(
            user_id__in=user_ids, tenant__is_active=True, tenant__requires_mfa=True
        )
        found = set(members.values_list("user_id", flat=True))
    roles = settings.MFA_REQUIRED_FOR
    if roles:
        granted = PlatformGrant.objects.filter(user_id__in=user_ids, role__in=roles)
        found |= set(granted.values_list("user_id", flat=True))
    if PlatformRole.OPERATOR in roles:
        superusers = User.objects.filter(pk__in=user_ids, is_superuser=True)
        found |= set(superusers.values_list("pk", flat=True))
    return {str(pk) for pk in found}


def was_changed(
    action: AuditAction, *, user: User, type: str, session_key: str | None, now: datetime
) -> None:
    """Tell the log what somebody did to their own. Called in the transaction that did it.

    session_key: of the session that did it. With a factor that is new all others end: they were
        let in by a password alone
    """
    if action == AuditAction.MFA_ADD:
        end_sessions(user=user, actor=user, now=now, reason="mfa_added", but_key=session_key)
    record(
        action,
        actor=user,
        now=now,
        tenant_id=only_tenant_of(user),
        target=Target("user", str(user.pk)),
        after={"type": type},
    )


def reset(*, user: User, actor: Actor, now: datetime) -> None:
    """Take somebody's second factors and recovery codes from them, who has lost them, and end their
    sessions: with their password alone they sign in, and set up a new one where they must.

    Raises PermissionDenied for who may not manage people, and Conflict `no_second_factor`.
    """
    if not allowed(standing_of(actor), Action.PERSON_MANAGE, None):
        raise PermissionDenied(gettext_noop("Your role does not let you do this."))
    with transaction.atomic():
        rows = Authenticator.objects.select_for_update().filter(user=user)
        types = sorted(rows.values_list("type", flat=True))
        if not types:
            raise Conflict(
                gettext_noop("This person has no second factor."), code="no_second_factor"
            )
        rows.delete()
        end_sessions(user=user, actor=actor, now=now, reason="mfa_reset")
        record(
            AuditAction.MFA_RESET,
            actor=actor,
            now=now,
            tenant_id=only_tenant_of(user),
            target=Target("user", str(user.pk)),
            before={"types": types},
        )


def require(*, tenant: Tenant, required: bool, actor: Actor, now: datetime) -> None:
    """Say whether a tenant's people must have a second factor: in force at once, for open sessions
    and sockets too.

    Raises PermissionDenied for who may not say so.
    """
    if not allowed(standing_of(actor), Action.SIGN_IN_POLICY_MANAGE, tenant.pk):
        raise PermissionDenied(gettext_noop("Your role does not let you do this."))
    with transaction.atomic():
        row = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if row.requires_mfa == required:
            return
        row.requires_mfa = required
        row.save(update_fields=["requires_mfa"])
        record(
            AuditAction.TENANT_CHANGE,
            actor=actor,
            now=now,
            tenant_id=row.pk,
            target=row,
            before={"requires_mfa": not required},
            after={"requires_mfa": required},
        )
    tenant.requires_mfa = required
