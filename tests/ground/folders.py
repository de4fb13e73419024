"""Folders for unix sockets, whose whole path may have 107 bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

LONGEST = 60


def short(prefix: str) -> Path:
    """A new private folder with a short path."""
    parent = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent if len(parent) <= LONGEST else "/tmp"))  # noqa: S108 - every system has it, and its path is short
