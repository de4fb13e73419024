from __future__ import annotations

from tests.console.conftest import acme, globex

__all__ = ["acme", "globex"]
