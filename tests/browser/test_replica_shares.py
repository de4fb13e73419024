"""Shares and KV use in the operators' view, in a browser."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.browser.test_replicas import ADDRESS, asking, becomes, field
from tests.ground.install import Install

pytestmark = BROWSER


@pytest.mark.parametrize(
    ("locale", "color_scheme", "ready", "standard", "told"),
    [
        (
            "en-GB",
            "light",
            "ready",
            "Standard",
            r"^[\d.]+ % of the class; its weight entitles it to 50 %",
        ),
        (
            "tr-TR",
            "dark",
            "hazır",
            "Standart",
            r"^sınıfın %[\d,]+ kadarı; ağırlığına göre hakkı %50",
        ),
    ],
)
async def test_operators_see_who_has_had_what(
    people: People,
    fake_install: Install,
    screenshots: Screenshots,
    locale: str,
    color_scheme: str,
    ready: str,
    standard: str,
    told: str,
) -> None:
    fake_install.wait_until_ready()
    login = fake_install.demo["operator"]
    page = await people.page(fake_install, login, locale=locale, color_scheme=color_scheme)
    await page.goto(ADDRESS)
    await becomes(page, ready)
    answers = [asking(fake_install), asking(fake_install, "globex"), asking(fake_install)]
    # A few blocks of many: a percent would be zero.
    await expect(field(page, "kv")).to_have_attribute("title", re.compile(r"[1-9]"), timeout=30_000)
    # Chats, which are of another class, may have been there lately.
    rows = page.get_by_test_id("tenant-share").filter(has_text=standard)
    await expect(rows).to_have_count(2, timeout=30_000)
    names = await rows.locator('[data-field="tenant"]').all_inner_texts()
    assert sorted(names) == ["Acme", "Globex"]
    await expect(rows.first.get_by_role("img")).to_have_accessible_name(re.compile(told))
    await expect(rows.locator('[data-field="entitled"]').first).to_have_text(re.compile("50"))
    await asyncio.gather(*answers)
    await expect(rows.first.locator('[data-field="part"]')).not_to_have_text(re.compile("100"))
    await page.get_by_test_id("shares").scroll_into_view_if_needed()
    # Its buttons are in sight, in the language that needs most room as well.
    table = page.get_by_test_id("replica-table").locator("..")
    assert await table.evaluate("region => region.scrollWidth <= region.clientWidth")
    if color_scheme == "light":
        await screenshots.take(page, "replicas-shares")
