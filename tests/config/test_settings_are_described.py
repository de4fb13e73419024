"""Whatever an operator may set has a row in docs/operations.md."""

from __future__ import annotations

import re

from tests.environment import ROOT

READ = re.compile(r'"(NEHIR_[A-Z_0-9]+|ENGINE|DATABASE_URL|REDIS_URL)"')


def test_every_setting_has_a_row() -> None:
    settings = (ROOT / "platform" / "config" / "settings.py").read_text()
    described = (ROOT / "docs" / "operations.md").read_text()
    missing = {name for name in READ.findall(settings) if f"`{name}`" not in described}
    assert missing == set()
