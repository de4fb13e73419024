"""Real processes under the supervisor: started again, stopped in order, never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from config.supervisor.process import Process, Watchdog, last_lines, rotate
from config.supervisor.services import STOP_ORDER, Service
from config.supervisor.supervisor import Supervisor
from kernel.clock import SystemClock

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(600)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPER


class ImpatientClock(SystemClock):
    """Every run looks long enough to have been healthy, so that restarts come after one second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 100
        return self.seconds


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def supervisor(var: Path, said: list[str]) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(clock=ImpatientClock(), say=said.append)
    yield supervisor
    supervisor.hurry()
    await supervisor.stop()


def service(name: str, code: str, *, grace_s: float = 10.0) -> Service:
    return Service(name, (sys.executable, "-c", code), grace_s=grace_s)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """False for zombies too: nobody may reap them in a container."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_crashed_child_is_started_again_and_reported(
    supervisor: Supervisor, said: list[str]
) -> None:
    child = supervisor.start(service("web", "print('out of cheese'); raise SystemExit(3)"))
    await until(lambda: child.starts >= 2)
    assert "web ended with code 3; again in 1 s" in said[0]
    assert "out of cheese" in said[0]
    assert str(child.service.log) in said[0]


async def test_a_killed_child_is_reported_by_signal(
    supervisor: Supervisor, said: list[str]
) -> None:
    child = supervisor.start(service("web", SLEEPER))
    await until(lambda: last_lines(child.service.log))
    assert child.process
    os.kill(child.process.pid, signal.SIGKILL)
    await until(lambda: said)
    assert "web ended with signal SIGKILL" in said[0]


async def test_a_program_that_is_not_there_is_reported(
    supervisor: Supervisor, said: list[str]
) -> None:
    supervisor.start(Service("web", ("/nowhere/to/be/found",)))
    await until(lambda: said)
    assert "web ended with code 127" in said[0]
    assert "No such file" in said[0]


async def test_children_stop_in_order(supervisor: Supervisor, var: Path) -> None:
    note = (
        "import signal, sys\n"
        f"ended = open({str(var / 'ended')!r}, 'a')\n"
        "def end(*_): ended.write(NAME + '\\n'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
    )
    children = [
        supervisor.start(service(name, f"NAME = {name!r}\n{note}{SLEEPER}"))
        for name in reversed(STOP_ORDER)
    ]
    await until(lambda: all(last_lines(child.service.log) for child in children))
    await supervisor.stop()
    assert (var / "ended").read_text().split() == list(STOP_ORDER)


async def test_a_child_that_ignores_the_signal_is_killed(
    supervisor: Supervisor, said: list[str]
) -> None:
    child = supervisor.start(service("web", STUBBORN, grace_s=0.2))
    await until(lambda: last_lines(child.service.log))
    process = child.process
    await supervisor.stop()
    assert process
    assert not is_alive(process.pid)
    assert said == ["web did not stop in time and was killed."]


async def test_hurry_does_not_wait_for_the_grace(supervisor: Supervisor) -> None:
    child = supervisor.start(service("web", STUBBORN, grace_s=3600))
    await until(lambda: last_lines(child.service.log))
    supervisor.hurry()
    async with asyncio.timeout(30):
        await supervisor.stop()


async def test_what_a_child_started_ends_with_it(supervisor: Supervisor) -> None:
    spawn = (
        "import subprocess, sys\n"
        f"inner = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], stdout=-3)\n"
        "print(inner.pid, flush=True)\nimport time\ntime.sleep(600)"
    )
    child = supervisor.start(service("engine", spawn))
    await until(lambda: last_lines(child.service.log))
    grandchild = int(last_lines(child.service.log)[0])
    assert is_alive(grandchild)
    await supervisor.stop()
    await until(lambda: not is_alive(grandchild))


async def test_children_end_when_the_supervisor_is_killed(var: Path) -> None:
    """A stand-in for the supervisor spawns one child and is killed; the watchdog does the rest."""
    stand_in = (
        "import asyncio, django, sys\n"
        "django.setup()\n"
        "from config.supervisor.process import Process, Watchdog\n"
        "from config.supervisor.services import Service\n"
        "async def main():\n"
        f"    child = Service('web', (sys.executable, '-c', {SLEEPER!r}))\n"
        "    child.log.parent.mkdir(parents=True)\n"
        "    process = await Process.spawn(child, Watchdog())\n"
        "    print(process.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    environment = os.environ | {
        "NEHIR_VAR": str(var),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    with subprocess.Popen(
        [sys.executable, "-c", stand_in], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        child = int(await asyncio.to_thread(process.stdout.readline))
        assert is_alive(child)
        process.kill()
    await until(lambda: not is_alive(child))


async def test_run_once_gives_the_status_and_ends_with_its_caller(supervisor: Supervisor) -> None:
    assert await supervisor.run_once(service("prepare_model", "raise SystemExit(7)")) == 7
    sleeper = service("prepare_model", SLEEPER)
    run = asyncio.create_task(supervisor.run_once(sleeper))
    await until(lambda: last_lines(sleeper.log))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_exits_are_told_to_the_service(var: Path) -> None:
    gone: list[int] = []
    dog = Watchdog()
    command = (sys.executable, "-c", "pass")
    (var / "log").mkdir()
    process = await Process.spawn(Service("web", command, on_exit=gone.append), dog)
    assert await process.wait() == 0
    assert gone == [process.pid]
    dog.close()


def test_logs_are_rotated_and_the_oldest_dropped(tmp_path: Path) -> None:
    log = tmp_path / "log" / "web.log"
    for run in range(6):
        rotate(log)
        log.write_text(f"run {run}\n")
    kept = {file.name: file.read_text() for file in log.parent.iterdir()}
    assert kept == {
        "web.log": "run 5\n",
        "web.log.1": "run 4\n",
        "web.log.2": "run 3\n",
        "web.log.3": "run 2\n",
    }
