"""What the admin's replica view is told of this box's supervisor."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from config.supervision import ControlSocket
from config.supervisor.control import Control, socket_path
from config.supervisor.messages import ProcessState, Report
from config.supervisor.replacement import Refused
from console.replicas.supervision import EngineProcess, NoSupervisor, NotDone, Supervised
from console.replicas.supervision import supervision as provided
from tests.config.test_control import Asked
from tests.ground import folders

SINCE = datetime(2030, 1, 1, 12, tzinfo=UTC)
REPORT = Report(
    [
        ProcessState("web", "running", 7, SINCE.isoformat(), 0),
        ProcessState("engine", "stopped", None, SINCE.isoformat(), 2, release="fake"),
    ],
    None,
    going_on="drain of engine",
    failed="The new engine did not get ready. Its log, engine.log:\n    out of cheese",
)


class Refusing(Asked):
    async def drain(self, what: str, *, say: object) -> None:
        raise Refused(f"A restart of {what} is going on: wait for its end.")


@pytest.fixture
async def folder(settings: Settings) -> AsyncIterator[Path]:
    made = folders.short("nehir-supervision-")
    settings.VAR = settings.SOCKET_FOLDER = made
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def control(folder: Path) -> AsyncIterator[Control]:
    async def report() -> Report:
        return REPORT

    opened = Control(Refusing(), report)
    await opened.open(socket_path(folder))
    yield opened
    await opened.close()


def test_the_view_asks_over_the_control_socket() -> None:
    assert isinstance(provided(), ControlSocket)


async def test_engines_and_what_goes_on(control: Control) -> None:
    assert await asyncio.to_thread(ControlSocket().state) == Supervised(
        [EngineProcess("engine", "fake", "stopped", SINCE.timestamp())],
        "drain of engine",
        "The new engine did not get ready. Its log, engine.log",
    )


async def test_a_refusal_is_handed_on(control: Control) -> None:
    with pytest.raises(NotDone, match="A restart of engine is going on"):
        await asyncio.to_thread(ControlSocket().drain, "engine")


def test_without_a_supervisor(folder: Path) -> None:
    for ask in (
        ControlSocket().state,
        lambda: ControlSocket().drain("engine"),
        lambda: ControlSocket().restart("engine", stop_first=False),
    ):
        with pytest.raises(NoSupervisor):
            ask()
