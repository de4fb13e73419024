"""`bootstrap.py run` installs what is missing and starts; `install …` only installs."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.layout import ROOT, CannotStart, Install

sys.path.append(str(ROOT / "platform"))

from config.supervisor.instance import AlreadyRunning, require_port, running_instance
from config.supervisor.progress import Steps
from launcher import machine, packages, pip

USAGE = "usage: bootstrap.py run | install run|test|check"


def locks_for(purpose: str, engine: str) -> list[str]:
    """The locks that a purpose needs, in the order they are installed."""
    if purpose == "check":
        return ["web", "dev"]
    if purpose == "test":
        return ["web", machine.engine_lock(), "dev"]
    return ["web"] if engine == "fake" else ["web", machine.engine_lock()]


def main(arguments: list[str]) -> int:
    """Exit status of the process; on success of `run` it does not return."""
    match arguments:
        case ["run"]:
            purpose, start = "run", True
        case ["install", ("run" | "test" | "check") as purpose]:
            start = False
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    started_at = time.time()
    try:
        prepare(purpose, start=start)
    except (CannotStart, AlreadyRunning) as why:
        print(why, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nStopped. Nothing half done is left; the next start goes on from here.",
            file=sys.stderr,
        )
        return 130
    except OSError as fault:
        print(f"{fault.strerror}: {fault.filename or ROOT}", file=sys.stderr)
        return 1
    if start:
        os.chdir(ROOT)
        environment = os.environ | {"NEHIR_STARTED_AT": f"{started_at:.3f}"}
        # Nothing of a user's is in the command; the supervisor takes this process over.
        os.execve(pip.PYTHON, [str(pip.PYTHON), "manage.py", "up"], environment)  # noqa: S606
    return 0


def prepare(purpose: str, *, start: bool) -> None:
    """Check the machine and install what is missing. Raises CannotStart."""
    install = Install.read()
    machine.require_checkout_usable()
    machine.require_state_folder(install.var)
    if start:
        if other := running_instance(install.var):
            raise AlreadyRunning(other)
        require_port(install.host, install.port, error=CannotStart)
    locks = locks_for(purpose, install.engine)
    steps = Steps(sys.stdout)
    with one_at_a_time(steps):
        packages.install(locks, steps=steps, log=install.var / "log" / "install.log")


@contextmanager
def one_at_a_time(steps: Steps) -> Iterator[None]:
    """Two starts in one checkout install one after the other."""
    path = Path(ROOT / ".venv.lock")
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with steps.step("Waiting for another install in this folder"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
