"""What every test with a browser is marked with."""

from __future__ import annotations

import pytest

BROWSER = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
    # The first one waits for the platform, and perhaps for its model, to start.
    pytest.mark.timeout(600),
]
