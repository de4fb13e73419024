"""Fixtures: whole installs, started once a session; the one with the real model takes a while."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.weights import bundled
from tests import environment
from tests.ground import folders
from tests.ground.install import Install
from tests.ground.loading import Loading


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The real small model, converted once into a store that outlives the tests."""
    done = subprocess.run(
        [sys.executable, str(environment.ROOT / "manage.py"), "prepare_model"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(environment.MODELS) / bundled.NAME


@pytest.fixture(scope="session")
def loading(model_folder: Path) -> Iterator[Loading]:
    """The whole platform with real vLLM and the real model, from its start on."""
    # The chat samples: an answer that does not find its end would take half a minute.
    brief = {"NEHIR_DEFAULT_MAX_TOKENS": "200"}
    with _installed("nehir-model-", engine="vllm", **brief) as install:
        loading = Loading(install, bundled.NAME)
        install.wait_until_ready()
        loading.wait()
        yield loading


@pytest.fixture
def model_install(loading: Loading) -> Install:
    """The same, ready to answer; a test before may have killed its engine."""
    loading.install.wait_until_ready()
    loading.install.wait_until_idle()
    return loading.install


@pytest.fixture(scope="session")
def fake_install() -> Iterator[Install]:
    """The whole platform with the fake engine, at a pace that an eye and a test can follow."""
    pace = {"NEHIR_FAKE_TTFT_MS": "200", "NEHIR_FAKE_ITL_MS": "40"}
    short = {"NEHIR_DEFAULT_MAX_TOKENS": "40"}
    with _installed("nehir-fake-", engine="fake", **pace, **short) as install:
        install.wait_until_ready()
        yield install


@pytest.fixture(scope="session")
def patient_install() -> Iterator[Install]:
    """The same with answers long enough to be lost sight of: held 24 tokens ahead of their reader,
    suspended two seconds after it has left.
    """
    pace = {"NEHIR_FAKE_TTFT_MS": "200", "NEHIR_FAKE_ITL_MS": "50"}
    length = {"NEHIR_DEFAULT_MAX_TOKENS": "120", "NEHIR_HIGH_WATER_TOKENS": "24"}
    with _installed(
        "nehir-patient-", engine="fake", NEHIR_DETACH_GRACE_S="2", **pace, **length
    ) as install:
        install.wait_until_ready()
        yield install


@contextlib.contextmanager
def _installed(prefix: str, *, engine: str, **settings: str) -> Iterator[Install]:
    folder = folders.short(prefix)
    install = Install(folder, engine=engine, **settings)
    try:
        yield install.start()
    finally:
        install.stop()
        shutil.rmtree(folder, ignore_errors=True)
