"""Loaded before Django's settings (see addopts): tests keep their state apart from any install's.

NEHIR_TEST_DATABASE chooses the database: sqlite (default) or postgres. Whatever else the shell says
about an install is forgotten, so that no test ever touches a real database, Redis or secret.
"""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path

import pytest

from tests.ground import folders

ROOT = Path(__file__).resolve().parent.parent
DATABASES = ("sqlite", "postgres")
DATABASE = os.environ.get("NEHIR_TEST_DATABASE", "sqlite")
if DATABASE not in DATABASES:
    raise pytest.UsageError(
        f"NEHIR_TEST_DATABASE is {DATABASE!r}; it must be one of {', '.join(DATABASES)}."
    )

# Weights are large: prepared once, where an install would keep them, and used by every run.
MODELS = os.environ.get("NEHIR_MODELS") or str(
    Path(os.environ.get("NEHIR_VAR") or ROOT / "var") / "models"
)
# The browser to drive, and whether to take pictures of the pages (tests.browser).
CHROMIUM = os.environ.get("NEHIR_CHROMIUM", "")
SCREENSHOTS = os.environ.get("NEHIR_SCREENSHOTS") == "1"
# How often engine hosts are killed (tests.integration.test_crashes), and the seed of when.
CRASHES = int(os.environ.get("NEHIR_CRASHES", "25"))
CRASH_SEED = int(os.environ.get("NEHIR_CRASH_SEED", "1"))


# What is said of the tests themselves; workers that they are shared out to read it again.
OF_TESTS = {
    "NEHIR_TEST_DATABASE",
    "NEHIR_CHROMIUM",
    "NEHIR_SCREENSHOTS",
    "NEHIR_CRASHES",
    "NEHIR_CRASH_SEED",
}


def forget_install(environment: dict[str, str]) -> dict[str, str]:
    """What is left of an environment without anything that says where and as what Nehir runs."""
    ours = ("DATABASE_URL", "REDIS_URL", "ENGINE", "DJANGO_SETTINGS_MODULE")
    return {
        name: value
        for name, value in environment.items()
        if name in OF_TESTS or (name not in ours and not name.startswith("NEHIR_"))
    }


VAR = folders.short("nehir-tests-")
POSTGRES_FOLDER = folders.short("nehir-postgres-") if DATABASE == "postgres" else None

_kept = forget_install(dict(os.environ))
for _name in set(os.environ) - set(_kept):
    del os.environ[_name]
os.environ |= {"NEHIR_VAR": str(VAR), "NEHIR_MODELS": MODELS, "NEHIR_LOG_LEVEL": "WARNING"}
if POSTGRES_FOLDER is not None:
    os.environ["DATABASE_URL"] = f"postgres://nehir@/{POSTGRES_FOLDER}/nehir"

for _folder in filter(None, (VAR, POSTGRES_FOLDER)):
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
