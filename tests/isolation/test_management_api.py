"""Every address of the management API, asked by one tenant's people and keys for another one's
things: under its tenant, and under their own.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import get_resolver

from tests.console.api.callers import admin_key
from tests.console.samples import furnish
from tests.console.test_two_tenants import belongings, nothing_points_across
from tests.isolation.addresses import walked
from tests.isolation.test_every_address import path_of, told
from tests.tenants.worlds import World, joined, person

URLCONF = "console.api.urls"
PATTERNS = [f"api/v1/{pattern}" for pattern, _ in walked(get_resolver(URLCONF).url_patterns)]
METHODS = ("get", "post", "put", "patch", "delete")
CALLERS = ("owner", "admin", "member", "auditor", "billing", "admin_key", "chat_key", "nobody")
REFUSED = {400, 401, 403, 404, 405, 409, 412, 415, 428}
# Every variable that an address of this API has, and whose thing it names. One more fails below.
IDS = {
    "tenant_id": lambda world: world.tenant.pk,
    "person_id": lambda world: world.member.pk,
    "account_id": lambda world: world.account.pk,
    "key_id": lambda world: world.key.pk,
}


def variables(pattern: str) -> list[str]:
    return [part.split(":")[1] for part in pattern.replace(">", "<").split("<") if ":" in part]


def test_every_variable_of_an_address_can_be_filled_in() -> None:
    used = {name for pattern in PATTERNS for name in variables(pattern)}
    assert used == set(IDS), "Say in IDS which of the other tenant's things it names."


@pytest.fixture(params=CALLERS)
def intruder(request: pytest.FixtureRequest, acme: World, globex: World) -> Client:
    for each in (acme, globex):
        furnish(each)
    name = request.param
    keys = {"admin_key": admin_key, "chat_key": lambda world: world.key_text}
    if name in keys:
        return Client(headers={"authorization": f"Bearer {keys[name](acme)}"})
    client = Client()
    if name != "nobody":
        user = getattr(acme, name, None)
        client.force_login(user or joined(acme, person("acme-other", staff=True), name))
    return client


def bodies(named: World) -> list[dict[str, Any]]:
    """What a change may say, with the world's things wherever one can be named."""
    ids = {name: str(find(named)) for name, find in IDS.items()}
    return [
        {},
        {
            **ids,
            "tenant": ids["tenant_id"],
            "person": ids["person_id"],
            "service_account": ids["account_id"],
            "service_account_id": ids["account_id"],
            "username": named.member.username,
            "name": "taken",
            "role": "billing",
            "scopes": ["chat"],
            "is_active": False,
        },
    ]


def ask(client: Client, method: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Idempotency-Key": uuid4().hex, "If-Match": "*"}
    if method == "get":
        return client.get(path, headers=headers)
    asked = getattr(client, method)
    return asked(path, data=body, content_type="application/json", headers=headers)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_nothing_of_anothers_is_shown_or_taken(
    pattern: str, intruder: Client, acme: World, globex: World
) -> None:
    before = belongings(globex)
    theirs = {name: find(globex) for name, find in IDS.items()}
    # An id of theirs under one's own tenant is not there either.
    mixed = theirs | {"tenant_id": acme.tenant.pk}
    for method in METHODS:
        for ids in (theirs, mixed):
            names_theirs = any(ids[name] == theirs[name] for name in variables(pattern))
            for body in bodies(globex):
                path = path_of(pattern, ids)
                found = ask(intruder, method, path, body)
                where = (method, path, found.status_code)
                if names_theirs:
                    assert found.status_code in REFUSED, where
                tells = told(found)
                for text in {path, *(str(value) for value in body.values())}:
                    tells = tells.replace(text, "")
                assert "globex" not in tells, where
                assert globex.key.pk not in tells, where
    assert belongings(globex) == before
    nothing_points_across()
