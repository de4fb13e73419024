"""Which tests one worker has to itself, where two share them (`pytest -n 2`): the others go to
either, a file at a time.

By path, since xdist's own marks for it (`xdist_group`) have no effect with this pytest.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Loaded once: the real model, and, beside it, the browser.
MODEL = ("tests/model/", "tests/browser/test_real_answers.py")
BROWSER = "tests/browser/"


class SharingOut(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(MODEL):
            return "model"
        if nodeid.startswith(BROWSER):
            return "browser"
        return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingOut:
    return SharingOut(config, log)
