from __future__ import annotations

import pytest
from django.test import Client

from tests.tenants.worlds import World, person, world


@pytest.fixture
def acme(db: None) -> World:
    return world("acme")


@pytest.fixture
def globex(db: None) -> World:
    return world("globex")


@pytest.fixture
def operator(db: None) -> Client:
    client = Client()
    client.force_login(person("operator", superuser=True))
    return client
