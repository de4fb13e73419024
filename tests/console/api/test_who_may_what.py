"""Each operation asked for by everybody, of one's own tenant and of another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern
from django.utils import timezone

from console.api import urls
from kernel.ids import new_id
from tests.console.api.callers import BASE, Callers, problem
from tests.tenants.worlds import World, person

OWN = "/tenants/{tenant}"
KEY = {"service_account_id": "{account}", "name": "k"}
NEW = {"slug": "new", "name": "New"}
SEERS = {"operator", "platform_auditor", "owner", "admin", "auditor", "admin_key"}
MANAGERS = {"operator", "owner", "admin", "admin_key"}
BILLED = SEERS | {"billing"}
OPERATORS = {"operator"}
PLATFORM = {"operator", "platform_auditor"}
# Who may, and what they are told then. Everybody else is denied.
TABLE: list[tuple[str, str, Any, set[str], int]] = [
    ("GET", OWN, None, BILLED, 200),
    ("PATCH", OWN, {"name": "n"}, OPERATORS, 200),
    ("POST", f"{OWN}/suspend", {"reason": "Not paid."}, OPERATORS, 200),
    ("POST", f"{OWN}/resume", None, OPERATORS, 409),
    ("GET", f"{OWN}/limits", None, BILLED, 200),
    ("PATCH", f"{OWN}/limits", {"weight": 2}, OPERATORS, 428),
    ("GET", f"{OWN}/members", None, SEERS, 200),
    ("POST", f"{OWN}/members", {"username": "friend", "role": "member"}, MANAGERS, 201),
    ("GET", f"{OWN}/members/{{member}}", None, SEERS, 200),
    ("PATCH", f"{OWN}/members/{{member}}", {"role": "auditor"}, MANAGERS, 200),
    ("DELETE", f"{OWN}/members/{{member}}", None, MANAGERS, 204),
    ("GET", f"{OWN}/service-accounts", None, SEERS, 200),
    ("POST", f"{OWN}/service-accounts", {"name": "new"}, MANAGERS, 201),
    ("GET", f"{OWN}/service-accounts/{{account}}", None, SEERS, 200),
    ("PATCH", f"{OWN}/service-accounts/{{account}}", {"name": "n"}, MANAGERS, 200),
    ("DELETE", f"{OWN}/service-accounts/{{account}}", None, MANAGERS, 409),
    ("GET", f"{OWN}/keys", None, SEERS, 200),
    ("POST", f"{OWN}/keys", KEY, MANAGERS, 201),
    ("GET", f"{OWN}/keys/{{key}}", None, SEERS, 200),
    ("PATCH", f"{OWN}/keys/{{key}}", {"name": "n"}, MANAGERS, 200),
    ("POST", f"{OWN}/keys/{{key}}/rotate", {}, MANAGERS, 201),
    ("POST", f"{OWN}/keys/{{key}}/revoke", None, MANAGERS, 200),
    ("GET", f"{OWN}/audit", None, SEERS, 200),
    ("GET", f"{OWN}/audit/export", None, {"platform_auditor", "auditor"}, 200),
    ("GET", f"{OWN}/usage", None, BILLED, 200),
    ("POST", "/tenants", NEW, OPERATORS, 201),
    ("GET", "/people", None, PLATFORM, 200),
    ("GET", "/people/{member}", None, PLATFORM, 200),
    ("POST", "/people/{member}/deactivate", {}, OPERATORS, 200),
    ("POST", "/people/{member}/activate", None, OPERATORS, 200),
    ("GET", "/audit", None, PLATFORM, 200),
]
STRANGERS = {"stranger", "strange_key"}
ANYBODY = ("/me", "/tenants", "/openapi.json")
NAMES = [
    *("operator", "platform_auditor", "owner", "admin", "member", "billing", "auditor"),
    *("stranger", "admin_key", "strange_key", "chat_key", "nobody"),
]


def filled(text: Any, world: World) -> Any:
    if isinstance(text, dict):
        return {name: filled(value, world) for name, value in text.items()}
    ids = {
        "tenant": world.tenant.pk,
        "member": world.member.pk,
        "account": world.account.pk,
        "key": world.key.pk,
    }
    return text.format(**ids) if isinstance(text, str) else text


def expected(name: str, path: str, allowed: set[str], status: int) -> int:
    if name == "nobody":
        return 401
    if name == "chat_key":
        return 403
    if name in STRANGERS and path.startswith(OWN):
        return 404
    return status if name in allowed else 403


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]} {row[1]}")
def test_every_operation_by_everybody(
    row: tuple[str, str, Any, set[str], int], name: str, callers: Callers, acme: World
) -> None:
    method, path, body, allowed, status = row
    person("friend")
    response = callers[name].ask(method, filled(path, acme), filled(body, acme))
    assert response.status_code == expected(name, path, allowed, status), response.content


@pytest.mark.parametrize("path", [*ANYBODY, "/nowhere", "/tenants/", "/"])
def test_whoever_has_come_in_and_nobody_else(path: str, callers: Callers) -> None:
    problem(callers["nobody"].get(path), 401, "invalid_api_key")
    problem(callers["chat_key"].get(path), 403, "missing_scope")
    for name in ("operator", "member", "admin_key"):
        assert callers[name].get(path).status_code == (200 if path in ANYBODY else 404)


def patterns() -> Iterator[str]:
    for each in urls.urlpatterns:
        assert isinstance(each, URLPattern)
        yield str(each.pattern)


def test_every_address_is_in_the_table() -> None:
    table = {path for _, path, *_ in TABLE} | set(ANYBODY) | {"/docs/", "/"}
    ids = {"<str:tenant_id>": "{tenant}", "<str:person_id>": "{member}"}
    ids |= {"<str:account_id>": "{account}", "<str:key_id>": "{key}"}
    for pattern in patterns():
        address = f"/{pattern}"
        for old, new in ids.items():
            address = address.replace(old, new)
        assert address in table, f"{address} has no row"


INNER = [row for row in TABLE if row[1].startswith(OWN) and row[1].count("{") > 1]


@pytest.mark.parametrize("row", INNER, ids=lambda row: f"{row[0]} {row[1]}")
def test_rows_of_another_tenant_are_not_there(
    row: tuple[str, str, Any, set[str], int], callers: Callers, acme: World, globex: World
) -> None:
    """Named under one's own tenant, and told in the words of what never was."""
    method, path, body, allowed, _ = row
    strange = filled(path.replace("{tenant}", acme.tenant.pk), globex)
    never = path.replace("{tenant}", acme.tenant.pk).format(
        member="999999", account=new_id("sva"), key="0" * 24
    )
    for name in sorted(allowed):
        told = [callers[name].ask(method, each, filled(body, acme)) for each in (strange, never)]
        assert [each.status_code for each in told] == [404, 404]
        first, second = (each.json() | {"request_id": ""} for each in told)
        assert first == second


def test_a_key_is_not_issued_for_another_tenants_application(
    callers: Callers, acme: World, globex: World
) -> None:
    body = {"service_account_id": globex.account.pk, "name": "k"}
    for name in ("admin_key", "owner", "operator"):
        response = callers[name].post(f"/tenants/{acme.tenant.pk}/keys", body)
        told = problem(response, 400, "not_found")
        assert [each["pointer"] for each in told["errors"]] == ["/service_account_id"]


INJECTIONS = ["' OR 1=1 --", "%00", "'; DROP TABLE tenants_tenant; --", "..", "ten_' OR ''='"]


@pytest.mark.parametrize("text", INJECTIONS)
def test_ids_that_cannot_be(text: str, callers: Callers, acme: World) -> None:
    for name in ("operator", "owner", "admin_key"):
        for path in (f"/tenants/{text}", f"/tenants/{text}/keys"):
            assert callers[name].get(path).status_code in (403, 404)
        own = f"/tenants/{acme.tenant.pk}"
        for kind in ("keys", "members", "service-accounts"):
            problem(callers[name].get(f"{own}/{kind}/{text}"), 404, "not_found")
        assert callers[name].get(f"{own}/keys?created_by={text}").status_code in (200, 400)


def test_a_session_needs_the_token_to_change_anything(acme: World) -> None:
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(acme.owner)
    address = f"{BASE}/tenants/{acme.tenant.pk}/service-accounts"
    problem(
        client.post(address, '{"name": "x"}', content_type="application/json"), 403, "csrf_failed"
    )
    assert client.get(address).status_code == 200


def test_a_bad_key_is_refused_whatever_the_session(acme: World, callers: Callers) -> None:
    for header in ("Authorization", "X-API-Key", "Api-Key"):
        response = callers["owner"].get("/me", **{header: "Bearer ' OR 1=1 --"})
        problem(response, 401, "invalid_api_key")
        assert response["WWW-Authenticate"] == "Bearer"


def test_a_revoked_key_is_refused_at_once(acme: World, callers: Callers) -> None:
    from tenants import scope
    from tenants.models import ApiKey

    assert callers["admin_key"].get("/me").status_code == 200
    with scope.tenant(acme.tenant.pk):
        ApiKey.objects.filter(name="management").update(revoked_at=timezone.now())
    problem(callers["admin_key"].get("/me"), 401, "invalid_api_key")
