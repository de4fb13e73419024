"""Whose key it is that was found in a place where none should be."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_variables

from kernel.errors import BadRequest
from tenants import key_format, scope
from tenants.models import ApiKey
from tenants.services import key_records

# Of an id's 24 characters: fewer would find strangers.
SHORTEST = 6
MOST = 20


@dataclass(frozen=True, slots=True)
class Found:
    """key: with its account and tenant
    is_whole: what was found is the key itself, secret included; None if it was only its beginning
    """

    key: ApiKey
    is_whole: bool | None


@sensitive_variables()
def find(text: str) -> list[Found]:
    """The keys that begin as `text` does: a key, whole or cut anywhere, or an id. For operators.

    Raises BadRequest for what is no key's beginning or too little of one; never quotes it.
    """
    text = text.strip()
    beginning = key_format.id_beginning(text)
    if beginning is None or len(beginning) < SHORTEST:
        raise BadRequest(gettext_noop("That is no API key of this platform, or too little of one."))
    whole = key_format.parse(text)
    with scope.whole_platform():
        rows = ApiKey.objects.select_related("service_account", "tenant").order_by("pk")
        keys = list(rows.filter(pk__startswith=beginning)[:MOST])
    return [Found(key, None if whole is None else _is(whole, key)) for key in keys]


def _is(whole: key_format.KeyText, key: ApiKey) -> bool:
    return key_records.matches(whole, key_records.read(key.pk))
