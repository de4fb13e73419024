"""Who asks the management API, in a test."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tenants import scope
from tenants.services.keys import KeyRights, issue_key
from tests.tenants.worlds import World

BASE = "/api/v1"


class Caller:
    """A client that speaks JSON."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        text = "" if body is None else json.dumps(body)
        return self.client.generic(
            method,
            BASE + path,
            text,
            content_type="application/json" if body is not None else "",
            headers=sent,
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.ask("POST", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self.ask("PATCH", path, body, **headers)


Callers = dict[str, Caller]


def client_of(user: User | None = None, *, key: str = "") -> Caller:
    client = Client(headers={"Authorization": f"Bearer {key}"}) if key else Client()
    if user is not None:
        client.force_login(user)
    return Caller(client)


def admin_key(world: World, **rights: Any) -> str:
    with scope.tenant(world.tenant.pk):
        _key, text = issue_key(
            service_account=world.account,
            name="management",
            actor=None,
            now=timezone.now(),
            rights=KeyRights(**{"scopes": ["admin"], **rights}),
        )
    return text


def problem(response: Any, status: int, code: str) -> Any:
    """The problem, once it is looked at."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    told = json.loads(response.content)
    assert (told["status"], told["code"]) == (status, code)
    assert told["type"] == f"urn:nehir:problem:{code}"
    return told
