"""Production refuses to start with what would be unsafe, and names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# Random enough for a check, and nobody's secret.
SAFE = {
    "NEHIR_ENV": "production",
    "NEHIR_SECRET_KEY": "q8Zt2mVx4Rw6Yb0Nc1Kd3Lf5Gh7Jp9Ss-A",
    "NEHIR_KEY_PEPPER": "Ew3Rt5Yu7Io9Pa1Sd3Fg5Hj7Kl9Zx1Cv-B",
    "DATABASE_URL": "postgres://nehir@localhost/nehir",
    "REDIS_URL": "redis://localhost",
    "NEHIR_ALLOWED_HOSTS": "nehir.example",
}


def check(tmp_path: Path, *options: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run `manage.py check` with production's environment, changed; None takes a variable out."""
    ours = ("NEHIR_", "DATABASE_URL", "REDIS_URL", "ENGINE", "DJANGO_")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    given = {**SAFE, "NEHIR_VAR": str(tmp_path), **changes}
    environment = rest | {name: value for name, value in given.items() if value is not None}
    return subprocess.run(
        [sys.executable, "manage.py", "check", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_safe_settings_are_accepted(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEHIR_DEBUG", "1"),
        ("NEHIR_DEMO", "1"),
        ("NEHIR_SECRET_KEY", None),
        ("NEHIR_SECRET_KEY", "short"),
        ("NEHIR_SECRET_KEY", "django-insecure-" + "q8Zt2mVx4Rw6Yb0Nc1Kd3Lf5Gh7Jp9"),
        ("NEHIR_SECRET_KEY", "a" * 64),
        ("NEHIR_KEY_PEPPER", None),
        ("DATABASE_URL", None),
        ("REDIS_URL", None),
        ("NEHIR_ALLOWED_HOSTS", None),
    ],
)
def test_an_unsafe_setting_is_refused_by_name(tmp_path: Path, name: str, value: str | None) -> None:
    done = check(tmp_path, **{name: value})
    assert done.returncode != 0
    assert "refuses to start" in done.stderr
    assert name in done.stderr.rsplit("refuses to start", 1)[1]


OLD = "Zx1Cv3Bn5Mq7We9Rt1Yu3Io5Pa7Sd9Fg-C"
SECOND = {"NEHIR_KEY_PEPPER_VERSION": "2"}


@pytest.mark.parametrize("version", [1, 3])
def test_other_peppers_are_accepted_beside_the_current_one(tmp_path: Path, version: int) -> None:
    done = check(tmp_path, **SECOND, NEHIR_OTHER_KEY_PEPPERS=f"{version}:{OLD}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        ("1:short", "NEHIR_OTHER_KEY_PEPPERS must be a random secret"),
        (f"1:{SAFE['NEHIR_KEY_PEPPER']}", "must differ"),
        (f"1:{SAFE['NEHIR_SECRET_KEY']}", "must differ"),
        (OLD, "must be `version:secret`"),
        (f"2:{OLD}", "none the current one's, which is 2"),
        (f"0:{OLD}", "must be `version:secret`"),
        (f"1:{OLD},1:{OLD}", "each version once"),
        ("1:", "must be `version:secret`"),
    ],
)
def test_peppers_that_are_weak_or_misnumbered_are_refused_and_never_quoted(
    tmp_path: Path, old: str, reason: str
) -> None:
    done = check(tmp_path, **SECOND, NEHIR_OTHER_KEY_PEPPERS=old)
    assert done.returncode != 0
    assert reason in done.stderr
    assert OLD not in done.stderr


def test_a_proxy_that_is_no_address_is_refused(tmp_path: Path) -> None:
    done = check(tmp_path, NEHIR_TRUSTED_PROXIES="10.0.0.0/8,proxy.example")
    assert done.returncode != 0
    assert "NEHIR_TRUSTED_PROXIES" in done.stderr


def test_everything_wrong_is_named_at_once(tmp_path: Path) -> None:
    done = check(tmp_path, NEHIR_DEBUG="1", NEHIR_SECRET_KEY=None, REDIS_URL=None)
    named = done.stderr.rsplit("refuses to start", 1)[1]
    assert {"NEHIR_DEBUG", "NEHIR_SECRET_KEY", "REDIS_URL"} <= set(
        named.replace(":", " ").replace(";", " ").split()
    )
    assert "DATABASE_URL" not in named


def test_an_unknown_environment_is_refused(tmp_path: Path) -> None:
    done = check(tmp_path, NEHIR_ENV="prod")
    assert done.returncode != 0
    assert "NEHIR_ENV is 'prod'; it must be one of dev, staging, production" in done.stderr


# -- What `check --deploy` looks for

DEPLOY = ("--deploy", "--fail-level", "WARNING")
PROXY = {
    "NEHIR_TRUSTED_PROXIES": "192.0.2.1",
    "NEHIR_ORIGINS": "https://nehir.example",
    "NEHIR_SECRET_KEY": SAFE["NEHIR_SECRET_KEY"] + "-q2Zt8mVx6Rw0Yb4Nc3Kd",
}


def test_production_is_ready_to_deploy(tmp_path: Path) -> None:
    done = check(tmp_path, *DEPLOY, **PROXY)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"NEHIR_TRUSTED_PROXIES": None}, "nehir.W009"),
        ({"NEHIR_ALLOWED_HOSTS": "*"}, "nehir.E006"),
        ({"NEHIR_ORIGINS": "http://nehir.example"}, "nehir.E007"),
        ({"NEHIR_ORIGINS": "https://*.example"}, "nehir.E008"),
    ],
)
def test_what_is_not_ready_to_deploy_is_named(
    tmp_path: Path, changes: dict[str, str | None], told: str
) -> None:
    done = check(tmp_path, *DEPLOY, **PROXY | changes)
    assert done.returncode != 0
    assert told in done.stderr
