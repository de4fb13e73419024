from __future__ import annotations

import pytest

from tests.console.api.callers import Callers, admin_key, client_of
from tests.tenants.worlds import World, joined, person, platform_person


@pytest.fixture
def callers(acme: World, globex: World) -> Callers:
    """By what they are to acme."""
    people = {
        "operator": platform_person("operator"),
        "platform_auditor": platform_person("auditor"),
        "owner": acme.owner,
        "admin": acme.admin,
        "member": acme.member,
        "billing": joined(acme, person("acme-billing", staff=True), "billing"),
        "auditor": joined(acme, person("acme-auditor", staff=True), "auditor"),
        "stranger": globex.owner,
    }
    found = {name: client_of(user) for name, user in people.items()}
    found["admin_key"] = client_of(key=admin_key(acme))
    found["strange_key"] = client_of(key=admin_key(globex))
    found["chat_key"] = client_of(key=acme.key_text)
    found["nobody"] = client_of()
    return found
