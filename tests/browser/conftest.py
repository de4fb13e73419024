"""A real Chromium, once a session, and people who use it.

Playwright and its browser live in the session's event loop, so tests here run in that one:
`pytestmark = ON_ONE_LOOP` of `tests.browser.marks`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.chromium import launch
from tests.browser.people import People
from tests.browser.screenshots import Screenshots


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def people(chromium: Browser) -> AsyncIterator[People]:
    """Fails the test if a page's console had anything to complain of."""
    people = People(chromium)
    yield people
    await people.close()
    assert people.errors == []


@pytest.fixture(scope="session")
def screenshots() -> Screenshots:
    return Screenshots()
