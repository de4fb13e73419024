from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from kernel.errors import Unauthenticated
from tenants import key_format
from tenants.services.keys import authenticate_key
from tests.tenants.worlds import NOW, World


def find_key(*arguments: str) -> str:
    out = io.StringIO()
    call_command("find_key", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("found", "secret"),
    [
        (lambda key: key, "is the key itself"),
        (lambda key: f"  {key}\n", "is the key itself"),
        (lambda key: key[:-1], "only the beginning"),
        (lambda key: key[:20], "only the beginning"),
        (lambda key: key.split("_")[2], "only the beginning"),
        (lambda key: key.split("_")[2][:6], "only the beginning"),
    ],
)
def test_a_found_key_is_told_and_never_echoed(
    acme: World, globex: World, found: Callable[[str], str], secret: str
) -> None:
    told = find_key(found(acme.key_text))
    for fact in (acme.key.pk, acme.key.name, acme.tenant.slug, acme.account.name, secret):
        assert fact in told
    assert globex.tenant.slug not in told
    assert acme.key_text not in told
    assert acme.key_text.split("_")[3][:8] not in told
    assert acme.key.digest not in told


def test_another_secret_behind_the_same_id(acme: World) -> None:
    real = key_format.parse(acme.key_text)
    assert real is not None
    made_up = key_format.KeyText("dev", real.id, key_format.make("dev").secret)
    assert "not its secret" in find_key(made_up.text())


@pytest.mark.parametrize("text", ["'; DROP TABLE x", "abc", "nhr_dev_", "nhr_dev_abc", "%" * 24])
def test_too_little_finds_nobody(acme: World, text: str) -> None:
    with pytest.raises(CommandError) as refusal:
        find_key(text)
    assert text not in str(refusal.value)


def test_an_unknown_key(acme: World) -> None:
    text = key_format.make("dev").text()
    with pytest.raises(CommandError) as refusal:
        find_key(text)
    assert text not in str(refusal.value)


def test_it_is_revoked_at_once_if_asked(acme: World, globex: World) -> None:
    assert "revoked" in find_key(acme.key.pk, "--revoke")
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {acme.key_text}", now=NOW)
    authenticate_key(f"Bearer {globex.key_text}", now=NOW)


def test_from_standard_input(acme: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{acme.key_text}\n"))
    assert acme.key.pk in find_key()
