from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from django.db import OperationalError
from pytest_django.fixtures import Settings

from kernel.database import database
from kernel.errors import PermissionDenied, PlatformError, Unauthenticated
from kernel.networks import Address, as_address
from tenants import scope
from tenants.access import Access
from tenants.models import ApiKey, ServiceAccount, Tenant
from tenants.services import key_records, known_keys
from tenants.services.keys import revoke_key
from tenants.services.known_keys import KnownKeys
from tests.inference.making import StoppedClock
from tests.tenants.worlds import NOW, World, world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Which keys the database was asked for, in each query."""
    asked: list[list[str]] = []
    rows = key_records.rows

    def counted(ids: Sequence[str]) -> list[key_records.Row]:
        asked.append(list(ids))
        return rows(asked[-1])

    monkeypatch.setattr(key_records, "rows", counted)
    return asked


@pytest.fixture
def acme(transactional_db: None) -> World:
    return world("acme")


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def keys(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> KnownKeys:
    """Whose rounds are the test's to call."""
    monkeypatch.setattr("kernel.rounds.Rounds.keep_running", lambda _self: None)
    return KnownKeys(clock)


def header(someone: World) -> str:
    return f"Bearer {someone.key_text}"


def nowhere() -> Address | None:
    return None


def at(address: str) -> Callable[[], Address | None]:
    return lambda: as_address(address)


async def ask(keys: KnownKeys, someone: World) -> Access:
    return await keys.authenticate(header(someone), where=nowhere)


async def refusal(keys: KnownKeys, authorization: str) -> PlatformError:
    with pytest.raises(PlatformError) as refused:
        await keys.authenticate(authorization, where=nowhere)
    return refused.value


def change(someone: World, **fields: object) -> None:
    with scope.tenant(someone.tenant.pk):
        ApiKey.objects.filter(pk=someone.key.pk).update(**fields)


def row(someone: World) -> ApiKey:
    with scope.tenant(someone.tenant.pk):
        found: ApiKey = ApiKey.objects.get(pk=someone.key.pk)
    return found


def revoke(someone: World) -> None:
    with scope.tenant(someone.tenant.pk):
        revoke_key(key=someone.key, actor=None, now=NOW)


def switch_off_account(someone: World) -> None:
    with scope.tenant(someone.tenant.pk):
        ServiceAccount.objects.filter(pk=someone.account.pk).update(is_active=False)


def switch_off_tenant(someone: World) -> None:
    Tenant.objects.filter(pk=someone.tenant.pk).update(is_active=False)


async def test_a_burst_asks_once(keys: KnownKeys, acme: World, read: list[list[str]]) -> None:
    found = await asyncio.gather(*(ask(keys, acme) for _ in range(20)))
    assert {access.principal.key_id for access in found} == {acme.key.pk}
    assert read == [[acme.key.pk]]


async def test_a_key_in_use_is_never_waited_for(
    keys: KnownKeys, clock: StoppedClock, acme: World, read: list[list[str]]
) -> None:
    await ask(keys, acme)
    for _ in range(149):  # a minute, less one round
        clock.advance(0.4)
        assert await keys.round()
    del read[:]
    await ask(keys, acme)
    assert read == []


async def test_a_key_not_in_use_is_forgotten(
    keys: KnownKeys, clock: StoppedClock, acme: World, read: list[list[str]]
) -> None:
    await ask(keys, acme)
    clock.advance(61)
    await used(keys)
    assert not await keys.round()
    assert read == [[acme.key.pk]]


@pytest.mark.parametrize("take_away", [revoke, switch_off_account, switch_off_tenant])
async def test_what_is_taken_away_is_known_after_the_next_round_or_when_it_is_too_old(
    keys: KnownKeys, clock: StoppedClock, acme: World, take_away: Callable[[World], None]
) -> None:
    other = KnownKeys(clock)  # another process, whose rounds have stopped
    for each in (keys, other):
        await ask(each, acme)
    await database(take_away, acme)
    clock.advance(0.4)
    await keys.round()
    assert (await refusal(keys, header(acme))).http_status in (401, 403)
    await ask(other, acme)
    clock.advance(0.4)
    assert (await refusal(other, header(acme))).http_status in (401, 403)


async def test_what_a_key_knows_is_never_older_than_a_second(settings: Settings) -> None:
    assert settings.KEY_CACHE_S <= 1


async def test_a_wrong_secret_is_refused_beside_a_right_one(
    keys: KnownKeys, acme: World, read: list[list[str]]
) -> None:
    globex = await database(world, "globex")
    right = known_keys.presented(header(acme))
    other = known_keys.presented(header(globex))
    wrong = type(right)(right.environment, right.id, other.secret).text()
    await ask(keys, acme)
    assert (await refusal(keys, f"Bearer {wrong}")).code == "invalid_api_key"
    await ask(keys, acme)


async def test_two_tenants_keys_are_never_taken_for_each_other(
    keys: KnownKeys, acme: World
) -> None:
    globex = await database(world, "globex")
    for someone in (acme, globex, acme, globex):
        principal = (await ask(keys, someone)).principal
        assert (principal.tenant_id, principal.key_id) == (someone.tenant.pk, someone.key.pk)


async def test_one_who_leaves_does_not_refuse_the_others(
    keys: KnownKeys, acme: World, read: list[list[str]]
) -> None:
    leaving = asyncio.create_task(ask(keys, acme))
    staying = asyncio.create_task(ask(keys, acme))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).principal.key_id == acme.key.pk
    assert len(read) == 1


async def test_what_is_kept_is_bounded_and_holds_no_key(
    keys: KnownKeys, acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_keys, "MOST", 2)
    for spaces in range(1, 6):
        await keys.authenticate(f"Bearer{' ' * spaces}{acme.key_text}", where=nowhere)
        assert len(keys._verified) <= 2
    last = hashlib.sha256(f"Bearer{' ' * 5}{acme.key_text}".encode()).digest()
    assert last in keys._verified


async def test_a_database_that_is_away_refuses_nobody_it_knew_a_moment_ago(
    keys: KnownKeys, clock: StoppedClock, acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_ids: Sequence[str]) -> list[key_records.Row]:
        raise OperationalError

    await ask(keys, acme)
    with monkeypatch.context() as patched:
        patched.setattr(key_records, "rows", away)
        clock.advance(0.4)
        with pytest.raises(OperationalError):
            await keys.round()
        await ask(keys, acme)
        clock.advance(0.5)
        with pytest.raises(OperationalError):
            await ask(keys, acme)
    await ask(keys, acme)


# -- Networks


@pytest.mark.parametrize(
    ("networks", "address", "is_allowed"),
    [
        ([], "203.0.113.7", True),
        (["203.0.113.0/24"], "203.0.113.7", True),
        (["203.0.113.0/24"], "203.0.114.7", False),
        (["203.0.113.0/24"], "::ffff:203.0.113.7", True),
        (["2001:db8::/32"], "2001:db8:1::7", True),
        (["2001:db8::/32"], "2001:db9::7", False),
        (["2001:db8::/32", "10.0.0.0/8"], "10.1.2.3", True),
        (["0.0.0.0/0"], "::1", False),
        (["203.0.113.0/24"], "", False),
    ],
)
async def test_a_key_is_good_in_its_networks(
    keys: KnownKeys, acme: World, networks: list[str], address: str, is_allowed: bool
) -> None:
    await database(change, acme, networks=networks)
    asking = keys.authenticate(header(acme), where=at(address))
    if is_allowed:
        await asking
        return
    with pytest.raises(PermissionDenied) as refused:
        await asking
    assert refused.value.code == "address_not_allowed"


# -- What use leaves


async def used(keys: KnownKeys) -> None:
    await keys.round()
    assert keys._writing is not None
    await keys._writing


async def test_the_last_use_is_kept_once_a_minute(
    keys: KnownKeys, clock: StoppedClock, acme: World
) -> None:
    begun = clock.now()
    await ask(keys, acme)
    await used(keys)
    assert (await database(row, acme)).last_used_at == begun
    for seconds in (1, 30, 28):
        clock.advance(seconds)
        await keys.round()
        await ask(keys, acme)
        assert keys._used == set(), seconds
    clock.advance(1)
    await keys.round()
    await ask(keys, acme)
    await used(keys)
    assert (await database(row, acme)).last_used_at == begun + timedelta(minutes=1)


async def test_two_processes_keep_it_once(
    keys: KnownKeys, clock: StoppedClock, acme: World
) -> None:
    other = KnownKeys(clock)
    for each in (keys, other):
        await ask(each, acme)
    begun = clock.now()
    await used(keys)
    clock.advance(1)
    await used(other)
    assert (await database(row, acme)).last_used_at == begun


async def test_a_key_under_an_old_pepper_moves_to_the_new_one(
    keys: KnownKeys, acme: World, settings: Settings
) -> None:
    settings.KEY_PEPPERS = {**settings.KEY_PEPPERS, 2: "another pepper, long enough to be one"}
    await ask(keys, acme)
    assert keys._rehashed == {}  # known, so that every process knows it before any uses it
    keys = KnownKeys(StoppedClock())
    settings.KEY_PEPPER_VERSION = 2
    await ask(keys, acme)
    await used(keys)
    assert (await database(row, acme)).pepper_version == 2
    settings.KEY_PEPPERS = {2: settings.KEY_PEPPERS[2]}
    await ask(KnownKeys(StoppedClock()), acme)
    settings.KEY_PEPPERS = {3: "a third pepper, long enough to be one"}
    settings.KEY_PEPPER_VERSION = 3
    with pytest.raises(Unauthenticated):
        await ask(KnownKeys(StoppedClock()), acme)


async def test_use_that_cannot_be_kept_stops_nothing(
    keys: KnownKeys, acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError

    monkeypatch.setattr("tenants.services.key_usage.write", away)
    await ask(keys, acme)
    await used(keys)
    assert await keys.round()


# -- Open requests


async def test_an_open_request_ends_with_its_key(
    keys: KnownKeys, clock: StoppedClock, acme: World
) -> None:
    globex = await database(world, "globex")
    told: list[str] = []
    mine, theirs = await ask(keys, acme), await ask(keys, globex)
    with mine.kept(lambda: told.append("mine")), theirs.kept(lambda: told.append("theirs")):
        clock.advance(600)  # long after either was last used
        await keys.round()
        assert told == []
        await database(revoke, acme)
        await keys.round()
        assert told == ["mine"]
        theirs.check()
        with pytest.raises(Unauthenticated) as ended:
            mine.check()
        assert ended.value.code == "access_ended"
        assert mine.is_withdrawn
        await keys.round()
        assert told == ["mine"]
    assert keys._open == {}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"scopes": ["usage"]}, "missing_scope"),
        ({"model_names": ["other"]}, "model_not_allowed"),
        ({"networks": ["203.0.113.0/24"]}, "address_not_allowed"),
    ],
)
async def test_an_open_request_ends_with_the_right_it_needs(
    keys: KnownKeys, acme: World, fields: dict[str, object], code: str
) -> None:
    access = await keys.authenticate(header(acme), where=at("10.0.0.1"))
    access.need_scope("chat")
    access.need_model("mine")
    with access.kept(lambda: None):
        await keys.round()
        access.check()
        await database(change, acme, **fields)
        await keys.round()
        with pytest.raises(PermissionDenied) as ended:
            access.check()
    assert ended.value.code == code


async def test_an_expiry_ends_an_open_request_and_takes_nothing_back(
    keys: KnownKeys, clock: StoppedClock, acme: World
) -> None:
    await database(change, acme, expires_at=clock.now() + timedelta(seconds=10))
    access = await ask(keys, acme)
    with access.kept(lambda: None):
        clock.advance(9)
        await keys.round()
        access.check()
        clock.advance(1)
        await keys.round()
        with pytest.raises(Unauthenticated):
            access.check()
    assert not access.is_withdrawn


async def test_a_deleted_key_ends_its_open_requests(keys: KnownKeys, acme: World) -> None:
    def delete() -> None:
        with scope.tenant(acme.tenant.pk):
            ApiKey.objects.filter(pk=acme.key.pk).delete()

    access = await ask(keys, acme)
    with access.kept(lambda: None):
        await database(delete)
        await keys.round()
        with pytest.raises(Unauthenticated):
            access.check()


async def test_a_request_that_opens_during_a_round_is_not_taken_for_one_without_a_key(
    keys: KnownKeys, clock: StoppedClock, acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More keys are in use than are kept fresh, and its own is not one of them."""
    monkeypatch.setattr(known_keys, "MOST_IN_USE", 0)
    access = await ask(keys, acme)
    clock.advance(2)
    refresh = keys._refresh

    async def opened_meanwhile(wanted: set[str]) -> None:
        await refresh(wanted)
        opened.enter_context(access.kept(lambda: None))

    with contextlib.ExitStack() as opened:
        monkeypatch.setattr(keys, "_refresh", opened_meanwhile)
        await keys.round()
        access.check()
        monkeypatch.setattr(keys, "_refresh", refresh)
        await keys.round()
        access.check()
        await database(revoke, acme)
        await keys.round()
        with pytest.raises(Unauthenticated):
            access.check()
