"""The chat page, as a person sees and uses it."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Locator, Page, expect

# From here on each change of what the last answer shows is written down: [state, text].
WATCH = """() => {
  window.seen = [];
  const look = () => {
    const answer = [...document.querySelectorAll('[data-author="assistant"]')].at(-1);
    if (!answer) return;
    const now = [answer.dataset.state, answer.querySelector("[data-text]").textContent];
    const last = window.seen.at(-1);
    if (!last || last[0] !== now[0] || last[1] !== now[1]) window.seen.push(now);
  };
  new MutationObserver(look).observe(document.querySelector("[data-messages]"), {
    subtree: true, childList: true, characterData: true, attributes: true,
  });
}"""


class Chat:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.composer = page.get_by_test_id("composer")
        self.send_button = page.get_by_test_id("send")
        self.stop_button = page.get_by_test_id("stop")
        self.banner = page.get_by_test_id("banner")
        self.connection = page.get_by_test_id("connection")
        self.messages = page.get_by_test_id("message")
        self.answer = page.locator('[data-messages] [data-author="assistant"]').last

    async def open(self, path: str = "/chat/") -> Chat:
        """Go there, and wait until messages can be sent."""
        await self.page.goto(path)
        await self.connected()
        return self

    async def connected(self) -> None:
        await expect(self.connection).to_have_attribute("data-state", "open")

    async def send(self, text: str) -> None:
        await self.composer.fill(text)
        await self.send_button.click()

    async def watch(self) -> None:
        await self.page.evaluate(WATCH)

    async def seen(self) -> list[tuple[str, str]]:
        """What the last answer showed since `watch`, one after another: state and text."""
        return [(state, text) for state, text in await self.page.evaluate("window.seen")]

    async def reaches(self, state: str, *, within_s: float = 60) -> None:
        """Wait for the last answer to be `streaming`, `finished`, `stopped` or `failed`."""
        await expect(self.answer).to_have_attribute("data-state", state, timeout=within_s * 1000)

    def text_of(self, message: Locator) -> Locator:
        return message.locator("> [data-text]")

    async def source(self) -> str:
        """The last answer as the model wrote it: what its copy button copies."""
        await self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await self.answer.locator("> .message-foot [data-copy]").click()
        copied: Any = await self.page.evaluate("navigator.clipboard.readText()")
        return str(copied)

    async def conversation_id(self) -> str:
        await expect(self.page).to_have_url(re.compile(r"/chat/cnv_\w+/$"))
        return self.page.url.rstrip("/").rpartition("/")[2]
