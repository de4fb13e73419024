"""People at a browser: pages that are signed in, watched for errors, and closed in the end."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.ground.install import Install

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 667}

_sessions: dict[tuple[str, str], str] = {}


class People:
    """Opens pages, each in a browser profile of its own.

    errors: what the pages' consoles complained of; a test that expects some takes them out
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []

    async def page(self, install: Install, login: dict[str, str] | None = None, **how: Any) -> Page:
        """A blank page at an install, signed in with a session cookie if there is a login.

        how: further options of Playwright's context
        """
        options = {"viewport": DESKTOP, "locale": "en-GB", "base_url": install.url} | how
        context = await self._browser.new_context(**options)
        context.set_default_timeout(30_000)
        self._contexts.append(context)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        if login is not None:
            cookie = {"name": "sessionid", "value": _session(install, login), "url": install.url}
            await context.add_cookies([cookie])  # type: ignore[list-item]
        return await context.new_page()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} {message.location['url']}")

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


def _session(install: Install, login: dict[str, str]) -> str:
    """One a person and install: checking a password takes most of a second."""
    key = (install.url, login["username"])
    if key not in _sessions:
        _sessions[key] = install.session(login)
    return _sessions[key]
