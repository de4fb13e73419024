"""Guessing: limited by account and by address, told alike for names that nobody has, and written
down within bounds. Never measured by time."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth import hashers
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from kernel.cache import OutageCache
from tests.tenants.recorded import new_records
from tests.tenants.signing_in import try_in, with_password
from tests.tenants.worlds import World

REFUSED = "The user name or the password is not right"


@pytest.fixture
def member(acme: World) -> User:
    return with_password(acme.member)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that a password is put through the hasher."""
    calls: list[str] = []
    hasher = hashers.get_hasher()
    encode = type(hasher).encode

    def counted(self: object, password: str, *args: object, **kwargs: object) -> str:
        calls.append(password)
        return str(encode(self, password, *args, **kwargs))  # type: ignore[arg-type]

    monkeypatch.setattr(type(hasher), "encode", counted)
    return calls


@pytest.mark.parametrize("name", ["acme-member", "nobody-at-all"])
def test_an_account_is_tried_so_often_and_no_more(name: str, member: User) -> None:
    answers = [try_in(name, "guess", REMOTE_ADDR=f"192.0.2.{each}")[1] for each in range(7)]
    assert answers == [200] * 5 + [429] * 2
    # The right password is not looked at either: else guessing would go on.
    client, status = try_in(name)
    assert status == 429
    reply = client.post("/login/", {"username": name, "password": "x"})
    assert reply["Retry-After"] == "300"
    assert "Too many failed attempts" in reply.content.decode()
    turkish = client.post(
        "/login/", {"username": name, "password": "x"}, headers={"accept-language": "tr"}
    )
    assert "Çok fazla başarısız deneme" in turkish.content.decode()


def test_an_address_tries_so_often_at_whatever_names(member: User) -> None:
    answers = [try_in(f"name-{each}", "guess", REMOTE_ADDR="192.0.2.9")[1] for each in range(21)]
    assert answers == [200] * 20 + [429]
    assert try_in("acme-member", REMOTE_ADDR="192.0.2.9")[1] == 429
    assert try_in("acme-member", REMOTE_ADDR="192.0.2.10")[1] == 302


def test_a_header_that_nobody_vouches_for_is_no_other_address(db: None) -> None:
    for each in range(20):
        try_in(f"name-{each}", "guess", HTTP_X_FORWARDED_FOR=f"203.0.113.{each}")
    assert try_in("another", "guess", HTTP_X_FORWARDED_FOR="203.0.113.99")[1] == 429


def test_another_host_name_is_no_other_account(member: User) -> None:
    for each in range(5):
        try_in("acme-member", "guess", HTTP_HOST=f"host{each}.example")
    assert try_in("acme-member", "guess", HTTP_HOST="another.example")[1] == 429


def test_signing_in_is_no_failure(member: User) -> None:
    assert [try_in("acme-member")[1] for _ in range(8)] == [302] * 8


def test_what_is_written_down_of_guessing_is_bounded(member: User) -> None:
    with new_records() as found:
        for _ in range(12):
            try_in("acme-member", "guess")
    reasons = [row.reason for row in found]
    assert reasons == ["invalid_login"] * 5 + ["too_many_attempts"]
    with new_records() as found:
        for each in range(70):
            try_in(f"name-{each}", "guess", REMOTE_ADDR=f"198.51.100.{each}")
    reasons = [row.reason for row in found]
    assert len(reasons) == 60 - 5 + 1
    assert reasons[-1] == "many_failures_untold"


def test_a_name_that_nobody_has_takes_the_same_work_and_answer(
    acme: World, member: User, hashed: list[str]
) -> None:
    off = with_password(acme.admin)
    off.is_active = False
    off.save()
    hashed.clear()
    seen = []
    for name, password in (("acme-member", "guess"), ("nobody", "guess"), (off.username, "guess")):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client, status = try_in(name, password)
        page = client.post("/login/", {"username": name, "password": password}).content.decode()
        shape = [query["sql"].split()[0] for query in queries.captured_queries]
        seen.append((status, REFUSED in page, len(hashed), shape))
        hashed.clear()
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][:3] == (200, True, 2)
    # With the right password neither.
    client, status = try_in(off.username)
    assert (status, len(hashed)) == (200, 1)


def test_while_redis_is_away_each_process_counts_for_itself(
    tmp_path: Path,
) -> None:
    away = OutageCache(f"unix://{tmp_path}/no.sock", {})
    assert away.add("a", 1, timeout=60)
    assert not away.add("a", 2, timeout=60)
    assert away.get("a") == 1
    away.set("a", [3], 60)
    assert away.get("a") == [3]
    assert away.delete("a")
    assert away.get("a", "gone") == "gone"
