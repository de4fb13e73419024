"""Ends the supervisor's children if the supervisor is gone without having done so, as after `kill
-9`.

Run as a file of its own, standard library only. It reads lines from a pipe whose other end only the
supervisor holds: `+pgid` for a process group that runs, `-pgid` for one that ended. The end of the
pipe is the end of the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

GRACE_S = 5.0


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    _end(groups)


def _end(groups: set[int]) -> None:
    for group in groups:
        _signal(group, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and any(_signal(group, 0) for group in groups):
        time.sleep(0.1)
    for group in groups:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """False if the group is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    main()
