"""The control socket: who may use it, what it makes of nonsense, and of askers that leave."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from config.supervisor import control as control_module
from config.supervisor import instance, preparation
from config.supervisor.asking import NoSupervisor, NotDone, ask, begin
from config.supervisor.control import Control, socket_path
from config.supervisor.messages import LINE_BYTES, Drain, ProcessState, Report, Restart, Status
from config.supervisor.operations import Operations
from config.supervisor.replacement import Refused
from config.supervisor.supervisor import Say
from tests.ground import folders

REPORT = Report([ProcessState("web", "running", 7, "2030-01-01T12:00:00+00:00", 0)], [])


class Asked(Operations):
    """Operations that do nothing, in their own time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_end = asyncio.Event()
        self.ended = asyncio.Event()

    async def restart(self, what: str, *, stop_first: bool, say: Say) -> None:
        if what == "nothing":
            raise Refused("There is no 'nothing' here.")
        self.asked.append(f"restart {what} {stop_first}")
        say(f"{what} …")
        await self.may_end.wait()
        say("done")
        self.ended.set()

    async def drain(self, what: str, *, say: Say) -> None:
        self.asked.append(f"drain {what}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder with a short path, as the sockets' one is."""
    made = folders.short("nehir-control-")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def operations() -> Asked:
    return Asked()


@pytest.fixture
async def control(folder: Path, operations: Asked) -> AsyncIterator[Control]:
    async def report() -> Report:
        return REPORT

    opened = Control(operations, report)
    await opened.open(socket_path(folder))
    yield opened
    await opened.close()
    assert not socket_path(folder).exists()


async def told(folder: Path, request: bytes) -> list[dict[str, Any]]:
    """Everything that is replied to some bytes."""
    reader, writer = await asyncio.open_unix_connection(socket_path(folder))
    writer.write(request)
    async with asyncio.timeout(30):
        lines = (await reader.read()).splitlines()
    writer.close()
    return [json.loads(line) for line in lines]


async def asked(folder: Path, request: Any) -> tuple[Report | None, list[str]]:
    said: list[str] = []
    report = await asyncio.to_thread(ask, request, var=folder, folder=folder, say=said.append)
    return report, said


async def test_progress_and_the_end_come_as_lines(
    control: Control, operations: Asked, folder: Path
) -> None:
    operations.may_end.set()
    assert await asked(folder, Restart("web", stop_first=True)) == (None, ["web …", "done"])
    assert await asked(folder, Drain("engine")) == (None, [])
    assert operations.asked == ["restart web True", "drain engine"]
    assert (await asked(folder, Status()))[0] == REPORT


async def test_why_not_is_a_sentence(control: Control, folder: Path) -> None:
    with pytest.raises(NotDone, match="There is no 'nothing' here"):
        await asked(folder, Restart("nothing"))


@pytest.mark.parametrize(
    "request_",
    [
        b"\n",
        b"\x00\xff\xfe\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b"{}\n",
        b'{"do": "shutdown"}\n',
        b'{"do": "restart"}\n',
        b'{"do": "restart", "what": 5}\n',
        b'{"do": "restart", "what": "web", "and": "more"}\n',
        b"[" * (LINE_BYTES - 1) + b"\n",
        b"x" * (LINE_BYTES * 50) + b"\n",
        b'{"do": "drain", "what": "' + b"x" * (LINE_BYTES * 50) + b'"}\n',
    ],
)
async def test_nonsense_gets_a_sentence(
    control: Control, operations: Asked, folder: Path, request_: bytes
) -> None:
    (reply,) = await told(folder, request_)
    assert reply["is"] == "end"
    assert "no request" in reply["error"]
    assert operations.asked == []
    assert (await asked(folder, Status()))[0] == REPORT


async def test_those_who_say_nothing_are_sent_away(
    control: Control, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_module, "REQUEST_TIMEOUT_S", 0.1)
    silent = [asyncio.create_task(told(folder, b'{"do": "status"')) for _ in range(40)]
    assert (await asked(folder, Status()))[0] == REPORT
    for replies in await asyncio.gather(*silent):
        assert "no request" in replies[0]["error"]


async def test_what_was_asked_goes_on_without_its_asker(
    control: Control, operations: Asked, folder: Path
) -> None:
    reader, writer = await asyncio.open_unix_connection(socket_path(folder))
    writer.write(b'{"do": "restart", "what": "web"}\n')
    assert b"web" in await reader.readline()
    writer.close()
    await writer.wait_closed()
    operations.may_end.set()
    async with asyncio.timeout(30):
        await operations.ended.wait()


async def test_one_who_only_begins_it_is_told_whether_it_was_refused(
    control: Control, operations: Asked, folder: Path
) -> None:
    def begin_it(what: str) -> None:
        begin(Restart(what), var=folder, folder=folder, timeout_s=30)

    with pytest.raises(NotDone, match="There is no 'nothing' here"):
        await asyncio.to_thread(begin_it, "nothing")
    await asyncio.to_thread(begin_it, "web")
    assert operations.asked == ["restart web False"]
    assert not operations.ended.is_set()
    operations.may_end.set()
    async with asyncio.timeout(30):
        await operations.ended.wait()


async def test_a_supervisor_that_says_nothing(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(socket_path(folder)))
        mute.listen()
        with pytest.raises(NotDone, match="does not answer"):
            begin(Drain("engine"), var=folder, folder=folder, timeout_s=0.1)


async def test_those_who_wait_are_told_that_nehir_stops(
    control: Control, operations: Asked, folder: Path
) -> None:
    waiting = asyncio.create_task(asked(folder, Restart("web")))
    while not operations.asked:
        await asyncio.sleep(0.01)
    await control.close()
    with pytest.raises(NotDone, match="was stopped before"):
        await waiting


async def test_nobody_else_may_use_it(control: Control, folder: Path) -> None:
    preparation.make_socket_folder(folder, var=folder)
    assert mode_of(folder) == 0o700
    assert mode_of(socket_path(folder)) == 0o600
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    # Even where the folder is open: the socket is theirs alone.
    for mode in ("700", "755"):
        assert "PermissionError" in await asyncio.to_thread(connect_as_nobody, folder, mode)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def connect_as_nobody(folder: Path, mode: str) -> str:
    """What it says to a process of another user."""
    folder.chmod(int(mode, 8))
    code = (
        "import os, socket, sys; mine = socket.socket(socket.AF_UNIX)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "mine.connect(sys.argv[1]); print('in')"
    )
    command = [sys.executable, "-S", "-c", code, str(socket_path(folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


async def test_another_user_is_told_so(
    folder: Path, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forbidden:
        def connect(self, path: str) -> None:
            raise PermissionError(path)

    from config.supervisor import asking

    with pytest.raises(NotDone, match="Only the user that runs Nehir"):
        asking._connect(Forbidden(), socket_path(folder), folder)  # type: ignore[arg-type]


async def test_a_socket_that_was_left_behind_is_replaced(folder: Path, operations: Asked) -> None:
    socket_path(folder).write_text("left by a crash")

    async def report() -> Report:
        return REPORT

    opened = Control(operations, report)
    await opened.open(socket_path(folder))
    assert (await asked(folder, Status()))[0] == REPORT
    await opened.close()


async def test_without_a_supervisor(folder: Path) -> None:
    with pytest.raises(NoSupervisor, match="No Nehir runs from"):
        await asked(folder, Status())
    with pytest.raises(NoSupervisor):
        begin(Drain("engine"), var=folder, folder=folder, timeout_s=1)
    with (
        instance.hold(folder, "http://127.0.0.1:8000"),
        pytest.raises(NotDone, match="starting or stopping"),
    ):
        await asked(folder, Status())
