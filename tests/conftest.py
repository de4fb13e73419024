"""Fixtures that every test may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections

from kernel.redis import Client, client
from tests import environment
from tests.ground.postgres import Postgres
from tests.ground.valkey import Valkey

pytest_plugins = ["tests.ground.installs"]

# Whatever touches the database runs on SQLite and, selected by this mark, on PostgreSQL.
DATABASE_FIXTURES = {"db", "transactional_db", "seeded", "stack", "own_stack"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if used & DATABASE_FIXTURES or item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.database)


@pytest.fixture(scope="session", autouse=True)
def valkey() -> Iterator[Valkey]:
    """The Redis that settings name, for the whole session."""
    server = Valkey(Path(settings.EMBEDDED_REDIS_SOCKET)).start()
    yield server
    server.stop()


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
