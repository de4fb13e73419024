"""Fixtures that every test may ask for."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest
from django.conf import settings
from django.db import connections
from redis import Redis

from kernel.redis import Client, client
from tests import environment
from tests.ground import folders
from tests.ground.postgres import Postgres
from tests.ground.stack import Stack
from tests.ground.stores import Stores
from tests.ground.valkey import Valkey

pytest_plugins = ["tests.ground.installs", "tests.ground.flushing"]

# Whatever touches the database runs on SQLite and, selected by this mark, on PostgreSQL.
DATABASE_FIXTURES = {"db", "transactional_db", "stores", "stack", "own_stack"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if used & DATABASE_FIXTURES or item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.database)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """`make test` asks in several rounds, and ARGS may name tests of some of them alone."""
    config = session.config
    named = config.args_source != config.ArgsSource.TESTPATHS or config.option.keyword
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and named:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session", autouse=True)
def valkey() -> Iterator[Valkey]:
    """The Redis that settings name, for the whole session."""
    server = Valkey(Path(settings.EMBEDDED_REDIS_SOCKET)).start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_attempts_counted(valkey: Valkey) -> None:
    """What one test's people tried is not the next one's."""
    with Redis.from_url(settings.REDIS_URL) as opened:
        if keys := opened.keys("nehir:cache:*"):
            opened.delete(*keys)


@pytest.fixture
async def redis() -> AsyncIterator[Client]:
    """This test's client of an empty Redis: the very one that the code under test uses."""
    opened = client()
    await opened.flushall()
    yield opened
    await opened.aclose()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres | None]:
    """The PostgreSQL server, if this session is run on it."""
    if environment.POSTGRES_FOLDER is None:
        yield None
        return
    server = Postgres(environment.POSTGRES_FOLDER).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: Postgres | None) -> None:
    """On SQLite a file as in production, not Django's database in memory: threads share it."""
    if postgres is None:
        test = connections["default"].settings_dict["TEST"]
        test["NAME"] = str(environment.VAR / "test.sqlite3")


@pytest.fixture(scope="session")
def stores(postgres: Postgres | None) -> Stores:
    folder = environment.VAR / "stores"
    folder.mkdir()
    return Stores(folder, postgres)


@pytest.fixture(scope="session")
def stack(stores: Stores) -> Iterator[Stack]:
    """The whole platform with the fake engine, shared by tests that leave it as it was."""
    folder = folders.short("nehir-stack-")
    # At DEBUG, so that what must not be logged is not logged at any level.
    pace = {
        "NEHIR_FAKE_TTFT_MS": "20",
        "NEHIR_FAKE_ITL_MS": "10",
        "NEHIR_LOG_LEVEL": "DEBUG",
        "NEHIR_DETACH_GRACE_S": "2",
        # Nobody dies here; a machine that is busy with other tests may be slow.
        "NEHIR_REPLICA_TIMEOUT_S": "6",
    }
    running = Stack(folder, stores.copy(), stores.world, **pace)
    try:
        yield running.start()
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


class OwnStack(Protocol):
    def __call__(
        self, *, engine: bool = True, web_options: Sequence[str] = (), **settings: str
    ) -> Stack: ...


@pytest.fixture
def own_stack(stores: Stores) -> Iterator[OwnStack]:
    """Starts a platform of the test's own, to be broken: slow enough to break it in mid-stream."""
    started: list[Stack] = []

    def start(*, engine: bool = True, web_options: Sequence[str] = (), **settings: str) -> Stack:
        pace = {
            "NEHIR_FAKE_TTFT_MS": "20",
            "NEHIR_FAKE_ITL_MS": "50",
            "NEHIR_REPLICA_TIMEOUT_S": "3",
            "NEHIR_DETACH_GRACE_S": "2",
        }
        folder = folders.short("nehir-stack-")
        started.append(Stack(folder, stores.copy(), stores.world, web_options, **pace | settings))
        return started[-1].start(engine=engine)

    yield start
    for stack in started:
        stack.stop()
        shutil.rmtree(stack.folder, ignore_errors=True)
