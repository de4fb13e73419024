"""A real Chromium: Debian's where it is installed, else Playwright's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

MISSING = (
    "These tests need a Chromium. As root on Debian: apt-get install -y chromium. "
    "Else: .venv/bin/playwright install chromium"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. Nothing in its context may use the ORM: Playwright keeps an event loop running."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        if not Path(path).exists():
            pytest.fail(MISSING)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
