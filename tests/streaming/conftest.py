from __future__ import annotations

import pytest

from tests.tenants.worlds import World, world


@pytest.fixture
def acme(db: None) -> World:
    return world("acme")


@pytest.fixture
def globex(db: None) -> World:
    return world("globex")
