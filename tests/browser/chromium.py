"""Which Chromium the tests drive, and how it is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.async_api import Browser, Playwright

from tests import environment

DEBIAN = "/usr/bin/chromium"
# It is to talk to our own server alone, and to look the same wherever it runs.
ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
]
HOW_TO_INSTALL = (
    "There is no Chromium to test with. Install it: "
    ".venv/bin/python -m playwright install chromium (as root on Debian: apt-get install -y "
    "chromium), or name one in NEHIR_CHROMIUM."
)


async def launch(playwright: Playwright) -> Browser:
    """NEHIR_CHROMIUM, else Debian's, else Playwright's own. Raises RuntimeError with the command
    that installs it.
    """
    executable = _executable(playwright)
    # Chromium's sandbox refuses to run as root.
    arguments = [*ARGUMENTS, "--no-sandbox"] if os.geteuid() == 0 else ARGUMENTS
    return await playwright.chromium.launch(executable_path=executable, args=arguments)


def _executable(playwright: Playwright) -> str:
    named = environment.CHROMIUM
    if named:
        if shutil.which(named) is None:
            raise RuntimeError(f"NEHIR_CHROMIUM names {named}, which is not a program.")
        return named
    for candidate in (DEBIAN, playwright.chromium.executable_path):
        if Path(candidate).is_file():
            return candidate
    raise RuntimeError(HOW_TO_INSTALL)
