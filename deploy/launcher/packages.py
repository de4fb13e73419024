"""The environment `.venv` and the locks in it. A killed install is never taken for a whole one.

A lock that is installed leaves a stamp with its hash, which makes the next start skip it. While the
environment is made or pip unpacks into it, a marker lies in it; one that is still there at the next
start tells that the environment can't be trusted, and it is made anew.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import venv
from pathlib import Path
from typing import TextIO

from config.supervisor.progress import Step, Steps
from launcher import pip
from launcher.layout import LOCKS, VENV, CannotStart
from launcher.machine import require_disk

STAMPS = VENV / "nehir"
UNFINISHED = STAMPS / "unfinished"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


def missing(locks: list[str]) -> list[str]:
    """The locks that are not installed as they stand."""
    usable = pip.PYTHON.exists() and not UNFINISHED.exists() and not _other_engine(locks)
    return [lock for lock in locks if not usable or not _is_installed(lock)]


def install(locks: list[str], *, steps: Steps, log: Path) -> None:
    """Bring `.venv` to these locks. Raises CannotStart, leaving nothing that passes for whole."""
    wanted = missing(locks)
    if not wanted:
        return
    require_disk(wanted)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        _make_environment(locks, steps)
        for lock in wanted:
            with steps.step(f"Installing {lock} packages") as step:
                _install_lock(lock, step, out, log)


def _is_installed(lock: str) -> bool:
    stamp = STAMPS / lock
    return stamp.exists() and stamp.read_text() == _digest(lock)


def _digest(lock: str) -> str:
    return hashlib.sha256((LOCKS / f"{lock}.txt").read_bytes()).hexdigest()


def _other_engine(locks: list[str]) -> bool:
    """Whether the other engine's lock is installed: both bring a package `vllm`, so not beside."""
    engines = {"engine-cpu", "engine-gpu"}
    wanted = engines & set(locks)
    return bool(wanted) and any((STAMPS / lock).exists() for lock in engines - wanted)


def _make_environment(locks: list[str], steps: Steps) -> None:
    """An environment that isn't ours, without our stamps, is used as it is and never removed."""
    if UNFINISHED.exists() or _other_engine(locks) or (STAMPS.exists() and not _runs()):
        shutil.rmtree(VENV.resolve())
    if VENV.exists() or VENV.is_symlink():
        if not _runs():
            raise CannotStart(f"{VENV} does not work and was not made by make: remove it.")
        STAMPS.mkdir(exist_ok=True)
        return
    with steps.step("Creating .venv"):
        STAMPS.mkdir(parents=True)
        UNFINISHED.touch()
        venv.create(VENV, with_pip=True, symlinks=True)
        UNFINISHED.unlink()


def _runs() -> bool:
    """Whether its Python starts and is new enough; it doesn't once its base Python is removed."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        run = subprocess.run([pip.PYTHON, "-c", check], capture_output=True, check=False)
    except OSError:
        return False
    return run.returncode == 0


def _install_lock(lock: str, step: Step, out: TextIO, log: Path) -> None:
    file = LOCKS / f"{lock}.txt"
    pins = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    torch = [pin for pin in pins if pin.startswith("torch==")] if lock == "engine-cpu" else []
    if torch:
        # PyPI has no CPU build of torch for Linux. Where pip is set up to find one it comes from
        # there; only else, and only for torch, is PyTorch's own index asked.
        lines = _pip(torch, step, out, total=1)
        if pip.is_not_found(lines):
            lines = _pip([*torch, "--extra-index-url", TORCH_INDEX], step, out, total=1)
        _require_success(lines, lock, log)
    _require_success(_pip(["-r", str(file)], step, out, total=len(pins)), lock, log)
    (STAMPS / lock).write_text(_digest(lock))


def _pip(arguments: list[str], step: Step, out: TextIO, *, total: int) -> list[str]:
    def unpacks() -> None:
        UNFINISHED.touch()
        step.note("unpacking")

    lines = pip.run(
        arguments, out=out, fetched=lambda count: step.note(f"{count} of {total}"), unpacks=unpacks
    )
    if not lines:
        UNFINISHED.unlink(missing_ok=True)
    return lines


def _require_success(lines: list[str], lock: str, log: Path) -> None:
    if lines:
        raise CannotStart(f"Installing the {lock} packages failed. {pip.explain(lines, log)}")
