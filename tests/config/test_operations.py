"""Restart and drain of real processes under a supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from config.supervisor import memory
from config.supervisor.operations import Operations
from config.supervisor.policy import Phase
from config.supervisor.replacement import Refused
from config.supervisor.services import Service
from config.supervisor.supervisor import Child, Supervisor
from kernel.clock import SystemClock
from tests.config import standins
from tests.config.standins import followed_by, noted, server, tells_ready
from tests.config.test_supervisor import until


class Crew:
    """A supervisor, what it says, and operations whose successors a test chooses."""

    def __init__(self, var: Path) -> None:
        self.notes = var / "notes"
        self.said: list[str] = []
        self.leaving_for_good: list[str] = []
        self.successor = followed_by()
        self.supervisor = Supervisor(clock=SystemClock(), say=self.said.append)
        self.operations = Operations(
            self.supervisor,
            SystemClock(),
            successor=lambda service: self.successor(service),
            before_drain=self._before_drain,
            is_ready=tells_ready,
        )

    def _before_drain(self, leaving: list[Child]) -> None:
        self.leaving_for_good += [child.service.name for child in leaving]

    async def start(self, *services: Service) -> list[Child]:
        children = [self.supervisor.start(service) for service in services]
        for child in children:
            await until(lambda child=child: child.process and child.process.has_told_ready)  # type: ignore[misc]
        return children

    async def restart(self, what: str, *, stop_first: bool = False) -> None:
        await self.operations.restart(what, stop_first=stop_first, say=self.said.append)

    async def drain(self, what: str) -> None:
        await self.operations.drain(what, say=self.said.append)

    @property
    def names(self) -> list[str]:
        return [child.service.name for child in self.supervisor.children]

    def happened(self) -> list[str]:
        return [what for what, _ in noted(self.notes)]

    def pids(self) -> list[int]:
        return [pid for _, pid in noted(self.notes)]


@pytest.fixture
async def crew(var: Path) -> AsyncIterator[Crew]:
    crew = Crew(var)
    yield crew
    crew.supervisor.hurry()
    await crew.supervisor.stop()


async def test_the_new_one_is_there_before_the_old_one_leaves(crew: Crew) -> None:
    await crew.start(server("web", crew.notes))
    await crew.restart("web")
    assert crew.happened() == ["started", "started", "left"]
    old, new, left = crew.pids()
    assert left == old != new
    (child,) = crew.supervisor.children
    assert child.process is not None
    assert child.process.pid == new
    assert any(f"(process {old}) has left" in line for line in crew.said)


async def test_several_are_replaced_one_after_the_other(crew: Crew) -> None:
    await crew.start(*(server(name, crew.notes) for name in ("web", "web-2", "web-3")))
    await crew.restart("web")
    assert crew.happened() == ["started"] * 3 + ["started", "left"] * 3
    assert crew.names == ["web", "web-2", "web-3"]


async def test_one_of_several_by_its_name(crew: Crew) -> None:
    _, second = await crew.start(*(server(name, crew.notes) for name in ("web", "web-2")))
    assert second.process is not None
    pid = second.process.pid
    await crew.restart("web-2")
    assert crew.happened() == ["started", "started", "started", "left"]
    assert crew.pids()[-1] == pid


@pytest.mark.parametrize(
    ("ready", "why"), [(standins.BROKEN, "out of cheese"), (standins.MUTE, "did not get ready")]
)
async def test_the_old_one_stays_when_the_new_one_does_not_get_ready(
    crew: Crew, ready: str, why: str
) -> None:
    await crew.start(server("web", crew.notes), server("web-2", crew.notes))
    bad = server("web", crew.notes, ready=ready)
    crew.successor = followed_by(command=bad.command)
    for child in crew.supervisor.children:
        child.service = replace(child.service, ready_within_s=1.0)
    with pytest.raises(Refused, match="The old one goes on") as refused:
        await crew.restart("web")
    assert why in str(refused.value)
    # Nobody left but the new one, and the second was not touched.
    assert crew.names == ["web", "web-2"]
    assert all(child.is_running and child.starts == 1 for child in crew.supervisor.children)
    first, second = (child.process for child in crew.supervisor.children)
    assert first is not None
    assert second is not None
    assert {first.pid, second.pid} == set(crew.pids()[:2])


async def test_a_broken_restart_is_no_obstacle_to_the_next(crew: Crew) -> None:
    await crew.start(server("web", crew.notes))
    crew.successor = followed_by(command=server("web", crew.notes, ready=standins.BROKEN).command)
    with pytest.raises(Refused) as refused:
        await crew.restart("web")
    assert (crew.operations.going_on, crew.operations.failed) == ("", str(refused.value))
    crew.successor = followed_by(command=server("web", crew.notes).command)
    await crew.restart("web")
    assert crew.names == ["web"]
    assert crew.operations.failed == ""


async def test_stop_first_makes_room(crew: Crew) -> None:
    await crew.start(server("engine", crew.notes))
    await crew.restart("engine", stop_first=True)
    assert crew.happened() == ["started", "left", "started"]


async def test_one_that_does_not_come_back_is_tried_again_and_told(crew: Crew) -> None:
    await crew.start(server("engine", crew.notes))
    crew.successor = followed_by(command=server("web", crew.notes, ready=standins.BROKEN).command)
    with pytest.raises(Refused, match="tried again and again"):
        await crew.restart("engine", stop_first=True)
    assert crew.names == ["engine"]
    await until(lambda: crew.supervisor.children[0].starts > 1)


async def test_of_those_that_need_not_be_two_there_are_never_two(crew: Crew) -> None:
    await crew.start(server("beat", crew.notes))
    await crew.restart("beat")
    assert crew.happened() == ["started", "left", "started"]


async def test_drained_it_stays_away_until_a_restart_brings_it_back(crew: Crew) -> None:
    await crew.start(server("web", crew.notes), server("web-2", crew.notes))
    await crew.drain("web")
    assert [child.life.phase for child in crew.supervisor.children] == [Phase.STOPPED] * 2
    assert crew.leaving_for_good == ["web", "web-2"]
    await crew.drain("web")
    assert "web is stopped already." in crew.said
    assert crew.happened().count("left") == 2
    await crew.restart("web")
    assert all(child.is_running for child in crew.supervisor.children)
    assert crew.names == ["web", "web-2"]
    assert crew.happened().count("left") == 2


async def test_one_operation_at_a_time(crew: Crew) -> None:
    await crew.start(server("web", crew.notes, leaves_after_s=0.5), server("engine", crew.notes))
    first = asyncio.create_task(crew.drain("web"))
    await asyncio.sleep(0)
    for other in (crew.drain("web"), crew.drain("engine"), crew.restart("web")):
        assert crew.operations.going_on == "drain of web"
        with pytest.raises(Refused, match="A drain of web is going on"):
            await other
    await first
    await crew.drain("engine")
    assert crew.happened().count("left") == 2


@pytest.mark.parametrize("what", ["valkey", "", "web-9", "up", "*"])
async def test_what_is_not_there_is_said_with_what_is(crew: Crew, what: str) -> None:
    await crew.start(server("web", crew.notes))
    with pytest.raises(Refused, match="Known: web"):
        await crew.restart(what)


async def test_before_anything_runs_there_is_nothing_to_restart(crew: Crew) -> None:
    with pytest.raises(Refused, match="still starting"):
        await crew.restart("web")


async def test_an_engine_for_which_there_is_no_room_is_not_started(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crew.start(server("engine", crew.notes))
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(Refused, match="--stop-first"):
        await crew.restart("engine")
    assert crew.happened() == ["started"]
    await crew.restart("engine", stop_first=True)
    assert crew.happened() == ["started", "left", "started"]


async def test_stopped_in_mid_restart_nobody_is_left(crew: Crew) -> None:
    await crew.start(server("web", crew.notes))
    crew.successor = followed_by(command=server("web", crew.notes, ready=standins.MUTE).command)
    restart = asyncio.create_task(crew.restart("web"))
    await until(lambda: crew.happened() == ["started", "started"])
    restart.cancel()
    await crew.supervisor.stop()
    assert crew.happened() == ["started", "started", "left", "left"]


async def test_a_drain_that_is_told_to_stop_is_not_cut_short(crew: Crew) -> None:
    """A second SIGTERM would break off what it lets end."""
    await crew.start(server("web", crew.notes, leaves_after_s=0.5))
    drain = asyncio.create_task(crew.drain("web"))
    await until(lambda: any("told to finish" in line for line in crew.said))
    drain.cancel()
    await crew.supervisor.stop()
    assert crew.happened() == ["started", "left"]


def test_memory_is_read_as_the_kernel_tells_it(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:     2048 kB\n")
    assert memory.available_bytes(tmp_path) == 2 << 20
    assert memory.available_bytes(tmp_path / "elsewhere") is None
    # pid (name) state ppid pgrp session …; resident pages are the 24th field.
    for pid, session, pages in ((10, 10, 5), (11, 10, 7), (12, 12, 100)):
        fields = ["S", "1", "10", str(session), *(["0"] * 17), str(pages), "0"]
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}")
    (tmp_path / "13").mkdir()  # gone meanwhile
    assert memory.resident_bytes(10, tmp_path) == 12 * os.sysconf("SC_PAGE_SIZE")
