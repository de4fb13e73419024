"""From a checkout to an environment: what is refused, and what a broken install leaves behind.

The launcher is copied into a folder of the test's own, away from the checkout's `.venv`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OLD_PYTHON = """import runpy, sys
sys.version_info = (3, 7, 16, "final", 0)
sys.version = "3.7.16 (default)"
sys.argv = ["bootstrap.py", "run"]
runpy.run_path({path!r}, run_name="__main__")
"""


@dataclass
class Checkout:
    """A folder that looks like a fresh clone to the launcher, its locks empty unless written."""

    root: Path

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: os.environ[name] for name in os.environ if not name.startswith("NEHIR")}
        clean.pop("ENGINE", None)
        return subprocess.run(
            [sys.executable, "deploy/bootstrap.py", *arguments],
            cwd=self.root,
            env=clean | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def lock(self, name: str, *pins: str) -> None:
        text = "\n".join(["# Written by a test.", *pins]) + "\n"
        (self.root / "deploy" / "lock" / f"{name}.txt").write_text(text)

    @property
    def python(self) -> Path:
        return self.root / ".venv" / "bin" / "python"

    @property
    def stamps(self) -> Path:
        return self.root / ".venv" / "nehir"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "a folder with spaces"
    shutil.copytree(ROOT / "deploy", root / "deploy", ignore=shutil.ignore_patterns("*.txt"))
    config = root / "platform" / "config"
    shutil.copytree(ROOT / "platform" / "config" / "supervisor", config / "supervisor")
    (config / "__init__.py").touch()
    found = Checkout(root)
    for name in ("web", "dev", "engine-cpu", "engine-gpu"):
        found.lock(name)
    return found


def test_a_too_old_python_is_told_in_one_sentence(checkout: Checkout) -> None:
    code = OLD_PYTHON.format(path=str(checkout.root / "deploy" / "bootstrap.py"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Nehir needs Python 3.11 or newer; ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("ENGINE", "gpt"), ("NEHIR_PORT", "http"), ("NEHIR_PORT", "0"), ("NEHIR_DEVICE", "tpu")],
)
def test_a_wrong_variable_is_named(checkout: Checkout, name: str, value: str) -> None:
    done = checkout.run("run", **({"NEHIR_PORT": str(free_port())} | {name: value}))
    assert done.returncode == 1
    assert done.stderr.startswith(f"{name} is {value!r}; it must be ")
    assert not checkout.python.exists()


def test_a_state_folder_that_cannot_be_is_named(checkout: Checkout) -> None:
    file = checkout.root / "file"
    file.touch()
    done = checkout.run("run", NEHIR_VAR=str(file / "var"), NEHIR_PORT=str(free_port()))
    assert done.returncode == 1
    assert done.stderr == f"{file / 'var'} (NEHIR_VAR) can't be made: Not a directory.\n"


def test_a_busy_port_is_seen_before_anything_is_installed(checkout: Checkout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = checkout.run("run", NEHIR_PORT=port, ENGINE="fake")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Port {port} on 127.0.0.1 is in use")
    assert not (checkout.root / ".venv").exists()


def test_a_running_nehir_is_named(checkout: Checkout) -> None:
    lock = checkout.root / "var" / "run" / "up.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as file:
        file.write("4711 http://127.0.0.1:8000")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        done = checkout.run("run", NEHIR_PORT=str(free_port()))
    assert done.returncode == 1
    assert "already running" in done.stderr
    assert "process 4711, http://127.0.0.1:8000" in done.stderr


def test_a_full_disk_is_seen_first(checkout: Checkout) -> None:
    machine = checkout.root / "deploy" / "launcher" / "machine.py"
    text = machine.read_text()
    assert '"web": ' in text
    machine.write_text(text.replace('"web": ', '"web": 1000000000 + '))
    done = checkout.run("install", "run", ENGINE="fake")
    assert done.returncode == 1
    assert done.stderr.startswith("Not enough disk space: installing web needs about 1000000")
    assert not (checkout.root / ".venv").exists()


def test_an_install_is_stamped_and_not_done_twice(checkout: Checkout) -> None:
    first = checkout.run("install", "check")
    assert first.returncode == 0, first.stderr
    assert [line.split(" …")[0].strip() for line in first.stdout.splitlines()] == [
        "Creating .venv",
        "Installing web packages",
        "Installing dev packages",
    ]
    assert subprocess.run([checkout.python, "-c", ""], check=False).returncode == 0
    second = checkout.run("install", "check")
    assert (second.returncode, second.stdout) == (0, "")


def test_a_changed_lock_is_installed_again(checkout: Checkout) -> None:
    assert checkout.run("install", "run", ENGINE="fake").returncode == 0
    checkout.lock("web", "# changed")
    done = checkout.run("install", "run", ENGINE="fake")
    assert done.stdout.startswith("  Installing web packages")


def test_a_killed_install_is_begun_anew(checkout: Checkout) -> None:
    assert checkout.run("install", "run", ENGINE="fake").returncode == 0
    (checkout.stamps / "unfinished").touch()
    (checkout.root / ".venv" / "half").touch()
    done = checkout.run("install", "run", ENGINE="fake")
    assert done.stdout.startswith("  Creating .venv")
    assert not (checkout.root / ".venv" / "half").exists()
    assert not (checkout.stamps / "unfinished").exists()


def test_an_environment_that_is_not_ours_is_never_removed(checkout: Checkout) -> None:
    (checkout.root / ".venv" / "precious").mkdir(parents=True)
    done = checkout.run("install", "run", ENGINE="fake")
    assert done.returncode == 1
    assert "does not work and was not made by make: remove it." in done.stderr
    assert (checkout.root / ".venv" / "precious").exists()


def test_a_missing_package_is_named_and_the_next_try_goes_on(checkout: Checkout) -> None:
    checkout.lock("web", "no-such-package-of-nehir==1.0")
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(checkout.root)}
    done = checkout.run("install", "run", ENGINE="fake", **nowhere)
    assert done.returncode == 1
    assert "Installing the web packages failed. pip finds no no-such-package" in done.stderr
    assert "var/log/install.log" in done.stderr
    checkout.lock("web")
    done = checkout.run("install", "run", ENGINE="fake")
    assert done.returncode == 0, done.stderr
    assert "Creating .venv" not in done.stdout


def test_a_failed_download_is_told_as_one(checkout: Checkout) -> None:
    checkout.lock("web", "no-such-package-of-nehir==1.0")
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "1"}
    done = checkout.run("install", "run", ENGINE="fake", **offline)
    assert done.returncode == 1
    assert "A download failed: check the network" in done.stderr


def test_the_other_engine_gets_an_environment_of_its_own(checkout: Checkout) -> None:
    assert checkout.run("install", "run", NEHIR_DEVICE="cpu").returncode == 0
    done = checkout.run("install", "run", NEHIR_DEVICE="gpu")
    assert "Creating .venv" in done.stdout
    assert not (checkout.stamps / "engine-cpu").exists()
    assert (checkout.stamps / "engine-gpu").exists()


def test_a_home_that_nothing_can_be_written_to_is_enough(checkout: Checkout) -> None:
    home = checkout.root / "home"
    home.touch()  # not a folder: root too can't write below it
    done = checkout.run("install", "run", ENGINE="fake", HOME=str(home))
    assert done.returncode == 0, done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
