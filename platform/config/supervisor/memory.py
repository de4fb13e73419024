"""Whether a second engine would fit beside the first. Where the system doesn't tell, nothing is
known, and nothing stands in the way.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
KIB = 1024
# In /proc/<pid>/stat behind the command's name, from 0; resident memory in pages.
SESSION, RESIDENT = 3, 21


def available_bytes(proc: Path = PROC) -> int | None:
    """What could be used without swapping."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * KIB
    return None


def resident_bytes(session: int, proc: Path = PROC) -> int:
    """Of all processes of a session: a child of the supervisor's and whatever it started."""
    return sum(_resident(folder, session) for folder in proc.glob("[0-9]*"))


def _resident(folder: Path, session: int) -> int:
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return 0
    if int(fields[SESSION]) != session:
        return 0
    return int(fields[RESIDENT]) * os.sysconf("SC_PAGE_SIZE")


def gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
