"""What no page shows can't be asked for either: a filter on it would tell it letter by letter."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import site
from django.db.models import Model
from django.test import Client

from inference.models import Checkpoint, ReplayKey
from streaming.models import Conversation
from tests.console.samples import first, furnish
from tests.tenants.worlds import World

PRIVATE = [
    (Conversation, "title"),
    (Checkpoint, "request"),
    (ReplayKey, "key_digest"),
    (ReplayKey, "body_digest"),
]


def reader(acme: World, operator: Client, kind: str) -> Client:
    if kind == "operator":
        return operator
    client = Client()
    client.force_login(acme.owner)
    return client


@pytest.mark.parametrize("kind", ["owner", "operator"])
@pytest.mark.parametrize(("model", "field"), PRIVATE)
@pytest.mark.parametrize("lookup", ["", "__startswith", "__contains", "__gt", "__isnull"])
def test_a_lookup_is_refused(
    model: type[Model], field: str, lookup: str, kind: str, acme: World, operator: Client
) -> None:
    furnish(acme)
    address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    client = reader(acme, operator, kind)
    assert client.get(address, {f"{field}{lookup}": "a"}).status_code == 400


@pytest.mark.parametrize("kind", ["owner", "operator"])
@pytest.mark.parametrize("model", sorted({model for model, _ in PRIVATE}, key=str))
def test_no_page_shows_it(model: Any, kind: str, acme: World, operator: Client) -> None:
    furnish(acme)
    row = first(model)(acme)
    client = reader(acme, operator, kind)
    for page in ("", "?q=secret", f"{row.pk}/change/", f"{row.pk}/history/"):
        address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/{page}"
        text = client.get(address).content.decode().replace('value="secret"', "")
        assert "acme secret" not in text
        assert "-digest" not in text


def test_every_unshown_field_of_a_tenants_record_is_private() -> None:
    """One that is added to a model has to be shown or named, here and in its admin."""
    for model in {model for model, _ in PRIVATE}:
        admin: Any = site._registry[model]
        shown = {"id", "tenant", "user", *admin.fields}
        names = {field.name for field in model._meta.concrete_fields}
        assert names - shown == set(admin.private_fields)
