"""`platform/` is a source root: as a package it would shadow the standard library's module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def test_no_python_file_lies_directly_in_platform() -> None:
    assert [file.name for file in (ROOT / "platform").iterdir() if file.suffix == ".py"] == []


def test_every_test_folder_is_a_package() -> None:
    folders = {file.parent for file in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("first", ["platform", "."])
def test_the_standard_library_is_not_shadowed(first: str) -> None:
    roots = [str(ROOT / first), str(ROOT), str(ROOT / "platform")]
    code = "import platform, uuid; print(platform.system(), uuid.uuid4().version)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(roots)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "4"


def test_manage_py_finds_both_roots_from_anywhere(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "check"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
