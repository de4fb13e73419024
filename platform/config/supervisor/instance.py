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
# Connections that may wait to be accepted; the system's own limit applies too.
BACKLOG = 1024


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
    Listener(host, port, error=error).close()


class Listener:
    """The web processes' socket: theirs together, so that one may come before another leaves.

    Bound when made, so that the port is known to be free long before anybody can answer at it;
    listening from `listen` on. Raises `error` with one sentence.
    """

    def __init__(self, host: str, port: int, *, error: type[Exception] = Unusable) -> None:
        self._address = (host, port)
        self._error = error
        self._socket: socket.socket | None = self._bound()

    def listen(self) -> None:
        """Take connections, which wait for a web process; bound anew if it was closed."""
        self._socket = self._socket or self._bound()
        try:
            self._socket.listen(BACKLOG)
        except OSError as fault:  # another program was bound as well, and faster
            raise self._error(_port_sentence(*self._address, fault)) from fault

    def close(self) -> None:
        """Refuse connections, once the last process that has it too has closed it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def descriptor(self) -> int:
        return self._socket.fileno() if self._socket else -1

    def _bound(self) -> socket.socket:
        host, port = self._address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except OSError as fault:
            bound.close()
            raise self._error(_port_sentence(host, port, fault)) from fault
        return bound


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
