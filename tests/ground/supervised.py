"""The platform under its supervisor, over a database and a Redis of the tests' own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.environment import socket_folder
from config.supervisor.asking import ask
from config.supervisor.messages import Report, Request, Status
from tests.environment import ROOT
from tests.ground.ports import free_port
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.ground.stores import Store

STOP_GRACE_S = 90


class Supervised(Stack):
    """`manage.py up` with the fake engine, and what an operator says to it."""

    def __init__(
        self, folder: Path, store: Store, world: Mapping[str, Any], **settings: str
    ) -> None:
        port = str(free_port())
        ours = {"ENGINE": "fake", "NEHIR_DEMO": "0", "NEHIR_PORT": port}
        super().__init__(folder, store, world, **ours | settings)
        self.url = f"http://127.0.0.1:{port}"
        store.rows("UPDATE inference_route SET is_active = :no WHERE name = 'unserved'", no=False)

    def start(self, *, engine: bool = True) -> Supervised:
        self.valkey.start()
        self.up = self.start_child("up", [sys.executable, ROOT / "manage.py", "up"])
        wait_until(self._is_told_ready, what="an engine is ready", within_s=120)
        return self

    def _is_told_ready(self) -> bool:
        self.up.check_alive()
        return "ready to answer" in self.up.output()

    def stop(self) -> None:
        self.up.end(grace_s=STOP_GRACE_S)
        self.valkey.stop()

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a management command to its end."""
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=self._env,
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )

    def done(self, *arguments: str) -> str:
        """What a command that succeeds prints."""
        done = self.manage(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, request: Request) -> tuple[Report | None, list[str]]:
        """What the supervisor says to a request on its control socket, and what it says meanwhile.
        Raises NotDone.
        """
        said: list[str] = []
        folder = socket_folder(self.folder)
        return ask(request, var=self.folder, folder=folder, say=said.append), said

    def pids(self, kind: str) -> list[int]:
        """Of the running processes of a kind, as the supervisor tells them."""
        report, _ = self.ask(Status())
        assert report is not None
        of_kind = [each for each in report.processes if each.name.partition("-")[0] == kind]
        return [each.pid for each in of_kind if each.pid is not None and each.state == "running"]
