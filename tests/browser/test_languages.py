from __future__ import annotations

from playwright.async_api import expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install

pytestmark = BROWSER

QUESTIONS = [
    "Bir nehir vadisini nasıl biçimlendirir?",
    "Çığ tehlikesi olan yerde nasıl yürünür?",
    "Köprü ayakları için hangi taş uygundur?",
]


async def test_the_page_changes_its_language_and_keeps_it(
    people: People, fake_install: Install, screenshots: Screenshots
) -> None:
    page = await people.page(fake_install, fake_install.tenant("globex")["user"])
    chat = await Chat(page).open()
    await expect(page.locator("html")).to_have_attribute("lang", "en")
    await expect(page.get_by_role("heading", level=2).last).to_have_text(
        "What would you like to know?"
    )
    await expect(chat.connection).to_have_text("Connected")

    await page.get_by_test_id("language-tr").click()
    await chat.connected()
    await expect(page.locator("html")).to_have_attribute("lang", "tr")
    await expect(page.get_by_role("heading", level=2).last).to_have_text("Neyi merak ediyorsunuz?")
    await expect(chat.connection).to_have_text("Bağlı")
    await expect(page.get_by_text("What would you like to know?")).to_have_count(0)

    for question in QUESTIONS:
        await chat.open()
        await chat.send(question)
        await chat.reaches("finished")
        # What the page's script says is translated too: 40 tokens are this install's limit.
        await expect(chat.answer).to_contain_text("uzunluk sınırına")
    await chat.open()
    await screenshots.take(page, "turkish")

    await page.get_by_test_id("language-en").click()
    await chat.connected()
    await expect(page.locator("html")).to_have_attribute("lang", "en")


async def test_a_turkish_browser_is_greeted_in_turkish(
    people: People, fake_install: Install
) -> None:
    page = await people.page(fake_install, locale="tr-TR")
    await page.goto("/login/")
    await expect(page.locator("html")).to_have_attribute("lang", "tr")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Giriş yap")
    login = fake_install.tenant("globex")["user"]
    await page.locator("#id_username").fill(login["username"])
    await page.locator("#id_password").fill("yanlış")
    await page.locator("form.sign-in button").click()
    await expect(page.get_by_role("alert")).to_contain_text("parola")
