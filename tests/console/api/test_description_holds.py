"""What the API's description promises, asked of it over a socket with what fits the description and
with what doesn't: no fault of ours, no status and no field that it doesn't tell of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.ground.stack import Stack

PROMISES = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
TOKEN = "a" * 32
EXAMPLES = 6


@pytest.fixture(scope="module")
def described(stores: Any) -> Iterator[Stack]:
    """A platform of this module's own: an operator who tries everything leaves little as it was."""
    import shutil

    from tests.ground import folders

    folder = folders.short("nehir-stack-")
    running = Stack(folder, stores.copy(), stores.world)
    try:
        yield running.start(engine=False)
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def headers(stack: Stack, who: str) -> dict[str, str]:
    if who == "operator":
        cookies = f"sessionid={stack.operator}; csrftoken={TOKEN}"
        return {"Cookie": cookies, "X-CSRFToken": TOKEN}
    tenant = stack.acme if who == "admin_key" else stack.globex
    return {"Authorization": f"Bearer {tenant.admin_key}"}


def described_for(stack: Stack, who: str) -> dict[str, Any]:
    """The description, with addresses that lead somewhere."""
    asked = httpx.get(f"{stack.url}/api/v1/openapi.json", headers=headers(stack, who))
    description: dict[str, Any] = asked.json()
    (account,) = stack.store.rows(
        "SELECT id FROM tenants_serviceaccount WHERE tenant_id = :t AND name = 'another app'",
        t=stack.acme.id,
    )
    (member,) = stack.store.rows(
        "SELECT id FROM auth_user WHERE username = :name", name=stack.acme.username
    )
    ids = {
        "tenant_id": stack.acme.id,
        "account_id": account["id"],
        "person_id": str(member["id"]),
        "key_id": stack.acme.other_key.split("_")[2],
    }
    for operations in description["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = {"enum": [ids[parameter["name"]], "nothing"]}
    return description


# The operator last: what they suspend and revoke is refused from then on.
@pytest.mark.parametrize("who", ["stranger", "admin_key", "operator"])
@pytest.mark.parametrize("mode", [GenerationMode.NEGATIVE, GenerationMode.POSITIVE], ids=str)
def test_the_description_holds(described: Stack, who: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(described_for(described, who))
    kept = [*PROMISES, checks.negative_data_rejection] if mode.is_negative else PROMISES
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode.is_negative and not _can_be_wrong(operation):
            continue
        tried += 1
        strategy = operation.as_strategy(generation_mode=mode)
        examine(strategy, described, headers(described, who), kept)
    assert tried >= 20


def _can_be_wrong(operation: Any) -> bool:
    return bool(operation.body or operation.query)


def examine(strategy: Any, stack: Stack, sent: dict[str, str], kept: list[Any]) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        response = case.call(base_url=stack.url, headers=sent)
        case.validate_response(response, checks=kept)

    ask()
