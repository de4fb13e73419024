"""Every page, asked for by one tenant's people with another one's things in address and form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from tests.console.samples import furnish
from tests.console.test_two_tenants import belongings, nothing_points_across
from tests.isolation.addresses import PROBES, Address, Probe, addresses, probe_of
from tests.tenants.worlds import World, joined, person

# Whatever is asked for by nobody leads to the sign-in page, or is refused.
CLOSED = {301, 302, 401, 403, 404, 405}
ROLES = ("owner", "admin", "member", "auditor", "billing")


def test_every_address_is_probed() -> None:
    known = [each.pattern for each in addresses()]
    missing = [each.pattern for each in addresses() if probe_of(each) is None]
    assert not missing, f"Say in tests/isolation/addresses.py how these are probed: {missing}"
    assert not set(PROBES) - set(known), "These addresses are gone."


def path_of(pattern: str, ids: dict[str, Any]) -> str:
    """The address with its variables filled in; what nobody named gets a word of its own."""

    def fill(found: re.Match[str]) -> str:
        return str(ids.get(found["name"], "1" if found[0].startswith("<int") else "unknown-word"))

    plain = pattern.replace("^", "").replace("$", "")
    plain = re.sub(r"\(\?P<(?P<name>\w+)>[^()]*\)", fill, plain)
    return "/" + re.sub(r"<(?:\w+:)?(?P<name>\w+)>", fill, plain)


@pytest.fixture(autouse=True)
def _as_in_production(settings: Settings) -> None:
    settings.METRICS_TOKEN = "only the monitoring knows"


@pytest.fixture(params=ROLES)
def intruder(request: pytest.FixtureRequest, acme: World, globex: World) -> User:
    for each in (acme, globex):
        furnish(each)
    user: User | None = getattr(acme, request.param, None)
    return user or joined(acme, person("acme-other", staff=True), request.param)


def test_no_address_shows_or_takes_what_is_anothers(intruder: User, globex: World) -> None:
    before = belongings(globex)
    for address in addresses():
        probe = probe_of(address)
        assert probe is not None
        for method in ("get", "post"):
            # Anew each time: some pages sign out.
            client = Client(raise_request_exception=True)
            client.force_login(intruder)
            found = answer(client, address, probe, globex, method)
            tells = told(found)
            for text in (*echoed(probe, globex, method), found.request["PATH_INFO"]):
                tells = tells.replace(text, "")
            assert "globex" not in tells, (method, address.pattern)
            assert probe.found or found.status_code != 200, (method, address.pattern)
    assert belongings(globex) == before
    nothing_points_across()


def test_nobody_sees_anything(acme: World, globex: World) -> None:
    furnish(globex)
    before = belongings(globex)
    for address in addresses():
        probe = probe_of(address)
        assert probe is not None
        for method in ("get", "post"):
            client = Client(raise_request_exception=True)
            found = answer(client, address, probe, globex, method)
            tells = told(found)
            for text in (*echoed(probe, globex, method), found.request["PATH_INFO"]):
                tells = tells.replace(text, "")
            assert "globex" not in tells, (method, address.pattern)
            assert probe.anonymous or found.status_code in CLOSED, (method, address.pattern)
    assert belongings(globex) == before


def answer(client: Client, address: Address, probe: Probe, named: World, method: str) -> Any:
    path = path_of(address.pattern, probe.with_ids(named))
    data = probe.post(named) if method == "post" else {}
    return getattr(client, method)(path, data)


def echoed(probe: Probe, named: World, method: str) -> list[str]:
    """What whoever asks has said itself."""
    if method == "get":
        return []
    return sorted({str(value) for value in probe.post(named).values()}, key=len, reverse=True)


def told(response: Any) -> str:
    """All that an answer says."""
    body = b"".join(response) if response.streaming else response.content
    return body.decode(errors="replace") + "".join(map(str, response.headers.items()))
