from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings


@pytest.fixture
def var(tmp_path: Path, settings: Settings) -> Path:
    """A state folder of the test's own."""
    settings.VAR = tmp_path
    return tmp_path
