"""Running pip: its output in a log, its failures in one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from launcher.layout import ROOT, VENV

PYTHON = VENV / "bin" / "python"
INSTALL = ("-m", "pip", "install", "--no-deps", "--progress-bar", "off")
SHOWN_LINES = 8
UNPACKING = "Installing collected packages"
FETCHING = ("Collecting", "Requirement already")
NOT_FOUND = re.compile(
    r"No matching distribution found for (\S+)|"
    r"Could not find a version that satisfies .*? (\S+==\S+)"
)
NO_NETWORK = re.compile(
    r"NameResolutionError|NewConnectionError|ConnectionError|Max retries exceeded|TimeoutError|"
    r"ProxyError|SSLError|IncompleteRead|Temporary failure in name resolution|"
    r"Connection (broken|reset|refused)"
)
# These would have pip install somewhere else, or something else.
LEFT_OUT = (
    *("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIREMENT"),
    *("PIP_ROOT", "PIP_REQUIRE_HASHES", "PIP_DRY_RUN"),
)


def run(
    arguments: list[str],
    *,
    out: TextIO,
    fetched: Callable[[int], None],
    unpacks: Callable[[], None],
) -> list[str]:
    """Install into `.venv`. pip's last lines if it failed, an empty list if it succeeded.

    fetched: told how many packages were looked up or downloaded so far
    unpacks: called when pip begins to change the environment
    """
    lines: list[str] = []
    count = 0
    with _pip(arguments) as process:
        for line in process.stdout or ():
            out.write(line)
            out.flush()
            lines = [*lines[-200:], line.rstrip()]
            count += line.startswith(FETCHING)
            fetched(count)
            if line.startswith(UNPACKING):
                unpacks()
    shutil.rmtree(_temporary(), ignore_errors=True)
    return (lines or ["pip said nothing"]) if process.returncode else []


def is_not_found(lines: list[str]) -> bool:
    """Whether pip failed because no index it asked has a package."""
    return any(NOT_FOUND.search(line) for line in lines)


def explain(lines: list[str], log: Path) -> str:
    """One sentence about a failure, pip's own last words and where the rest is."""
    last = "\n".join(f"    {line}" for line in lines[-SHOWN_LINES:])
    return f"{_sentence(lines)}\n{last}\n  All of it: {log}"


def _sentence(lines: list[str]) -> str:
    text = "\n".join(lines)
    if "No space left on device" in text:
        return "The disk is full."
    if NO_NETWORK.search(text):
        return "A download failed: check the network or pip's package index, and try again."
    if found := NOT_FOUND.search(text):
        python = sys.version.split()[0]
        return f"pip finds no {found[1] or found[2]} for Python {python} on this machine."
    return "pip failed."


def _pip(arguments: list[str]) -> subprocess.Popen[str]:
    _temporary().mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    environment["TMPDIR"] = str(_temporary())
    environment["PIP_NO_INPUT"] = environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return subprocess.Popen(
        [PYTHON, *INSTALL, *arguments],
        cwd=ROOT,
        env=environment,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _temporary() -> Path:
    """Wheels wait on the disk whose space was looked at; /tmp is often a small one in memory."""
    return VENV / "tmp"
