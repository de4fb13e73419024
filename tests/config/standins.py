"""Processes that stand in for the platform's, under a real supervisor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from config.supervisor.services import Service
from config.supervisor.supervisor import Child

# Ready at once, leaves at once; each start and end is a line in a file.
SERVER = """
import os, signal, sys, time
notes, ready = sys.argv[1], int(sys.argv[-1])
def note(what):
    with open(notes, "a") as file:
        file.write(f"{what} {os.getpid()}\\n")
def leave(*_):
    time.sleep(LEAVES_AFTER)
    note("left")
    sys.exit()
signal.signal(signal.SIGTERM, leave)
note("started")
READY
while True:
    time.sleep(60)
"""
READY = 'os.write(ready, b"\\n"); os.close(ready)'
MUTE = "pass"
BROKEN = "print('out of cheese', flush=True); sys.exit(3)"


def server(
    name: str,
    notes: Path,
    *,
    ready: str = READY,
    leaves_after_s: float = 0,
    ready_within_s: float = 60,
) -> Service:
    code = SERVER.replace("READY", ready).replace("LEAVES_AFTER", str(leaves_after_s))
    return Service(
        name,
        (sys.executable, "-S", "-c", code, str(notes)),
        grace_s=30,
        ready_option="--ready-fd",
        ready_within_s=ready_within_s,
    )


def followed_by(**changes: object) -> Callable[[Service], Service]:
    """A successor that differs from what is there: as new code would."""
    return lambda service: replace(service, **changes)  # type: ignore[arg-type]


async def tells_ready(child: Child) -> bool:
    return child.process is not None and child.process.has_told_ready


def noted(notes: Path) -> list[tuple[str, int]]:
    if not notes.exists():
        return []
    lines = [line.split() for line in notes.read_text().splitlines()]
    return [(what, int(pid)) for what, pid in lines]
