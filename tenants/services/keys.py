"""API keys: issued once, found by id, compared by the HMAC of their secret, revoked for good."""

from __future__ import annotations

import hashlib
import hmac
import logging
from datetime import datetime
from typing import cast

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_variables

from kernel.errors import BadRequest, PermissionDenied, Unauthenticated
from tenants import key_format, scope
from tenants.audit_actions import AuditAction
from tenants.models import ApiKey, Priority, ServiceAccount
from tenants.principal import Actor, Principal, actor_name
from tenants.priority import PriorityClass, lower
from tenants.services.key_records import key_record

log = logging.getLogger(__name__)

SCHEME = "bearer"
# Longer than any header with a key of ours; the rest isn't looked at.
HEADER_LIMIT = 256
NAME_LENGTH = 100
# What an unknown key is compared with, so that it takes as long as a known one with a wrong secret.
_NO_DIGEST = "0" * hashlib.sha256().digest_size * 2


@sensitive_variables()
def issue_key(
    *,
    service_account: ServiceAccount,
    name: str,
    actor: Actor,
    now: datetime,
    expires_at: datetime | None = None,
    highest_priority: str = Priority.STANDARD,
) -> tuple[ApiKey, str]:
    """Make a key for an application: the stored key, and its text to be shown once, kept nowhere.

    Called in the account's tenant scope. Raises BadRequest for an empty or too long name, an
    inactive account, and an expiry that isn't in the future.
    """
    _check_new(service_account, name, expires_at, now)
    text = key_format.make()
    version = max(settings.KEY_PEPPERS)
    with transaction.atomic():
        key = ApiKey.objects.create(
            id=text.id,
            tenant_id=service_account.tenant_id,
            service_account=service_account,
            name=name,
            digest=_digest(text.secret, version),
            pepper_version=version,
            created_at=now,
            expires_at=expires_at,
            highest_priority=highest_priority,
        )
        key_record(AuditAction.KEY_ISSUE, key, actor=actor, now=now)
    log.info("API key %s issued to %s by %s", key.pk, service_account.pk, actor_name(actor))
    return key, text.text()


def revoke_key(*, key: ApiKey, actor: Actor, now: datetime) -> None:
    """Refuse a key from now on, for good. Revoking twice keeps the first time."""
    with transaction.atomic():
        revoked = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now)
        if revoked:
            key_record(AuditAction.KEY_REVOKE, key, actor=actor, now=now)
    if revoked:
        log.info("API key %s revoked by %s", key.pk, actor_name(actor))
    key.refresh_from_db(fields=["revoked_at"])


@sensitive_variables()
def authenticate_key(authorization: str, *, now: datetime) -> Principal:
    """Whom an `Authorization` header speaks for. One query; none for what can't be a key.

    Raises Unauthenticated, the same for every reason, and PermissionDenied `tenant_inactive` for a
    good key of a tenant that was switched off.
    """
    presented = _presented(authorization)
    if presented is None:
        raise _refused()
    with scope.whole_platform():
        key = (
            ApiKey.objects.select_related("service_account", "tenant")
            .filter(pk=presented.id)
            .first()
        )
    if not _matches(presented, key) or key is None:
        raise _refused()
    if not key.is_usable(now=now) or not key.service_account.is_active:
        raise _refused()
    if not key.tenant.is_active:
        raise PermissionDenied(gettext_noop("This tenant is inactive."), code="tenant_inactive")
    return _principal(key)


def _principal(key: ApiKey) -> Principal:
    """Its priorities are the tenant's, as far as the key's reach."""
    tenant = key.tenant
    highest = lower(
        cast(PriorityClass, key.highest_priority), cast(PriorityClass, tenant.highest_priority)
    )
    return Principal(
        key.tenant_id,
        "service_account",
        key.service_account_id,
        key_id=key.pk,
        high_water_tokens=tenant.high_water_tokens,
        weight=tenant.weight,
        default_priority=lower(cast(PriorityClass, tenant.default_priority), highest),
        highest_priority=highest,
    )


@sensitive_variables()
def _presented(authorization: str) -> key_format.KeyText | None:
    if len(authorization) > HEADER_LIMIT:
        return None
    scheme, _, text = authorization.partition(" ")
    return key_format.parse(text.strip(" ")) if scheme.lower() == SCHEME else None


@sensitive_variables()
def _matches(presented: key_format.KeyText, key: ApiKey | None) -> bool:
    peppers = settings.KEY_PEPPERS
    known = key is not None and key.pepper_version in peppers
    version = key.pepper_version if key is not None and known else max(peppers)
    expected = key.digest if key is not None and known else _NO_DIGEST
    return hmac.compare_digest(expected, _digest(presented.secret, version))


@sensitive_variables()
def _digest(secret: str, pepper_version: int) -> str:
    pepper: str = settings.KEY_PEPPERS[pepper_version]
    return hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).hexdigest()


def _refused() -> Unauthenticated:
    return Unauthenticated(gettext_noop("The API key is missing, wrong, expired or revoked."))


def _check_new(
    service_account: ServiceAccount, name: str, expires_at: datetime | None, now: datetime
) -> None:
    if not 0 < len(name) <= NAME_LENGTH:
        raise BadRequest(gettext_noop("The key needs a name of 1 to 100 characters."), param="name")
    if not service_account.is_active:
        raise BadRequest(gettext_noop("The service account is inactive."), param="service_account")
    if expires_at is not None and expires_at <= now:
        raise BadRequest(gettext_noop("The expiry must be in the future."), param="expires_at")
