"""The operators' view of replicas, in a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install

pytestmark = BROWSER

ADDRESS = "/admin/replicas/"
WORDS = {
    "en-GB": {"drain": "Drain", "restart": "Restart", "stopped": "stopped", "ready": "ready"},
    "tr-TR": {
        "drain": "Boşalt",
        "restart": "Yeniden başlat",
        "stopped": "durduruldu",
        "ready": "hazır",
    },
}


def asking(install: Install, slug: str = "acme") -> asyncio.Task[list[Any]]:
    """An application that reads an answer of ten seconds; its chunks."""

    def read() -> list[Any]:
        return list(
            install.openai(slug).chat.completions.create(
                model="fake",
                messages=[{"role": "user", "content": "Tell me about rivers."}],
                max_tokens=250,
                stream=True,
            )
        )

    return asyncio.create_task(asyncio.to_thread(read))


async def a_lively_minute(install: Install) -> list[asyncio.Task[list[Any]]]:
    """For a picture with something in its plot; what is under way at its end."""
    begun: list[asyncio.Task[list[Any]]] = []
    for readers in (2, 1, 3, 4, 2, 5):
        begun += [asking(install) for _ in range(readers)]
        await asyncio.sleep(7)
    return begun


def row(page: Page) -> Locator:
    return page.get_by_test_id("replica")


def field(page: Page, name: str) -> Locator:
    return row(page).locator(f'[data-field="{name}"]')


async def confirm(page: Page, words: str) -> None:
    """Press a replica's button, and the same in the dialog that asks again."""
    await row(page).get_by_role("button", name=words).click()
    await page.get_by_role("dialog").get_by_role("button", name=words).click()


async def becomes(page: Page, state: str) -> None:
    # As long as a process takes on a machine that does much else.
    await expect(field(page, "state")).to_have_text(state, timeout=60_000)


Picture = Callable[[], Awaitable[None]]


async def no_picture() -> None:
    """None is wanted."""


def restart_if_stopped(install: Install) -> None:
    """Others share the install."""
    try:
        install.engine_host()
    except LookupError:
        install.manage("restart", "engine")


async def drained_and_back(
    page: Page, install: Install, locale: str, picture: Picture = no_picture
) -> None:
    """Drain the one replica, see what waits meanwhile, restart it, see that go on."""
    try:
        await _drained_and_back(page, install, WORDS[locale], picture)
    finally:
        restart_if_stopped(install)


async def _drained_and_back(
    page: Page, install: Install, words: dict[str, str], picture: Picture
) -> None:
    await confirm(page, words["drain"])
    await becomes(page, words["stopped"])
    await expect(page.get_by_role("dialog")).to_have_count(0)
    waiting = asking(install, "globex")
    queue = page.get_by_test_id("queue")
    await expect(queue.locator('[data-field="tenant"]')).to_have_text("Globex")
    await expect(queue.locator('td[data-field="waiting"]')).to_have_text("1")
    await picture()
    await confirm(page, words["restart"])
    await becomes(page, words["ready"])
    await expect(queue).to_have_count(0)
    assert (await waiting)[-1].choices[0].finish_reason == "length"


async def test_an_operator_sees_what_runs_drains_and_brings_back(
    people: People, fake_install: Install, screenshots: Screenshots
) -> None:
    fake_install.wait_until_ready()
    page = await people.page(fake_install, fake_install.demo["operator"])
    await page.goto("/admin/")
    await page.get_by_role("link", name="Replicas").first.click()
    await expect(page).to_have_url(fake_install.url + ADDRESS)
    await becomes(page, "ready")
    await expect(field(page, "running")).to_have_text("0")

    answers = [asking(fake_install), asking(fake_install, "globex")]
    await expect(field(page, "running")).to_have_text("2")
    await expect(field(page, "tokens_per_s")).not_to_have_text("0")
    plot = row(page).get_by_role("img")
    await expect(plot).to_have_accessible_name(re.compile("^Tokens a second in the last"))
    latency = page.get_by_test_id("latency")
    await expect(latency.locator('[data-field="p95_ms"]')).to_contain_text(" ms")
    await expect(latency.locator('[data-field="objective_ms"]')).to_have_text("none")
    await expect(latency.locator('[data-field="limit"]')).to_have_text("64 of 64")
    await expect(latency.get_by_role("img").first).to_have_accessible_name(
        re.compile("^Between tokens, p95 in the last")
    )
    if screenshots.wanted:
        answers += await a_lively_minute(fake_install)
    await screenshots.take(page, "replicas")
    for chunks in await asyncio.gather(*answers):
        assert chunks[-1].choices[0].finish_reason == "length"
    await expect(field(page, "running")).to_have_text("0")
    await drained_and_back(page, fake_install, "en-GB")


async def test_the_same_in_turkish_and_in_the_dark(
    people: People, fake_install: Install, screenshots: Screenshots
) -> None:
    fake_install.wait_until_ready()
    login = fake_install.demo["operator"]
    page = await people.page(fake_install, login, locale="tr-TR", color_scheme="dark")
    await page.goto(ADDRESS)
    await expect(page.get_by_role("heading", name="Replikalar").first).to_be_visible()
    await becomes(page, "hazır")
    answer = asking(fake_install)
    await expect(field(page, "running")).to_have_text("1")
    await answer

    async def picture() -> None:
        await screenshots.take(page, "replicas-turkish")

    await drained_and_back(page, fake_install, "tr-TR", picture)


async def test_a_lost_replica_and_a_supervisor_that_does_not_answer(
    people: People, fake_install: Install
) -> None:
    fake_install.wait_until_ready()
    page = await people.page(fake_install, fake_install.demo["operator"])
    await page.goto(ADDRESS)
    await becomes(page, "ready")
    fake_install.hold_restarts()
    try:
        fake_install.engine_host().kill()
        await becomes(page, "lost")
        await confirm(page, "Restart")
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("alert")).to_contain_text("does not answer")
        await dialog.get_by_role("button", name="Cancel").click()
    finally:
        fake_install.allow_restarts()
    await becomes(page, "ready")
    await expect(row(page)).to_have_count(1)
    # What the refusal was, the browser writes down too.
    people.errors[:] = [error for error in people.errors if "409" not in error]


async def test_redis_away(people: People, fake_install: Install) -> None:
    fake_install.wait_until_ready()
    page = await people.page(fake_install, fake_install.demo["operator"])
    await page.goto(ADDRESS)
    await becomes(page, "ready")
    away = page.get_by_role("alert").get_by_text("Redis does not answer")
    valkey = fake_install.valkey()
    valkey.suspend()
    try:
        await expect(away).to_be_visible(timeout=60_000)
        # What was last known stays in sight.
        await expect(row(page)).to_have_count(1)
    finally:
        valkey.resume()
    await expect(away).to_be_hidden(timeout=60_000)
    await becomes(page, "ready")


async def test_by_keyboard(people: People, fake_install: Install) -> None:
    fake_install.wait_until_ready()
    page = await people.page(fake_install, fake_install.demo["operator"])
    await page.goto(ADDRESS)
    await becomes(page, "ready")
    for words, dialog in (("Drain: engine", "Drain this"), ("Restart: engine", "Restart this")):
        button = row(page).get_by_role("button", name=words)
        await button.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog", name=dialog)).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(button).to_be_focused()


async def test_the_focus_goes_on_to_the_one_that_takes_the_place(
    people: People, fake_install: Install
) -> None:
    fake_install.wait_until_ready()
    page = await people.page(fake_install, fake_install.demo["operator"])
    await page.goto(ADDRESS)
    await becomes(page, "ready")
    before = await row(page).get_attribute("data-key")
    await confirm(page, "Restart")
    # Its successor stands beside it for a while, under the place's other name.
    await expect(page.locator(f'[data-key="{before}"]')).to_have_count(0, timeout=60_000)
    await becomes(page, "ready")
    await expect(row(page).get_by_role("button", name="Restart")).to_be_focused()


async def test_a_tenants_admin_finds_no_way_there(people: People, fake_install: Install) -> None:
    page = await people.page(fake_install, fake_install.tenant("acme")["admin"])
    await page.goto("/admin/")
    await expect(page.get_by_role("link", name="Replicas")).to_have_count(0)
    reply = await page.goto(ADDRESS)
    assert reply is not None
    assert reply.status == 403
    people.errors[:] = [error for error in people.errors if "403" not in error]
