"""Pictures for the README and the docs, taken when NEHIR_SCREENSHOTS=1 asks for them."""

from __future__ import annotations

from playwright.async_api import Page

from tests import environment

FOLDER = environment.ROOT / "docs" / "screenshots"


class Screenshots:
    def __init__(self) -> None:
        self.wanted = environment.SCREENSHOTS

    async def take(self, page: Page, name: str) -> None:
        """Into docs/screenshots/<name>.png, as large as the page's window."""
        if self.wanted:
            FOLDER.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
