from __future__ import annotations

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from kernel.networks import as_address, as_network
from web.client_address import client_address

PROXIES = (as_network("10.0.0.0/8"), as_network("2001:db8::/32"))


def seen(peer: str, forwarded: str | None = None) -> str | None:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    request = RequestFactory().get("/v1/models", headers=headers, REMOTE_ADDR=peer)
    address = client_address(request)
    return None if address is None else str(address)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        # Whoever isn't trusted may write what they like.
        ("203.0.113.9", None, "203.0.113.9"),
        ("203.0.113.9", "10.0.0.1", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1, 10.0.0.1", "203.0.113.9"),
        ("::1", "198.51.100.1", "::1"),
        # A trusted proxy tells its peer, last.
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1,203.0.113.9,  2001:db8::5", "203.0.113.9"),
        ("::ffff:10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "2001:db9::1", "2001:db9::1"),
        # It tells nobody, or nothing that could be read: unknown, and never the proxy itself.
        ("10.0.0.1", None, None),
        ("10.0.0.1", "", None),
        ("10.0.0.1", "unknown", None),
        ("10.0.0.1", "203.0.113.9, ", None),
        ("10.0.0.1", "203.0.113.9:1234", None),
        ("10.0.0.1", "10.0.0.2, 10.0.0.3", None),
        ("", "203.0.113.9", None),
    ],
)
def test_the_client_behind_trusted_proxies(
    settings: Settings, peer: str, forwarded: str | None, client: str | None
) -> None:
    settings.TRUSTED_PROXIES = PROXIES
    assert seen(peer, forwarded) == client


def test_nobody_is_trusted_unless_said(settings: Settings) -> None:
    assert settings.TRUSTED_PROXIES == ()
    assert seen("127.0.0.1", "203.0.113.9") == "127.0.0.1"


def test_a_chain_without_end_is_read_from_its_end(settings: Settings) -> None:
    settings.TRUSTED_PROXIES = PROXIES
    assert seen("10.0.0.1", "1.2.3.4, " * 100_000 + "203.0.113.9") == "203.0.113.9"
    assert seen("10.0.0.1", "203.0.113.9" + ", 10.0.0.2" * 100_000) is None


@given(prefix=st.lists(st.sampled_from(["10.0.0.1", "203.0.113.9", "x", "", "::1"]), max_size=5))
def test_what_a_client_writes_in_front_changes_nothing(prefix: list[str]) -> None:
    from django.conf import settings

    before, settings.TRUSTED_PROXIES = settings.TRUSTED_PROXIES, PROXIES
    try:
        assert seen("10.0.0.1", ",".join([*prefix, "198.51.100.7"])) == "198.51.100.7"
    finally:
        settings.TRUSTED_PROXIES = before


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "", "example.org", "10.0.0"])
def test_what_is_no_network(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        as_network(text)


def test_an_ipv4_address_is_itself_however_it_is_written() -> None:
    assert as_address("::ffff:192.0.2.1") == as_address("192.0.2.1")
    assert as_network("::ffff:192.0.2.0/120") == as_network("192.0.2.0/24")
    assert as_address("fe80::1%eth0") is not None
    assert as_address("192.0.2.1\x00") is None
