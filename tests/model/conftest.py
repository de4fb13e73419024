from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever leaves the engine loading again goes last: nothing is waiting for it then."""
    items.sort(key=lambda item: item.path.parts[-2:] == ("model", "test_crash.py"))
