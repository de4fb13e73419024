from __future__ import annotations

import re

import openai
from playwright.async_api import expect

from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install
from tests.ground.processes import wait_until

pytestmark = BROWSER


def models(install: Install, key: str) -> list[str]:
    client = openai.OpenAI(base_url=f"{install.url}/v1", api_key=key, max_retries=0)
    return [model.id for model in client.models.list()]


def is_denied(install: Install, key: str) -> bool:
    try:
        models(install, key)
    except openai.AuthenticationError as denied:
        return denied.code == "invalid_api_key"
    return False


async def test_a_tenants_admin_issues_a_key_that_works_until_it_is_revoked(
    people: People, fake_install: Install, screenshots: Screenshots
) -> None:
    page = await people.page(fake_install)
    login = fake_install.tenant("acme")["admin"]
    await page.goto("/admin/")
    await page.locator("#id_username").fill(login["username"])
    await page.locator("#id_password").fill(login["password"])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{fake_install.url}/admin/")
    await expect(page.get_by_text("Acme").first).to_be_visible()
    await expect(page.get_by_text("Globex")).to_have_count(0)
    await screenshots.take(page, "admin")

    await page.goto("/admin/tenants/apikey/add/")
    await page.locator("#id_service_account").select_option(label="demo application")
    await page.locator("#id_name").fill("from a browser")
    await page.get_by_role("checkbox", name="fake", exact=True).check()
    await page.locator("#id_networks").fill("127.0.0.0/8")
    await screenshots.take(page, "key-new")
    await page.get_by_role("button", name="Save", exact=True).click()
    key = await page.locator("#key-text").inner_text()
    assert models(fake_install, key) == ["fake"]

    # Shown this once: neither the list nor the key's own page has it.
    await page.get_by_role("link", name="I have copied it").click()
    row = page.get_by_role("row").filter(has_text="from a browser")
    await expect(row).to_contain_text("Active")
    assert key not in await page.content()
    await row.get_by_role("link", name="from a browser").click()
    await expect(page).to_have_url(re.compile(f"/tenants/apikey/{key.split('_')[2]}/change/$"))
    assert key not in await page.content()
    assert key.rpartition("_")[2] not in await page.content()

    await page.get_by_role("link", name="Rotate").click()
    await expect(page.get_by_label("Hours that the old key still works")).to_have_value("24")
    await screenshots.take(page, "key-rotate")
    await page.get_by_role("button", name="Rotate, and show the new key").click()
    successor = await page.locator("#key-text").inner_text()
    assert successor != key
    assert models(fake_install, successor) == models(fake_install, key) == ["fake"]

    await page.goto(f"/admin/tenants/apikey/{key.split('_')[2]}/change/")
    await screenshots.take(page, "key")
    await page.get_by_role("link", name="Revoke").click()
    await page.get_by_role("button", name="Yes").click()
    await expect(page.get_by_text("1 key revoked.")).to_be_visible()
    wait_until(lambda: is_denied(fake_install, key), what="the revoked key is refused")
    assert models(fake_install, successor) == ["fake"]
