"""The virtual environment `.venv` and the locks installed in it, so that a killed install is never taken for a whole one.

A lock that is installed leaves a stamp with its hash, which makes the next start skip it. While the environment is made or pip
unpacks, a marker lies in it; one that is still there at the next start tells that the environment can't be trusted.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TextIO

from config.supervisor.progress import Step, Steps
from launcher.layout import LOCKS, ROOT, VENV, CannotStart
from launcher.machine import require_disk

STAMPS = VENV / "nehir"
UNFINISHED = STAMPS / "unfinished"
PYTHON = VENV / "bin" / "python"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
UNPACKING = "Installing collected packages"
NOT_FOUND = re.compile(
    r"No matching distribution found for (\S+)|Could not find a version that satisfies .*? (\S+==\S+)"
)
NO_NETWORK = re.compile(
    r"NameResolutionError|NewConnectionError|ConnectionError|Max retries exceeded|TimeoutError|ProxyError|SSLError|"
    r"IncompleteRead|Temporary failure in name resolution|Connection (broken|reset|refused)"
)


def missing(locks: list[str]) -> list[str]:
    """The locks that are not installed as they stand."""
    usable = PYTHON.exists() and not UNFINISHED.exists() and not _other_engine(locks)
    return [lock for lock in locks if not usable or not _is_installed(lock)]


def install(locks: list[str], *, steps: Steps, log: Path) -> None:
    """Bring `.venv` to these locks. Raises CannotStart with one sentence and leaves nothing that passes for whole."""
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
    """Whether the other engine lock is installed: both bring a package named vllm, so they can't share an environment."""
    engines = {"engine-cpu", "engine-gpu"}
    wanted = engines & set(locks)
    return bool(wanted) and any((STAMPS / lock).exists() for lock in engines - wanted)


def _make_environment(locks: list[str], steps: Steps) -> None:
    if UNFINISHED.exists() or _other_engine(locks) or (STAMPS.exists() and not _runs()):
        shutil.rmtree(VENV.resolve())
    if VENV.exists() or VENV.is_symlink():
        if not _runs():
            raise CannotStart(
                f"{VENV} is not a working environment and was not made by make: remove it."
            )
        STAMPS.mkdir(exist_ok=True)
        return
    with steps.step("Creating .venv"):
        STAMPS.mkdir(parents=True)
        UNFINISHED.touch()
        venv.create(VENV, with_pip=True, symlinks=True)
        UNFINISHED.unlink()


def _runs() -> bool:
    """Whether the environment's Python starts and is new enough; it isn't after its base Python was removed."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return (
            subprocess.run([PYTHON, "-c", check], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def _install_lock(lock: str, step: Step, out: TextIO, log: Path) -> None:
    pins = (LOCKS / f"{lock}.txt").read_text().splitlines()
    torch = [line for line in pins if line.startswith("torch==") and lock == "engine-cpu"]
    UNFINISHED.touch()
    if torch:
        # PyPI has no CPU build of torch for Linux. Where pip is set up to find one it comes from there; only else, and only
        # for torch, is PyTorch's own index asked.
        lines = _pip(torch, step, out)
        if any(NOT_FOUND.search(line) for line in lines):
            lines = _pip([*torch, "--extra-index-url", TORCH_INDEX], step, out)
        _judge(lines, lock, log)
    _judge(_pip(["-r", str(LOCKS / f"{lock}.txt")], step, out, total=len(pins)), lock, log)
    (STAMPS / lock).write_text(_digest(lock))
    UNFINISHED.unlink()


def _pip(arguments: list[str], step: Step, out: TextIO, *, total: int = 0) -> list[str]:
    """Run pip's install; its last lines if it failed, an empty list if it succeeded."""
    # The wheels are kept on the disk whose free space was looked at; /tmp is often a small one in memory.
    temporary = VENV / "tmp"
    temporary.mkdir(exist_ok=True)
    left_out = (
        "PYTHONPATH",
        "PYTHONHOME",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "PIP_REQUIREMENT",
    )
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {
        "TMPDIR": str(temporary),
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--progress-bar",
        "off",
        *arguments,
    ]
    lines: list[str] = []
    fetched = 0
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        for line in process.stdout or ():
            out.write(line)
            out.flush()
            lines = [*lines[-200:], line.rstrip()]
            fetched += line.startswith(("Collecting", "Requirement already"))
            step.note(
                "unpacking"
                if line.startswith(UNPACKING)
                else f"{fetched} of {total}"
                if total
                else ""
            )
    shutil.rmtree(temporary, ignore_errors=True)
    return lines if process.returncode else []


def _judge(lines: list[str], lock: str, log: Path) -> None:
    """Raises CannotStart if there are lines of a failure, keeping the marker where pip had begun to unpack."""
    if not lines:
        return
    if not any(line.startswith(UNPACKING) for line in lines):
        UNFINISHED.unlink()
    text = "\n".join(lines)
    if "No space left on device" in text:
        sentence = "The disk is full."
    elif NO_NETWORK.search(text):
        sentence = "A download failed: check the network, or which package index pip is set up to use, and try again."
    elif found := NOT_FOUND.search(text):
        sentence = f"pip can't find {found[1] or found[2]} for Python {sys.version.split()[0]} on this machine."
    else:
        sentence = "pip failed."
    last = "\n".join(f"    {line}" for line in lines[-8:])
    raise CannotStart(
        f"Installing the {lock} packages failed. {sentence}\n{last}\n  All of it: {log}"
    )
