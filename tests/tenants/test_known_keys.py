from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime, timedelta

import pytest
from pytest_django.fixtures import Settings

from kernel.database import database
from kernel.errors import PermissionDenied, Unauthenticated
from tenants import scope
from tenants.principal import Principal
from tenants.services import known_keys
from tenants.services.keys import authenticate_key, revoke_key
from tenants.services.known_keys import KnownKeys
from tests.tenants.worlds import NOW, World, world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which headers the database was asked for."""
    headers: list[str] = []

    def counted(authorization: str, *, now: datetime) -> Principal:
        headers.append(authorization)
        return authenticate_key(authorization, now=now)

    monkeypatch.setattr(known_keys, "authenticate_key", counted)
    return headers


@pytest.fixture
def acme(transactional_db: None) -> World:
    return world("acme")


def header(someone: World) -> str:
    return f"Bearer {someone.key_text}"


async def test_a_burst_asks_once(acme: World, asked: list[str], settings: Settings) -> None:
    settings.KEY_CACHE_S = 1
    keys = KnownKeys()
    found = await asyncio.gather(*(keys.authenticate(header(acme), now=NOW) for _ in range(20)))
    assert {principal.key_id for principal in found} == {acme.key.pk}
    assert asked == [header(acme)]


async def test_what_was_found_is_forgotten_in_time(
    acme: World, asked: list[str], settings: Settings
) -> None:
    settings.KEY_CACHE_S = 0
    keys = KnownKeys()
    await keys.authenticate(header(acme), now=NOW)
    await database(_revoke, acme)
    with pytest.raises(Unauthenticated):
        await keys.authenticate(header(acme), now=NOW)
    assert len(asked) == 2


async def test_a_refusal_is_not_remembered(acme: World, asked: list[str]) -> None:
    keys, wrong = KnownKeys(), header(acme)[:-1] + ("a" if header(acme)[-1] != "a" else "b")
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await keys.authenticate(wrong, now=NOW)
    assert len(asked) == 2


async def test_two_tenants_keys_are_never_taken_for_each_other(
    acme: World, asked: list[str]
) -> None:
    globex, keys = await database(world, "globex"), KnownKeys()
    for someone in (acme, globex, acme, globex):
        principal = await keys.authenticate(header(someone), now=NOW)
        assert (principal.tenant_id, principal.key_id) == (someone.tenant.pk, someone.key.pk)


async def test_an_inactive_tenant_is_refused_each_time(acme: World) -> None:
    acme.tenant.is_active = False
    await database(acme.tenant.save)
    keys = KnownKeys()
    for _ in range(2):
        with pytest.raises(PermissionDenied):
            await keys.authenticate(header(acme), now=NOW + timedelta(seconds=1))


async def test_one_who_leaves_does_not_refuse_the_others(acme: World, asked: list[str]) -> None:
    keys = KnownKeys()
    leaving = asyncio.create_task(keys.authenticate(header(acme), now=NOW))
    staying = asyncio.create_task(keys.authenticate(header(acme), now=NOW))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).key_id == acme.key.pk
    assert len(asked) == 1


async def test_what_is_kept_is_bounded_and_holds_no_key(
    acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_keys, "MOST", 2)
    keys = KnownKeys()
    for spaces in range(1, 6):
        await keys.authenticate(f"Bearer{' ' * spaces}{acme.key_text}", now=NOW)
        assert len(keys._asked) <= 2
    last = hashlib.sha256(f"Bearer{' ' * 5}{acme.key_text}".encode()).digest()
    assert last in keys._asked


def _revoke(someone: World) -> None:
    with scope.tenant(someone.tenant.pk):
        revoke_key(key=someone.key, actor=None, now=NOW)
