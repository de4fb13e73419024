from __future__ import annotations

import re

import openai
import pytest
from playwright.async_api import expect

from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install

pytestmark = BROWSER


def models(install: Install, key: str) -> list[str]:
    client = openai.OpenAI(base_url=f"{install.url}/v1", api_key=key, max_retries=0)
    return [model.id for model in client.models.list()]


async def test_a_tenants_admin_issues_a_key_that_works_until_it_is_revoked(
    people: People, fake_install: Install, screenshots: Screenshots
) -> None:
    page = await people.page(fake_install)
    login = fake_install.tenant("acme")["admin"]
    await page.goto("/admin/")
    await page.locator("#id_username").fill(login["username"])
    await page.locator("#id_password").fill(login["password"])
    await page.locator("form button[type=submit]").click()
    await expect(page).to_have_url(f"{fake_install.url}/admin/")
    await expect(page.get_by_text("Acme").first).to_be_visible()
    await expect(page.get_by_text("Globex")).to_have_count(0)
    await screenshots.take(page, "admin")

    await page.goto("/admin/tenants/apikey/add/")
    await page.locator("#id_service_account").select_option(label="demo application")
    await page.locator("#id_name").fill("from a browser")
    await page.get_by_role("button", name="Save", exact=True).click()
    key = await page.locator("#key-text").inner_text()
    assert models(fake_install, key) == ["fake"]

    # Shown this once: neither the list nor the key's own page has it.
    await page.get_by_role("link", name="I have copied it").click()
    row = page.get_by_role("row").filter(has_text="from a browser")
    await expect(row).to_contain_text("Active")
    assert key not in await page.content()
    await row.get_by_role("link", name="from a browser").click()
    await expect(page).to_have_url(re.compile(f"/tenants/apikey/{key.split('_')[1]}/change/$"))
    assert key not in await page.content()
    assert key.rpartition("_")[2] not in await page.content()

    await page.get_by_role("link", name="Revoke").click()
    await page.get_by_role("button", name="Yes").click()
    await expect(page.get_by_text("1 key revoked.")).to_be_visible()
    with pytest.raises(openai.AuthenticationError) as denied:
        models(fake_install, key)
    assert denied.value.code == "invalid_api_key"
