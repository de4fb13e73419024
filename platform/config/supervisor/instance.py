"""One running Nehir a state folder: its lock, the layout it was written by, the port it wants."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import TextIO

# Raised by one when a newer Nehir lays files out in `var/` in a way that this one would misread.
LAYOUT = 1


class AlreadyRunning(Exception):
    """Another supervisor holds this state folder; the message says which."""


class Unusable(Exception):
    """The state folder or the port can't be used: one sentence for the person at the terminal."""


def lock_file(var: Path) -> Path:
    return var / "run" / "up.lock"


def running_instance(var: Path) -> str:
    """A sentence about the supervisor that holds `var`, empty if there is none."""
    try:
        with lock_file(var).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return ""
    except BlockingIOError:
        return _sentence(var)
    return ""


def running_url(var: Path) -> str:
    """Where the platform that holds `var` is to be found, empty if there is none."""
    return _holder(var)[1] if running_instance(var) else ""


def _holder(var: Path) -> tuple[str, str]:
    """Process id and address of whoever wrote the lock file."""
    process, _, url = lock_file(var).read_text().partition(" ")
    return process, url.strip()


def _sentence(var: Path) -> str:
    process, url = _holder(var)
    return (
        f"Nehir is already running from {var} "
        f"(process {process or '?'}, {url or 'starting'}). "
        "Stop it first, or give this one NEHIR_VAR and NEHIR_PORT of its own."
    )


def hold(var: Path, url: str) -> TextIO:
    """Take the state folder for as long as the returned file stays open. Raises AlreadyRunning.

    The kernel lets go of the lock when the process ends, however it ends.
    """
    path = lock_file(var)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as taken:
        file.close()
        raise AlreadyRunning(_sentence(var)) from taken
    file.truncate(0)
    file.write(f"{os.getpid()} {url}\n")
    file.flush()
    return file


def require_layout(var: Path) -> None:
    """Stamp a new state folder with its layout. Raises Unusable for one of a newer Nehir."""
    stamp = var / "version"
    written = stamp.read_text().strip() if stamp.exists() else str(LAYOUT)
    if not written.isdecimal() or int(written) > LAYOUT:
        raise Unusable(
            f"{var} was written by a newer Nehir (layout {written}, this one knows {LAYOUT}): "
            "update this checkout, or point NEHIR_VAR at another folder."
        )
    stamp.write_text(f"{LAYOUT}\n")


def require_port(host: str, port: int, *, error: type[Exception] = Unusable) -> None:
    """Raises `error` with one sentence if the address can't be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            raise error(_port_sentence(host, port, fault)) from fault


def _port_sentence(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else 8000
        return (
            f"Port {port} on {host} is in use by another program. "
            f"Choose another: NEHIR_PORT={other} make run"
        )
    if fault.errno == errno.EACCES:
        return f"Port {port} needs root. Choose one above 1023: NEHIR_PORT=8000 make run"
    return f"Can't listen on {host}:{port} (NEHIR_HOST, NEHIR_PORT): {fault.strerror or fault}."
