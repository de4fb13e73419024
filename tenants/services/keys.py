"""API keys: issued once, rotated, revoked for good; found by id, compared by a secret's HMAC."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_variables

from kernel.errors import BadRequest
from kernel.networks import as_network
from tenants import key_format, key_scopes
from tenants.models import ApiKey, Priority, ServiceAccount
from tenants.principal import Actor, Principal, actor_name
from tenants.services import key_audit, key_records

log = logging.getLogger(__name__)

SCHEME = "bearer"
# Longer than any header with a key of ours; the rest isn't looked at.
HEADER_LIMIT = 256
NAME_LENGTH = 100
# Each is compared with the address of every request.
MOST_NETWORKS = 64
MOST_MODELS = 256
LONGEST_OVERLAP = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class KeyRights:
    """What a key may do and from where, as `ApiKey`'s fields of the same names say."""

    highest_priority: str = Priority.STANDARD
    scopes: Sequence[str] = field(default_factory=lambda: sorted(key_scopes.DEFAULT))
    model_names: Sequence[str] = ()
    networks: Sequence[str] = ()


@sensitive_variables()
def issue_key(
    *,
    service_account: ServiceAccount,
    name: str,
    actor: Actor,
    now: datetime,
    expires_at: datetime | None = None,
    rights: KeyRights | None = None,
    replaces: str = "",
) -> tuple[ApiKey, str]:
    """Make a key for an application: the stored key, and its text to be shown once, kept nowhere.

    Called in the account's tenant scope. Raises BadRequest for an empty or too long name, an
    inactive account, an expiry that isn't in the future, and rights that there aren't.
    """
    rights = rights or KeyRights()
    _check_new(service_account, name, expires_at, now)
    _check_rights(rights)
    text = key_format.make(settings.KEY_ENVIRONMENT)
    version = settings.KEY_PEPPER_VERSION
    with transaction.atomic():
        key = ApiKey.objects.create(
            id=text.id,
            tenant_id=service_account.tenant_id,
            service_account=service_account,
            name=name,
            digest=key_records.digest(text.secret, version),
            pepper_version=version,
            created_at=now,
            created_by=actor_name(actor),
            replaces=replaces,
            expires_at=expires_at,
            highest_priority=rights.highest_priority,
            scopes=sorted(set(rights.scopes)),
            model_names=sorted(set(rights.model_names)),
            networks=[str(as_network(text)) for text in rights.networks],
        )
        key_audit.issued(key, actor=actor, now=now)
    log.info("API key %s issued to %s by %s", key.pk, service_account.pk, actor_name(actor))
    return key, text.text()


@sensitive_variables()
def rotate_key(
    *, key: ApiKey, actor: Actor, now: datetime, overlap: timedelta | None = None
) -> tuple[ApiKey, str]:
    """Issue a key of the same rights and the same length of life in place of one, which works for
    `overlap` (by default `KEY_OVERLAP_H`) longer and then expires by itself.

    Called in the account's tenant scope. Raises BadRequest for a key that is not usable, or was
    rotated before, and for an overlap below zero or above a year.
    """
    if overlap is None:
        overlap = timedelta(hours=settings.KEY_OVERLAP_H)
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise BadRequest(gettext_noop("The overlap is 0 to 8760 hours."), param="overlap")
    with transaction.atomic():
        old = (
            ApiKey.objects.select_for_update(of=("self",))
            .select_related("service_account")
            .get(pk=key.pk)
        )
        _check_rotatable(old, now)
        life = None if old.expires_at is None else old.expires_at - old.created_at
        new, text = issue_key(
            service_account=old.service_account,
            name=old.name,
            actor=actor,
            now=now,
            expires_at=None if life is None else now + life,
            rights=KeyRights(old.highest_priority, old.scopes, old.model_names, old.networks),
            replaces=old.pk,
        )
        ends_at, until = now + overlap, old.expires_at
        old.expires_at = ends_at if until is None else min(until, ends_at)
        old.save(update_fields=["expires_at"])
        key_audit.rotated(old, new, until, actor=actor, now=now)
    key.expires_at = old.expires_at
    log.info("API key %s rotated to %s by %s", old.pk, new.pk, actor_name(actor))
    return new, text


def revoke_key(*, key: ApiKey, actor: Actor, now: datetime) -> None:
    """Refuse a key from now on, for good. Revoking twice keeps the first time."""
    with transaction.atomic():
        revoked = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now)
        if revoked:
            key_audit.revoked(key, actor=actor, now=now)
    if revoked:
        log.info("API key %s revoked by %s", key.pk, actor_name(actor))
    key.refresh_from_db(fields=["revoked_at"])


@sensitive_variables()
def authenticate_key(authorization: str, *, now: datetime) -> Principal:
    """Whom an `Authorization` header speaks for, wherever it comes from. One query; none for what
    can't be a key.

    Raises Unauthenticated, the same for every reason, and PermissionDenied `tenant_suspended` for a
    good key of a tenant that is suspended.
    """
    text = presented(authorization)
    record = key_records.read(text.id)
    if not key_records.matches(text, record) or record is None:
        raise key_records.refused()
    return record.check(now=now)


@sensitive_variables()
def presented(authorization: str) -> key_format.KeyText:
    """The key in an `Authorization` header. Raises Unauthenticated for what can't be one here."""
    if len(authorization) <= HEADER_LIMIT:
        scheme, _, text = authorization.partition(" ")
        key = key_format.parse(text.strip(" ")) if scheme.lower() == SCHEME else None
        if key is not None and key.environment == settings.KEY_ENVIRONMENT:
            return key
    raise key_records.refused()


def _check_new(
    service_account: ServiceAccount, name: str, expires_at: datetime | None, now: datetime
) -> None:
    if not 0 < len(name) <= NAME_LENGTH:
        raise BadRequest(gettext_noop("The key needs a name of 1 to 100 characters."), param="name")
    if not service_account.is_active:
        raise BadRequest(gettext_noop("The service account is inactive."), param="service_account")
    if expires_at is not None and expires_at <= now:
        raise BadRequest(gettext_noop("The expiry must be in the future."), param="expires_at")


def _check_rights(rights: KeyRights) -> None:
    if not rights.scopes or set(rights.scopes) - set(key_scopes.KEY_SCOPES):
        raise BadRequest(gettext_noop("The key needs scopes, of those there are."), param="scopes")
    if len(rights.model_names) > MOST_MODELS:
        raise BadRequest(gettext_noop("These are too many models."), param="model_names")
    if len(rights.networks) > MOST_NETWORKS:
        raise BadRequest(gettext_noop("A key has at most 64 networks."), param="networks")
    for text in rights.networks:
        try:
            as_network(text)
        except ValueError as error:
            raise BadRequest(f"{str(text)[:50]!r} is no network.", param="networks") from error


def _check_rotatable(key: ApiKey, now: datetime) -> None:
    if not key.is_usable(now=now):
        raise BadRequest(gettext_noop("A key that is expired or revoked is not rotated."))
    if ApiKey.objects.filter(replaces=key.pk).exists():
        raise BadRequest(
            gettext_noop("This key was rotated before: rotate its successor, or issue a new key."),
            code="already_rotated",
        )
