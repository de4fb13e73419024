"""API keys: issued once, rotated, revoked for good; found by id, compared by a secret's HMAC."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_variables

from kernel.errors import BadRequest, PermissionDenied
from kernel.networks import Address, as_network
from tenants import authorization as rights_checks
from tenants import key_format, key_scopes
from tenants.models import ApiKey, Priority, ServiceAccount
from tenants.principal import Actor, Principal, actor_name
from tenants.services import key_audit, key_records, key_usage

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
    inactive account, an expiry that isn't in the future, and rights that there aren't;
    PermissionDenied `scope_not_yours`.
    """
    rights = rights or KeyRights()
    _check_new(service_account, name, expires_at, now)
    _check_rights(rights)
    _check_giver(actor, rights.scopes, replaces)
    text = key_format.make(settings.KEY_ENVIRONMENT)
    version = settings.KEY_PEPPER_VERSION
    with transaction.atomic():
        key = ApiKey(
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
        )
        _set_rights(key, rights)
        key.save(force_insert=True)
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
    rotated before, and for an overlap below zero or above a year; PermissionDenied
    `scope_not_yours`.
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
            rights=_rights_of(old),
            replaces=old.pk,
        )
        ends_at, until = now + overlap, old.expires_at
        old.expires_at = ends_at if until is None else min(until, ends_at)
        old.save(update_fields=["expires_at"])
        key_audit.rotated(old, new, until, actor=actor, now=now)
    key.expires_at = old.expires_at
    log.info("API key %s rotated to %s by %s", old.pk, new.pk, actor_name(actor))
    return new, text


def change_key(
    *,
    key: ApiKey,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    name: str | None = None,
    check: Callable[[ApiKey], None] | None = None,
) -> ApiKey:
    """Give a key another name and other rights: in force within `KEY_CACHE_S`, for what is open as
    well.

    changes: of `KeyRights`' fields; others stay
    check: is shown the key as it is, while nobody else changes it, and raises if that isn't what
        the change was meant for

    Called in the account's tenant scope. Raises BadRequest for a key that is not usable, an empty
    or too long name, and rights that there aren't; PermissionDenied `scope_not_yours`.
    """
    with transaction.atomic():
        row: ApiKey = ApiKey.objects.select_for_update(of=("self",)).get(pk=key.pk)
        if check is not None:
            check(row)
        rights = replace(_rights_of(row), **changes)
        _check_rights(rights)
        _check_name(row.name if name is None else name)
        if not row.is_usable(now=now):
            raise BadRequest(gettext_noop("A key that is expired or revoked is not changed."))
        _check_giver(actor, {*rights.scopes, *row.scopes}, "")
        before = key_audit.changeable(row)
        row.name = row.name if name is None else name
        _set_rights(row, rights)
        row.save(update_fields=["name", *key_audit.RIGHTS])
        key_audit.changed(row, before, actor=actor, now=now)
    log.info("API key %s changed by %s", row.pk, actor_name(actor))
    return row


def _rights_of(key: ApiKey) -> KeyRights:
    return KeyRights(key.highest_priority, key.scopes, key.model_names, key.networks)


def _set_rights(key: ApiKey, rights: KeyRights) -> None:
    key.highest_priority = rights.highest_priority
    key.scopes = sorted(set(rights.scopes))
    key.model_names = sorted(set(rights.model_names))
    key.networks = [str(as_network(text)) for text in rights.networks]


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
    return _record_of(authorization).check(now=now)


@sensitive_variables()
def let_in(authorization: str, *, where: Address | None, now: datetime) -> Principal:
    """Whom an `Authorization` header speaks for, used from an address: as the database has it now.

    Raises as `authenticate_key`, and PermissionDenied `address_not_allowed`.
    """
    record = _record_of(authorization)
    principal = record.check(now=now)
    rights_checks.check_address(record.networks, where)
    if key_usage.is_news(record.last_used_at, now):
        key_usage.write({record.id}, {}, now=now)
    return principal


@sensitive_variables()
def _record_of(authorization: str) -> key_records.KeyRecord:
    text = presented(authorization)
    record = key_records.read(text.id)
    if not key_records.matches(text, record) or record is None:
        raise key_records.refused()
    return record


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
    _check_name(name)
    if not service_account.is_active:
        raise BadRequest(gettext_noop("The service account is inactive."), param="service_account")
    if expires_at is not None and expires_at <= now:
        raise BadRequest(gettext_noop("The expiry must be in the future."), param="expires_at")


def _check_name(name: str) -> None:
    if not 0 < len(name) <= NAME_LENGTH:
        raise BadRequest(gettext_noop("The key needs a name of 1 to 100 characters."), param="name")


def _check_giver(actor: Actor, scopes: Iterable[str], replaces: str) -> None:
    """Keys make no other keys that manage the tenant, or one that leaked would outlive its
    revocation by those it made; a key may rotate itself.
    """
    is_key = isinstance(actor, Principal) and actor.key_id is not None
    if is_key and "admin" in scopes and cast(Principal, actor).key_id != replaces:
        raise PermissionDenied(
            gettext_noop("Only people give API keys the scope admin, or change one that has it."),
            code="scope_not_yours",
            param="scopes",
        )


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
