from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from kernel.errors import BadRequest, PermissionDenied, Unauthenticated
from tenants import authorization, key_format, scope
from tenants.models import ApiKey, Tenant
from tenants.principal import Principal
from tenants.services import key_records
from tenants.services.keys import KeyRights, authenticate_key, issue_key, revoke_key, rotate_key
from tests.tenants.worlds import NOW, World

KEY_LENGTH = len("nhr_dev__") + key_format.ID_LENGTH + 43 + 6


def test_a_key_speaks_for_its_service_account(
    acme: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        principal = authenticate_key(f"Bearer {acme.key_text}", now=NOW)

    assert principal == Principal(
        acme.tenant.pk,
        "service_account",
        acme.account.pk,
        key_id=acme.key.pk,
        highest_priority="standard",
    )


@pytest.mark.parametrize(
    ("tenants", "keys_own", "granted"),
    [
        (("standard", "interactive"), "standard", ("standard", "standard")),
        (("interactive", "interactive"), "standard", ("standard", "standard")),
        (("batch", "interactive"), "interactive", ("batch", "interactive")),
        (("standard", "standard"), "interactive", ("standard", "standard")),
        (("standard", "interactive"), "batch", ("batch", "batch")),
    ],
)
def test_a_keys_priorities_reach_as_far_as_its_own_and_its_tenants(
    acme: World, tenants: tuple[str, str], keys_own: str, granted: tuple[str, str]
) -> None:
    default, highest = tenants
    Tenant.objects.filter(pk=acme.tenant.pk).update(
        default_priority=default, highest_priority=highest, weight=3
    )
    with scope.tenant(acme.tenant.pk):
        ApiKey.objects.filter(pk=acme.key.pk).update(highest_priority=keys_own)
    principal = authenticate_key(f"Bearer {acme.key_text}", now=NOW)
    assert (principal.default_priority, principal.highest_priority) == granted
    assert principal.weight == 3


@pytest.mark.parametrize("header", ["bearer {}", "BEARER {}", "Bearer  {} "])
def test_the_scheme_is_read_as_http_reads_it(acme: World, header: str) -> None:
    assert authenticate_key(header.format(acme.key_text), now=NOW).key_id == acme.key.pk


def test_only_a_digest_is_stored(acme: World) -> None:
    secret = key_format.parse(acme.key_text)
    with scope.whole_platform():
        row = ApiKey.objects.filter(pk=acme.key.pk).values().get()

    assert secret is not None
    assert secret.secret not in repr(row)
    assert acme.key_text not in repr(row)
    assert len(row["digest"]) == 64


BAD_HEADERS = [
    "",
    " ",
    "Bearer",
    "Bearer ",
    "Bearer null",
    "Basic {key}",
    "{key}",
    "Bearer {key} {key}",
    "Bearer {key}x",
    "Bearer nhr_",
    "Bearer nhr_' OR 1=1 --_x",
    "Bearer nhr_dev_' OR 1=1 --_x",
    "Bearer {key}'; DROP TABLE tenants_apikey; --",
    "Bearer {key}\x00",
    "Bearer {key}\n",
    "Bearer sk-0123456789",
    "Bearer ünïcödé",
    "Bearer \ud800",
    "Bearer " + "١" * 78,
    "Bearer " + "a" * 1_000_000,
]


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_what_cannot_be_a_key_is_refused_without_a_query(acme: World, header: str) -> None:
    with CaptureQueriesContext(connection) as queries, pytest.raises(Unauthenticated) as refusal:
        authenticate_key(header.format(key=acme.key_text), now=NOW)

    assert len(queries) == 0
    assert refusal.value.code == "invalid_api_key"
    assert refusal.value.http_status == 401


@pytest.mark.parametrize("length", range(0, KEY_LENGTH))
def test_a_cut_key_is_refused(acme: World, length: int) -> None:
    assert key_format.parse(acme.key_text[:length]) is None


def test_every_typo_of_one_character_is_refused(acme: World) -> None:
    for place in range(len("nhr_"), KEY_LENGTH):
        for letter in "0aZ":
            if acme.key_text[place] != letter:
                typo = acme.key_text[:place] + letter + acme.key_text[place + 1 :]
                assert key_format.parse(typo) is None, place


@given(st.text(max_size=100))
@example("nhr_dev_" + "0" * 24 + "_" + "0" * 49)
def test_random_words_are_no_keys(text: str) -> None:
    assert key_format.parse(text) is None


def refusals(acme: World) -> dict[str, str]:
    """Reason of refusal by the message it gives."""
    other = key_format.make("dev")
    right = key_format.parse(acme.key_text)
    assert right is not None
    headers = {
        "unknown id": other.text(),
        "wrong secret": replace(right, secret=other.secret).text(),
        "not a key": "hello",
    }
    messages = {}
    for reason, text in headers.items():
        with pytest.raises(Unauthenticated) as refusal:
            authenticate_key(f"Bearer {text}", now=NOW)
        messages[reason] = f"{refusal.value.code} {refusal.value.message}"
    return messages


def test_the_refusal_never_says_why(acme: World) -> None:
    messages = refusals(acme)
    revoked = acme.key
    with scope.tenant(acme.tenant.pk):
        revoke_key(key=revoked, actor=None, now=NOW)
    with pytest.raises(Unauthenticated) as refusal:
        authenticate_key(f"Bearer {acme.key_text}", now=NOW)
    messages["revoked"] = f"{refusal.value.code} {refusal.value.message}"

    assert len(set(messages.values())) == 1
    assert not any(part in str(messages) for part in (acme.key_text, acme.key.pk))


def test_an_unknown_key_is_compared_as_a_known_one_is(
    acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []
    compare = key_records.hmac.compare_digest
    monkeypatch.setattr(
        key_records.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or compare(a, b)
    )
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {key_format.make('dev').text()}", now=NOW)

    assert [len(digest) for digest in compared[0]] == [64, 64]


def test_a_revoked_key_is_refused_and_keeps_its_first_revocation(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        revoke_key(key=acme.key, actor=acme.admin, now=NOW)
        revoke_key(key=acme.key, actor=acme.admin, now=NOW + timedelta(days=1))

    assert acme.key.revoked_at == NOW
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {acme.key_text}", now=NOW)


def test_a_key_works_until_its_expiry_and_not_at_it(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        _, text = issue_key(
            service_account=acme.account,
            name="brief",
            actor=None,
            now=NOW,
            expires_at=NOW + timedelta(hours=1),
        )
    authenticate_key(f"Bearer {text}", now=NOW + timedelta(minutes=59))
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {text}", now=NOW + timedelta(hours=1))


def test_a_key_of_an_inactive_account_is_refused(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        acme.account.is_active = False
        acme.account.save()
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {acme.key_text}", now=NOW)


def test_a_good_key_of_an_inactive_tenant_is_denied_and_a_bad_one_learns_nothing(
    acme: World,
) -> None:
    acme.tenant.is_active = False
    acme.tenant.save()
    with pytest.raises(PermissionDenied) as denial:
        authenticate_key(f"Bearer {acme.key_text}", now=NOW)
    assert denial.value.code == "tenant_suspended"
    refusals(acme)


def test_old_keys_live_on_under_a_new_pepper(acme: World, settings: Settings) -> None:
    settings.KEY_PEPPERS = {**settings.KEY_PEPPERS, 2: "another pepper, long enough to be one"}
    settings.KEY_PEPPER_VERSION = 2
    with scope.tenant(acme.tenant.pk):
        new, text = issue_key(service_account=acme.account, name="new", actor=None, now=NOW)

    assert new.pepper_version == 2
    assert authenticate_key(f"Bearer {acme.key_text}", now=NOW).key_id == acme.key.pk
    assert authenticate_key(f"Bearer {text}", now=NOW).key_id == new.pk


def test_a_key_under_a_withdrawn_pepper_is_refused(acme: World, settings: Settings) -> None:
    settings.KEY_PEPPERS = {2: "another pepper, long enough to be one"}
    settings.KEY_PEPPER_VERSION = 2
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {acme.key_text}", now=NOW)


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_key_needs_a_name(acme: World, name: str) -> None:
    with scope.tenant(acme.tenant.pk), pytest.raises(BadRequest) as refusal:
        issue_key(service_account=acme.account, name=name, actor=None, now=NOW)
    assert refusal.value.param == "name"


def test_no_key_is_issued_into_the_past_or_to_an_inactive_account(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        with pytest.raises(BadRequest):
            issue_key(service_account=acme.account, name="n", actor=None, now=NOW, expires_at=NOW)
        acme.account.is_active = False
        with pytest.raises(BadRequest):
            issue_key(service_account=acme.account, name="n", actor=None, now=NOW)


def test_no_key_reaches_a_log(acme: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), scope.tenant(acme.tenant.pk):
        key, text = issue_key(service_account=acme.account, name="n", actor=acme.admin, now=NOW)
        authenticate_key(f"Bearer {text}", now=NOW)
        revoke_key(key=key, actor=acme.admin, now=NOW)
        with pytest.raises(Unauthenticated):
            authenticate_key(f"Bearer {text}", now=NOW)
    parts = key_format.parse(text)

    assert parts is not None
    assert key.pk in caplog.text
    assert parts.secret not in caplog.text
    assert parts.secret not in repr(parts)


# -- Rights


def test_a_key_has_the_rights_that_it_was_issued_with(acme: World) -> None:
    rights = KeyRights("batch", ["usage", "chat", "chat"], ["b", "a"], ["::ffff:10.0.0.0/104"])
    with scope.tenant(acme.tenant.pk):
        key, text = issue_key(
            service_account=acme.account, name="n", actor=acme.admin, now=NOW, rights=rights
        )
    principal = authenticate_key(f"Bearer {text}", now=NOW)
    assert principal.scopes == {"chat", "usage"}
    assert principal.models == {"a", "b"}
    assert key.networks == ["10.0.0.0/8"]
    assert key.created_by == f"user:{acme.admin.pk}"
    authorization.check_scope(principal, "usage")
    authorization.check_model(principal, "a")
    for denied in (
        lambda: authorization.check_scope(principal, "admin"),
        lambda: authorization.check_model(principal, "c"),
    ):
        with pytest.raises(PermissionDenied):
            denied()


@pytest.mark.parametrize(
    ("rights", "param"),
    [
        (KeyRights(scopes=[]), "scopes"),
        (KeyRights(scopes=["chat", "root"]), "scopes"),
        (KeyRights(networks=["10.0.0.1/8"]), "networks"),
        (KeyRights(networks=["localhost"]), "networks"),
        (KeyRights(networks=["10.0.0.0/8"] * 65), "networks"),
        (KeyRights(model_names=["m"] * 257), "model_names"),
    ],
)
def test_rights_that_there_are_not(acme: World, rights: KeyRights, param: str) -> None:
    with scope.tenant(acme.tenant.pk), pytest.raises(BadRequest) as refusal:
        issue_key(service_account=acme.account, name="n", actor=None, now=NOW, rights=rights)
    assert refusal.value.param == param


def test_a_key_of_another_environment_is_refused_without_a_query(
    acme: World, settings: Settings
) -> None:
    with scope.tenant(acme.tenant.pk):
        settings.KEY_ENVIRONMENT = "prod"
        _, text = issue_key(service_account=acme.account, name="n", actor=None, now=NOW)
        settings.KEY_ENVIRONMENT = "dev"
    assert text.startswith("nhr_prod_")
    with CaptureQueriesContext(connection) as queries, pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {text}", now=NOW)
    assert len(queries) == 0


# -- Rotation


def test_a_rotated_key_works_beside_its_successor_and_then_expires(acme: World) -> None:
    rights = KeyRights("batch", ["usage"], ["a"], ["10.0.0.0/8"])
    with scope.tenant(acme.tenant.pk):
        old, old_text = issue_key(
            service_account=acme.account, name="n", actor=None, now=NOW, rights=rights
        )
        later = NOW + timedelta(days=10)
        new, text = rotate_key(key=old, actor=acme.admin, now=later)

    assert (new.name, new.replaces, new.expires_at) == ("n", old.pk, None)
    before, after = (authenticate_key(f"Bearer {t}", now=later) for t in (old_text, text))
    assert replace(before, key_id="") == replace(after, key_id="")
    assert new.networks == old.networks
    end = later + timedelta(hours=24)
    assert old.expires_at == end
    authenticate_key(f"Bearer {old_text}", now=end - timedelta(seconds=1))
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {old_text}", now=end)
    authenticate_key(f"Bearer {text}", now=end)


def test_rotation_never_prolongs_a_key_and_gives_its_successor_as_long_a_life(acme: World) -> None:
    expires_at = NOW + timedelta(hours=30)
    with scope.tenant(acme.tenant.pk):
        old, _ = issue_key(
            service_account=acme.account, name="n", actor=None, now=NOW, expires_at=expires_at
        )
        later = NOW + timedelta(hours=29)
        new, _ = rotate_key(key=old, actor=None, now=later)
    assert old.expires_at == expires_at
    assert new.expires_at == later + timedelta(hours=30)


def test_what_is_not_rotated(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        for overlap in (timedelta(seconds=-1), timedelta(days=366)):
            with pytest.raises(BadRequest):
                rotate_key(key=acme.key, actor=None, now=NOW, overlap=overlap)
        rotate_key(key=acme.key, actor=None, now=NOW, overlap=timedelta(hours=1))
        with pytest.raises(BadRequest) as again:
            rotate_key(key=acme.key, actor=None, now=NOW)
        assert again.value.code == "already_rotated"
        other, _ = issue_key(service_account=acme.account, name="n", actor=None, now=NOW)
        revoke_key(key=other, actor=None, now=NOW)
        with pytest.raises(BadRequest):
            rotate_key(key=other, actor=None, now=NOW)
        assert ApiKey.objects.count() == 3
