from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from inference.models import Route
from inference.services import catalog
from kernel.database import database
from tests.inference.making import Records


@pytest.fixture(autouse=True)
def _unknown() -> None:
    catalog.forget()


async def test_while_models_are_asked_for_no_request_reads_them(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read in the background, and what has changed is known there."""
    readers: list[str] = []

    async def read(verb: Callable[[], Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        readers.append(task.get_name())
        return await database(verb)

    monkeypatch.setattr(catalog, "database", read)
    monkeypatch.setattr(catalog, "FRESH_S", 0.1)
    await catalog.target("fake")
    catalog.keep_fresh()
    await database(lambda: Route.objects.update(name="renamed"))
    while [each.name for each in await catalog.targets()] != ["renamed"] or len(readers) < 4:
        # Oftener than they are read, as a busy process asks; a machine that is busier still reads.
        await asyncio.sleep(0.005)
    assert readers.count("catalog") >= len(readers) // 2
    monkeypatch.setattr(catalog, "IN_USE_S", 0.0)
    while any(task.get_name() == "catalog" for task in asyncio.all_tasks()):
        await asyncio.sleep(0.005)
