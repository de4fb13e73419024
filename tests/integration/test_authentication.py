from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking

ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/fake"),
    ("GET", "/v1/models/unknown"),
    ("POST", CHAT),
    ("GET", "/v1/unknown"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/"),
]


def refusal(response: httpx.Response) -> str:
    assert response.status_code == 401, response.text
    assert response.headers["WWW-Authenticate"] == "Bearer"
    error = response.json()["error"]
    assert (error["code"], error["type"]) == ("invalid_api_key", "authentication_error")
    return str(error["message"])


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_wants_a_key(stack: Stack, method: str, path: str) -> None:
    refusal(httpx.request(method, stack.url + path, json=asking()))


def test_every_reason_is_told_in_the_same_words(stack: Stack) -> None:
    key = stack.acme.key
    headers = [
        "",
        "Bearer",
        f"Basic {key}",
        key,
        f"Bearer {key[:-1]}",
        f"Bearer {key[:-1]}é",
        f"Bearer {key}x",
        f"Bearer {key} {key}",
        f"Bearer {stack.acme.revoked_key}",
        "Bearer ' OR 1=1 --",
        "Bearer " + "x" * 4000,
    ]
    with httpx.Client(base_url=stack.url) as client:
        told = {
            refusal(client.get("/v1/models", headers={"Authorization": each.encode()}))
            for each in headers
        }
    assert len(told) == 1


def test_a_body_is_not_looked_at_before_the_key(stack: Stack) -> None:
    refusal(httpx.post(stack.url + CHAT, content=b"{"))


def test_the_key_of_a_tenant_that_was_switched_off(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {stack.closed.key}"}
    response = httpx.post(stack.url + CHAT, headers=headers, json=asking())
    assert response.status_code == 403
    error = response.json()["error"]
    assert (error["code"], error["type"]) == ("tenant_suspended", "permission_error")


def test_a_session_cookie_opens_no_api(stack: Stack) -> None:
    cookies = {"sessionid": stack.acme.session}
    refusal(httpx.get(f"{stack.url}/v1/models", cookies=cookies))


def test_a_key_that_is_revoked_is_refused_by_every_process(stack: Stack) -> None:
    second, url = stack.start_web()
    headers = {"Authorization": f"Bearer {stack.globex.key}"}
    key_id = stack.globex.key.split("_")[2]
    change = "UPDATE tenants_apikey SET revoked_at = :at WHERE id = :id"
    try:
        for base in (stack.url, url):
            assert httpx.get(f"{base}/v1/models", headers=headers).status_code == 200
        stack.store.rows(change, at="2020-01-01 00:00:00+00:00", id=key_id)
        for base in (stack.url, url):
            wait_until(
                lambda base=base: (  # type: ignore[misc]
                    httpx.get(f"{base}/v1/models", headers=headers).status_code == 401
                ),
                what="the revoked key is refused",
            )
    finally:
        stack.store.rows(change, at=None, id=key_id)
        second.end()


INJECTIONS = ["' OR 1=1 --", "'; DROP TABLE tenants_apikey; --", '" OR ""="', "%27%20OR%201", "\\"]
CANNOT_BE = [
    "",
    "null",
    "nhr_dev_",
    *INJECTIONS,
    *(f"nhr_dev_{word}" for word in INJECTIONS),
    "ünïcödé",
    "\u0661" * 78,
    "x" * 7000,
]


def spoiled(key: str) -> list[str]:
    """What could be taken for the key, and isn't."""
    _, environment, public, rest = key.split("_")
    return [
        key[:-1],
        key[:40],
        f"{key}x",
        f"{key}'",
        f"{key} {key}",
        f"{key},{key}",
        key.upper(),
        key.replace(f"_{environment}_", "_prod_"),
        key.replace(f"_{environment}_", "_"),
        f"nhr_{environment}_{public}_{rest[:-6]}000000",
        f"nhr_{environment}_{public[::-1]}_{rest}",
    ]


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "Api-Key"])
def test_every_header_goes_through_the_same_checks(stack: Stack, name: str) -> None:
    scheme = "Bearer " if name == "Authorization" else ""
    bad = [*CANNOT_BE, *spoiled(stack.acme.key), stack.acme.revoked_key]
    with httpx.Client(base_url=stack.url) as client:
        told = set()
        for key in bad:
            response = client.get("/v1/models", headers={name: f"{scheme}{key}".strip().encode()})
            told.add(refusal(response))
            assert "Traceback" not in response.text
        assert len(told) == 1
        good = {name: f"{scheme}{stack.acme.key}"}
        assert client.get("/v1/models", headers=good).status_code == 200
        off = client.get("/v1/models", headers={name: f"{scheme}{stack.closed.key}"})
        assert (off.status_code, off.json()["error"]["code"]) == (403, "tenant_suspended")


@pytest.mark.parametrize(
    "names",
    [
        ("Authorization", "Authorization"),
        ("X-API-Key", "X-API-Key"),
        ("Authorization", "X-API-Key"),
        ("Authorization", "Api-Key"),
        ("X-API-Key", "Api-Key"),
    ],
)
def test_two_keys_are_none(stack: Stack, names: tuple[str, str]) -> None:
    """Not even twice the same: which of them counts would be anybody's guess."""
    schemes = {"Authorization": "Bearer "}
    for keys in ((stack.acme.key, stack.acme.key), (stack.acme.key, "other")):
        headers = [
            (name, schemes.get(name, "") + key) for name, key in zip(names, keys, strict=True)
        ]
        refusal(httpx.get(f"{stack.url}/v1/models", headers=headers))


# -- Rights


@contextmanager
def limited(stack: Stack, column: str, value: list[str]) -> Iterator[httpx.Client]:
    """A client whose key has a right less, once that is known."""
    key = stack.globex.other_key
    change = f"UPDATE tenants_apikey SET {column} = :value WHERE id = :id"  # noqa: S608
    before = {"scopes": ["chat"]}.get(column, [])
    with httpx.Client(base_url=stack.url, headers={"X-API-Key": key}, timeout=30) as client:
        stack.store.rows(change, value=json.dumps(value), id=key.split("_")[2])
        try:
            yield client
        finally:
            stack.store.rows(change, value=json.dumps(before), id=key.split("_")[2])
            wait_until(
                lambda: client.post(CHAT, json=asking(max_tokens=1)).status_code == 200,
                what="the right is back",
            )


def denied(client: httpx.Client, method: str, path: str, **body: Any) -> str:
    """The code of the refusal, once it is known."""
    response = wait_until(
        lambda: (got := client.request(method, path, **body)).status_code == 403 and got,
        what="it is denied",
    )
    error = response.json()["error"]
    assert error["type"] == "permission_error"
    return str(error["code"])


def test_a_key_without_the_scope(stack: Stack) -> None:
    with limited(stack, "scopes", ["usage"]) as client:
        assert denied(client, "POST", CHAT, json=asking()) == "missing_scope"
        for method in ("GET", "DELETE"):
            assert denied(client, method, "/v1/generations/gen_1") == "missing_scope"
        assert denied(client, "GET", "/v1/generations/gen_1/events") == "missing_scope"
        assert client.get("/v1/models").status_code == 200


def test_a_key_for_some_models(stack: Stack) -> None:
    with limited(stack, "model_names", ["lasting", "gone"]) as client:
        assert denied(client, "POST", CHAT, json=asking()) == "model_not_allowed"
        assert [each["id"] for each in client.get("/v1/models").json()["data"]] == ["lasting"]
        # Whether there is a model that it may not use is nothing that it is told.
        for name in ("fake", "nowhere"):
            assert denied(client, "GET", f"/v1/models/{name}") == "model_not_allowed"
            assert denied(client, "POST", CHAT, json=asking(model=name)) == "model_not_allowed"
        allowed = client.post(CHAT, json=asking(model="lasting", max_tokens=1))
        assert allowed.status_code == 200
        assert client.get("/v1/models/gone").json()["error"]["code"] == "model_not_found"


def test_a_key_for_other_networks(stack: Stack) -> None:
    with limited(stack, "networks", ["192.0.2.0/24"]) as client:
        assert denied(client, "GET", "/v1/models") == "address_not_allowed"
        # Nobody is trusted to say whom they forward for.
        client.headers["X-Forwarded-For"] = "192.0.2.1"
        assert denied(client, "POST", CHAT, json=asking()) == "address_not_allowed"
