from __future__ import annotations

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
    assert (error["code"], error["type"]) == ("tenant_inactive", "permission_error")


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
