from __future__ import annotations

from collections.abc import Iterator

import pytest

from inference.models import EngineKind, Release, Route
from inference.services import catalog, settlement
from tenants.models import Tenant
from tests.inference.making import Records


@pytest.fixture
def records(transactional_db: None) -> Iterator[Records]:
    """Two tenants and a release in the database, as `making.request` names them."""
    for tenant_id in ("ten_a", "ten_b"):
        Tenant.objects.create(id=tenant_id, slug=tenant_id.replace("_", "-"), name=tenant_id)
    release = Release.objects.create(
        id="rel_a", name="fake", engine=EngineKind.FAKE, context_tokens=64
    )
    catalog.forget()
    yield Records(Route.objects.create(name="fake", release=release))
    catalog.forget()


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> list[settlement.Listener]:
    """The listeners of settlement, for this test alone."""
    mine: list[settlement.Listener] = []
    monkeypatch.setattr(settlement, "_listeners", mine)
    return mine
