from __future__ import annotations

from datetime import timedelta

from pytest_django.fixtures import Settings

from inference import queue
from inference.messages import Failed
from inference.models import State
from inference.services import recovery
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import START, Records, StoppedClock, entries, request

CLOCK = StoppedClock()


async def test_requests_that_waited_too_long_are_given_up(
    redis: Client, records: Records, settings: Settings
) -> None:
    asked = request()
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    assert await recovery.close_overdue(redis, CLOCK) == 0
    settings.QUEUE_TIMEOUT_S = -1
    assert await recovery.close_overdue(redis, CLOCK) == 1
    assert await recovery.close_overdue(redis, CLOCK) == 0
    last = (await entries(redis, asked))[-1]
    assert isinstance(last, Failed)
    assert last.code == "queue_timeout"
    assert (await database(records.of, asked)).error_code == "queue_timeout"


async def test_open_generations_without_a_log_are_settled_after_a_minute(
    redis: Client, records: Records
) -> None:
    old, young, alive = request(), request(), request()
    await database(records.open, old, created_at=START - timedelta(seconds=61))
    await database(records.open, young, created_at=START - timedelta(seconds=59))
    await database(records.open, alive, created_at=START - timedelta(seconds=61))
    await queue.enqueue(redis, alive)
    assert await recovery.sweep(redis, CLOCK) == {
        "lost": 0,
        "overdue": 0,
        "orphans": 1,
        "withdrawn": 0,
    }
    states = [(await database(records.of, each)).state for each in (old, young, alive)]
    assert states == [State.FAILED, State.OPEN, State.OPEN]
