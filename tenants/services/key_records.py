"""What the database says of API keys, in one slim query for any number of them."""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_variables

from kernel.errors import PermissionDenied, Unauthenticated
from kernel.networks import Network, as_network
from tenants import key_format, scope
from tenants.models import ApiKey
from tenants.models.tenant import read_ahead
from tenants.principal import Principal
from tenants.priority import PriorityClass, lower

# The values of FIELDS, as the database gives them.
Row = tuple[Any, ...]

# What an unknown key is compared with, so that it takes as long as a known one with a wrong secret.
_NO_DIGEST = "0" * hashlib.sha256().digest_size * 2

# Keys in use are read again and again, so the query is put together once for each of these numbers
# of keys, which costs ten times what running it does, and only rows that have changed are looked
# into.
SIZES = (1, 16, 250)
FIELDS = (
    "id",
    "digest",
    "pepper_version",
    "revoked_at",
    "expires_at",
    "last_used_at",
    "scopes",
    "model_names",
    "networks",
    "highest_priority",
    "service_account_id",
    "service_account__is_active",
    "tenant_id",
    "tenant__is_active",
    "tenant__high_water_tokens",
    "tenant__own_high_water_tokens",
    "tenant__weight",
    "tenant__default_priority",
    "tenant__highest_priority",
)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key with all that decides about it, as of one moment.

    row: what this was made of
    is_on: neither it was revoked nor its account switched off
    """

    row: Row
    digest: str
    pepper_version: int
    expires_at: datetime | None
    last_used_at: datetime | None
    is_on: bool
    tenant_is_active: bool
    networks: tuple[Network, ...]
    principal: Principal

    @property
    def id(self) -> str:
        return str(self.row[0])

    def is_expired(self, *, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def check(self, *, now: datetime) -> Principal:
        """Whom it speaks for. Raises Unauthenticated, the same for every reason, and
        PermissionDenied `tenant_suspended` for a good key of a tenant that is suspended.
        """
        if not self.is_on or self.is_expired(now=now):
            raise refused()
        if not self.tenant_is_active:
            raise PermissionDenied(
                gettext_noop("This tenant is suspended. Ask the platform's operators."),
                code="tenant_suspended",
            )
        return self.principal


def read(key_id: str) -> KeyRecord | None:
    """What is known of a key, if there is such a key. One query."""
    found = rows([key_id])
    return of(found[0]) if found else None


def rows(ids: Sequence[str]) -> list[Row]:
    """Of the keys that there are of these, of any tenants; a query for every 250 keys."""
    found: list[Row] = []
    for start in range(0, len(ids), SIZES[-1]):
        batch = list(ids[start : start + SIZES[-1]])
        size = next(size for size in SIZES if size >= len(batch))
        with connection.cursor() as cursor:
            cursor.execute(_query(size), batch + batch[-1:] * (size - len(batch)))
            found += cursor.fetchall()
    return found


@functools.cache
def _query(size: int) -> str:
    with scope.whole_platform():
        wanted = ApiKey.objects.filter(pk__in=[str(number) for number in range(size)])
        sql: str = wanted.order_by().values_list(*FIELDS).query.sql_with_params()[0]
    return sql


def of(row: Row) -> KeyRecord:
    """The record that a row of FIELDS makes."""
    value = dict(zip(FIELDS, row, strict=True))
    return KeyRecord(
        row=row,
        digest=value["digest"],
        pepper_version=value["pepper_version"],
        expires_at=_moment(value["expires_at"]),
        last_used_at=_moment(value["last_used_at"]),
        is_on=value["revoked_at"] is None and bool(value["service_account__is_active"]),
        tenant_is_active=bool(value["tenant__is_active"]),
        networks=tuple(map(as_network, json.loads(value["networks"]))),
        principal=_principal(value),
    )


def _principal(value: dict[str, Any]) -> Principal:
    """Its priorities are the tenant's, as far as the key's reach."""
    own, tenants = value["highest_priority"], value["tenant__highest_priority"]
    highest = lower(cast(PriorityClass, own), cast(PriorityClass, tenants))
    return Principal(
        value["tenant_id"],
        "service_account",
        value["service_account_id"],
        key_id=value["id"],
        high_water_tokens=read_ahead(
            value["tenant__high_water_tokens"], value["tenant__own_high_water_tokens"]
        ),
        weight=value["tenant__weight"],
        default_priority=lower(cast(PriorityClass, value["tenant__default_priority"]), highest),
        highest_priority=highest,
        scopes=frozenset(json.loads(value["scopes"])),
        models=frozenset(json.loads(value["model_names"])) or None,
    )


def _moment(value: datetime | None) -> datetime | None:
    """SQLite keeps moments without a zone, in UTC."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


@sensitive_variables()
def matches(presented: key_format.KeyText, record: KeyRecord | None) -> bool:
    """Whether the secret is the key's; takes as long for a key that isn't there."""
    known = record is not None and record.pepper_version in settings.KEY_PEPPERS
    current: int = settings.KEY_PEPPER_VERSION
    version = record.pepper_version if record is not None and known else current
    expected = record.digest if record is not None and known else _NO_DIGEST
    return hmac.compare_digest(expected, digest(presented.secret, version))


@sensitive_variables()
def digest(secret: str, pepper_version: int) -> str:
    """HMAC-SHA256 of a secret, 64 hex digits."""
    pepper: str = settings.KEY_PEPPERS[pepper_version]
    return hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).hexdigest()


def refused() -> Unauthenticated:
    return Unauthenticated(gettext_noop("The API key is missing, wrong, expired or revoked."))
