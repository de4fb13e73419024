"""Two beats on the embedded Valkey: one leads, the other takes over."""

from __future__ import annotations

import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import redis.exceptions
from pytest_django import Settings

from config.beat import LEASE, STANDBY_S, LeaderScheduler
from config.celery import app
from config.supervisor import services

TICK_S = 1.5


@pytest.fixture
def store(var: Path, settings: Settings) -> Iterator[redis.Redis]:
    """The embedded Valkey as the supervisor starts it."""
    folder = Path(tempfile.mkdtemp(prefix="nehir-"))  # short enough for a socket
    settings.EMBEDDED_REDIS_SOCKET = folder / "valkey.sock"
    settings.REDIS_URL = f"unix://{settings.EMBEDDED_REDIS_SOCKET}"
    client = redis.Redis.from_url(settings.REDIS_URL)
    with subprocess.Popen(services.valkey().command, stdout=subprocess.DEVNULL) as server:
        while not answers(client):
            assert server.poll() is None
            time.sleep(0.02)
        yield client
        server.terminate()
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[LeaderScheduler]:
    """The beats that sent what was due, in order; nothing is really sent."""
    sent: list[LeaderScheduler] = []

    def tick(beat: LeaderScheduler) -> float:
        sent.append(beat)
        return TICK_S

    monkeypatch.setattr("django_celery_beat.schedulers.DatabaseScheduler.tick", tick, raising=False)
    monkeypatch.setattr(LeaderScheduler, "sync", lambda self: None)
    return sent


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.ConnectionError:
        return False


def beat() -> LeaderScheduler:
    return LeaderScheduler(app=app, lazy=True)


def test_one_leads_and_the_other_stands_by(
    store: redis.Redis, ticks: list[LeaderScheduler]
) -> None:
    first, second = beat(), beat()
    assert [first.tick(), second.tick(), first.tick()] == [TICK_S, STANDBY_S, TICK_S]
    assert ticks == [first, first]


def test_a_leader_that_stops_hands_over(store: redis.Redis, ticks: list[LeaderScheduler]) -> None:
    first, second = beat(), beat()
    first.tick()
    second.tick()
    first.close()
    first.close()
    second.tick()
    assert ticks == [first, second]


def test_a_leader_that_lost_its_lease_stands_by(
    store: redis.Redis, ticks: list[LeaderScheduler]
) -> None:
    first, second = beat(), beat()
    first.tick()
    store.delete(LEASE)  # as after its time ran out
    second.tick()
    assert first.tick() == STANDBY_S
    assert ticks == [first, second]


def test_ticking_prolongs_the_lease(store: redis.Redis) -> None:
    first = beat()
    first.tick()
    store.pexpire(LEASE, 500)
    first.tick()
    assert store.pttl(LEASE) > 5000


def test_nothing_is_scheduled_without_the_store(
    store: redis.Redis, ticks: list[LeaderScheduler], settings: Settings
) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    assert beat().tick() == STANDBY_S
    assert ticks == []


def test_the_store_has_a_private_socket_and_no_port(store: redis.Redis, settings: Settings) -> None:
    assert stat.S_IMODE(Path(settings.EMBEDDED_REDIS_SOCKET).stat().st_mode) == 0o700
    wanted = {"port": "0", "save": "", "appendonly": "no", "maxmemory-policy": "noeviction"}
    found = {name: store.config_get(name)[name] for name in wanted}
    assert found == wanted
