"""What a reader is told while its answer waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from inference.forecast import Wait
from inference.pipeline.admission import Admitted
from inference.queue_snapshot import Snapshot
from inference.services.estimates import Forecast
from kernel.redis import Client
from streaming import waiting
from streaming.answer import Frame
from streaming.waiting import Queued, QueueWatch
from tests.inference.making import START

ADMITTED = Admitted("ten_a", "gen_a", "rel_a", "fake", 3, START, 256, "hold")
STARTED = Frame(seq=0, text="", missed=0, started=True, interrupted=None, final=None)


class Told:
    """Stands in for this process's forecasts: says what the test says, keeps what came."""

    def __init__(self) -> None:
        self.position: int | None = None
        self.wait: Wait | None = None
        self.came_true: list[tuple[Wait, float]] = []

    def says(self, position: int | None, p50_s: float | None = None) -> None:
        self.position = position
        self.wait = None if p50_s is None else Wait(p50_s, 2 * p50_s, "standard")

    async def of(self, redis: Client, release_id: str) -> Forecast:
        positions = {} if self.position is None else {"gen_a": self.position}
        waits = {} if self.wait is None else {"gen_a": self.wait}
        return Forecast(Snapshot([], {}, {}, 0, []), positions, waits)

    def came(self, release_id: str, model: str, told: Wait, waited_s: float) -> None:
        self.came_true.append((told, waited_s))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(waiting, "forecasts", lambda: told)
    return told


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time."""
    now = [0.0]
    monkeypatch.setattr(waiting, "seconds", lambda: now[0])

    def set_time(seconds: float) -> None:
        now[0] = seconds

    return set_time


async def told_next(watch: QueueWatch, told: Told, position: int, p50_s: float | None) -> Queued:
    told.says(position, p50_s)
    queued = await watch.changed()
    assert queued is not None
    return queued


async def test_place_and_wait_are_told_when_they_change(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    first = await told_next(watch, told, 3, 40)
    assert first.as_json() == {"position": 3, "eta_p50_s": 40, "eta_p90_s": 80}
    assert await watch.changed() is None
    assert (await told_next(watch, told, 2, 40)).position == 2


async def test_a_wait_that_only_gets_shorter_as_time_passes_is_no_news(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    await told_next(watch, told, 3, 40)
    at(20)
    told.says(3, 22)
    assert await watch.changed() is None
    assert (await told_next(watch, told, 3, 60)).as_json()["eta_p50_s"] == 60


async def test_a_place_that_was_told_is_not_taken_back(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    await told_next(watch, told, 3, 40)
    queued = await told_next(watch, told, 5, 90)
    assert (queued.position, queued.as_json()["eta_p50_s"]) == (3, 90)


async def test_one_that_lost_its_engine_is_told_its_new_place(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    await told_next(watch, told, 1, 1)
    watch.saw(STARTED)
    watch.saw(replace(STARTED, started=False, interrupted="engine_lost"))
    assert (await told_next(watch, told, 2, 7)).as_json()["position"] == 2


async def test_a_place_is_told_where_nothing_is_known_of_waits(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    first = await told_next(watch, told, 3, None)
    assert first.as_json() == {"position": 3, "eta_p50_s": None, "eta_p90_s": None}
    assert await watch.changed() is None
    assert (await told_next(watch, told, 3, 8)).as_json()["eta_p50_s"] == 8


async def test_the_first_estimate_is_the_one_that_has_to_come_true(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    await told_next(watch, told, 3, None)
    at(1)
    first = (await told_next(watch, told, 3, 40)).wait
    at(11)
    await told_next(watch, told, 2, 90)
    at(31)
    watch.saw(STARTED)
    watch.saw(STARTED)
    assert told.came_true == [(first, 30)]
    told.says(1, 1)
    assert await watch.changed() is None


async def test_nothing_came_true_of_what_was_never_told(
    told: Told, at: Callable[[float], None]
) -> None:
    watch = QueueWatch(ADMITTED)
    told.says(None)
    assert await watch.changed() is None
    watch.saw(STARTED)
    assert told.came_true == []
