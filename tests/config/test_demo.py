"""The demo: made once, shown again, made anew where it was lost, never outside dev."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import Settings

from config.demo import Demo, NotADemo, seed
from inference.models import Route
from tenants import scope
from tenants.models import ApiKey, Membership, Role
from tenants.services.keys import authenticate_key

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def demo_settings(var: Path, settings: Settings) -> None:
    settings.DEMO = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def test_everything_in_it_works() -> None:
    demo = seed(now=NOW, engine="fake").as_json()
    assert [tenant["slug"] for tenant in demo["tenants"]] == ["acme", "globex"]
    operator = authenticate(**demo["operator"])
    assert isinstance(operator, User)
    assert operator.is_superuser
    for tenant in demo["tenants"]:
        admin, user = authenticate(**tenant["admin"]), authenticate(**tenant["user"])
        assert isinstance(admin, User)
        assert isinstance(user, User)
        assert (admin.is_staff, user.is_staff) == (True, False)
        principal = authenticate_key(f"Bearer {tenant['api_key']}", now=NOW)
        with scope.tenant(principal.tenant_id):
            roles = dict(Membership.objects.values_list("user__username", "role"))
        assert roles == {f"{tenant['slug']}-admin": Role.ADMIN, f"{tenant['slug']}-user": "member"}


def test_the_first_time_tells_nothing_and_the_second_changes_nothing() -> None:
    first = seed(now=NOW, engine="fake")
    second = seed(now=NOW, engine="fake")
    assert (first.notes, second.notes) == ([], [])
    assert first.as_json() == second.as_json()
    with scope.whole_platform():
        assert ApiKey.objects.count() == 2


def test_secrets_are_kept_for_the_owner_alone(var: Path) -> None:
    seed(now=NOW)
    mode = (var / "secrets" / "demo.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_secrets_differ_between_installs(var: Path, settings: Settings) -> None:
    passwords = set(seed(now=NOW).secrets["passwords"].values())
    settings.VAR = var / "another"
    assert passwords.isdisjoint(seed(now=NOW).secrets["passwords"].values())


@pytest.mark.parametrize("damage", ["gone", "garbled"])
def test_a_lost_file_gives_new_secrets_and_says_so(var: Path, damage: str) -> None:
    old = seed(now=NOW)
    file = var / "secrets" / "demo.json"
    file.unlink() if damage == "gone" else file.write_text('{"passwords": ')
    new = seed(now=NOW)
    assert any("Made a new password for acme-admin" in note for note in new.notes)
    assert any("Made a new API key for globex" in note for note in new.notes)
    assert old.as_json()["operator"] != new.as_json()["operator"]
    assert authenticate(**new.as_json()["operator"])
    assert not authenticate(**old.as_json()["operator"])


def test_a_lost_database_keeps_the_passwords_and_makes_new_keys(var: Path) -> None:
    old = seed(now=NOW)
    with scope.whole_platform():
        ApiKey.objects.all().delete()
        User.objects.all().delete()
    new = seed(now=NOW)
    assert old.secrets["passwords"] == new.secrets["passwords"]
    assert authenticate(**new.as_json()["operator"])
    assert [note.split(":")[0] for note in new.notes] == [
        "Made a new API key for acme",
        "Made a new API key for globex",
    ]


def test_a_password_that_its_owner_changed_stays(var: Path) -> None:
    seed(now=NOW)
    user = User.objects.get(username="acme-user")
    user.set_password("of my own")
    user.save()
    seed(now=NOW)
    assert authenticate(username="acme-user", password="of my own")


@pytest.mark.parametrize(("engine", "name"), [("fake", "fake"), ("vllm", "smollm2-135m-instruct")])
def test_the_engine_in_use_decides_what_is_offered(engine: str, name: str) -> None:
    for previous in ("fake", "vllm"):
        seed(now=NOW, engine=previous)
    seed(now=NOW, engine=engine)
    assert list(Route.objects.filter(is_active=True).values_list("name", flat=True)) == [name]


def test_the_command_prints_json_on_standard_output_alone() -> None:
    out = StringIO()
    call_command("demo", "--json", stdout=out)
    printed = json.loads(out.getvalue())
    assert set(printed) == {"url", "operator", "tenants"}
    assert set(printed["tenants"][0]) == {"slug", "admin", "user", "api_key"}


def test_people_get_a_table_of_all_of_it() -> None:
    out = StringIO()
    call_command("demo", stdout=out)
    kept: Demo = seed(now=NOW)
    for secret in [*kept.secrets["passwords"].values(), *kept.secrets["api_keys"].values()]:
        assert secret in out.getvalue()


def test_there_is_none_outside_dev(settings: Settings) -> None:
    settings.DEMO = False
    with pytest.raises(NotADemo):
        seed(now=NOW)
    with pytest.raises(CommandError, match="NEHIR_DEMO is off"):
        call_command("demo", "--json")
    assert not User.objects.exists()
