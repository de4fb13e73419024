from __future__ import annotations

import pytest

from tests.inference.conftest import listeners, records
from tests.tenants.worlds import World, world

__all__ = ["listeners", "records"]


@pytest.fixture
def acme(db: None) -> World:
    return world("acme")


@pytest.fixture
def globex(db: None) -> World:
    return world("globex")
