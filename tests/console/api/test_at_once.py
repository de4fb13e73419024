"""Several who ask at once, over sockets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.conftest import OwnStack
from tests.ground.stack import Stack

MANY = 8


def together(stack: Stack, method: str, path: str, sent: list[dict[str, Any]]) -> list[Any]:
    def ask(each: dict[str, Any]) -> httpx.Response:
        return httpx.request(method, f"{stack.url}/api/v1{path}", timeout=60, **each)

    with ThreadPoolExecutor(MANY) as threads:
        return list(threads.map(ask, sent))


def test_at_once(own_stack: OwnStack) -> None:
    stack = own_stack(engine=False)
    _one_key_is_used_once(stack)
    _of_many_changes_from_one_sight_one_is_made(stack)


def _one_key_is_used_once(stack: Stack) -> None:
    headers = {
        "Authorization": f"Bearer {stack.acme.admin_key}",
        "Idempotency-Key": "once",
    }
    asked = [{"headers": headers, "json": {"name": "new"}}] * MANY
    path = f"/tenants/{stack.acme.id}/service-accounts"
    answers = together(stack, "POST", path, asked) + together(stack, "POST", path, asked[:1])
    made = [each for each in answers if each.status_code == 201]
    waited = [each for each in answers if each.status_code == 409]
    assert len(made) + len(waited) == len(answers)
    assert {each.json()["code"] for each in waited} <= {"idempotency_in_progress"}
    assert all(each.headers["Retry-After"] == "1" for each in waited)
    assert sum("Idempotency-Replayed" not in each.headers for each in made) == 1
    assert len({each.json()["id"] for each in made}) == 1
    rows = stack.store.rows("SELECT id FROM tenants_serviceaccount WHERE name = 'new'")
    assert len(rows) == 1


def _of_many_changes_from_one_sight_one_is_made(stack: Stack) -> None:
    token = "a" * 32
    cookies = {"Cookie": f"sessionid={stack.operator}; csrftoken={token}", "X-CSRFToken": token}
    path = f"/tenants/{stack.acme.id}/limits"
    seen = httpx.get(f"{stack.url}/api/v1{path}", headers=cookies)
    headers = cookies | {"If-Match": seen.headers["ETag"]}
    asked = [{"headers": headers, "json": {"weight": 2 + number}} for number in range(MANY)]
    statuses = [each.status_code for each in together(stack, "PATCH", path, asked)]
    assert sorted(statuses) == [200] + [412] * (MANY - 1)
    now = httpx.get(f"{stack.url}/api/v1{path}", headers=cookies).json()
    assert now["weight"] == 2 + statuses.index(200)
