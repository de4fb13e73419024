from __future__ import annotations

from playwright.async_api import expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.ground.install import Install

pytestmark = BROWSER

DOWN = "The model is not running; your message waits in the queue until it is back."
LOADING = "The model is loading; your message waits in the queue."
STOPPED = "The model stopped; the answer goes on in a moment…"
WATCH_PROGRESS = """() => {
  const all = document.querySelectorAll('[data-progress-text]');
  const line = all[all.length - 1];
  window.progress = [];
  const look = () => window.progress.push(line.textContent);
  new MutationObserver(look).observe(line, { childList: true });
}"""
WATCH_BANNER = """() => {
  const banner = document.querySelector('[data-testid="banner"]');
  window.banners = [];
  const look = () => { if (!banner.hidden) window.banners.push(banner.textContent); };
  new MutationObserver(look).observe(banner, { childList: true, attributes: true });
}"""


async def test_the_page_tells_that_the_model_is_down_and_waits_for_it(
    people: People, fake_install: Install
) -> None:
    page = await people.page(fake_install, fake_install.tenant("acme")["user"])
    chat = await Chat(page).open()
    await expect(chat.banner).to_be_hidden()
    await page.evaluate(WATCH_BANNER)

    fake_install.hold_restarts()
    try:
        fake_install.engine_host().kill()
        await expect(chat.banner).to_have_text(DOWN)
        await chat.send("Is anybody there?")
        await expect(chat.answer).to_contain_text("Next in the queue")
    finally:
        fake_install.allow_restarts()
    await chat.reaches("finished")
    await expect(chat.banner).to_be_hidden()
    told = list(dict.fromkeys(await page.evaluate("window.banners")))
    assert told in ([DOWN], [DOWN, LOADING])


async def test_an_answer_that_loses_its_engine_says_so_and_goes_on(
    people: People, fake_install: Install
) -> None:
    fake_install.wait_until_ready()
    page = await people.page(fake_install, fake_install.tenant("acme")["user"])
    chat = await Chat(page).open()
    await chat.send("Tell me about rivers.")
    await chat.reaches("streaming")
    await page.evaluate(WATCH_PROGRESS)
    fake_install.engine_host().kill()
    await chat.reaches("resuming")
    await chat.reaches("finished")
    assert STOPPED in await page.evaluate("window.progress")
    await expect(chat.messages).to_have_count(2)
    generation = await chat.answer.get_attribute("data-generation")
    assert generation is not None
    told = await chat.answer.locator("[data-text]").inner_text()
    assert told.split() == fake_install.log_text(generation).split()
