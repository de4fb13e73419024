"""What an install does while its model loads, written down as it happens."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.ground.install import LOAD_S, Install
from tests.ground.processes import wait_until

QUESTION = "What is the capital of France?"


class Loading:
    """Begun as soon as the web process answers; complete once the engine does.

    lines: the SSE lines of an answer that was asked for before the engine could give it
    """

    def __init__(self, install: Install, model: str) -> None:
        self.install = install
        self._model = model
        wait_until(
            lambda: [replica.state for replica in install.replicas()] == ["loading"],
            what="the engine host has announced that it loads",
        )
        self.readiness = httpx.get(f"{install.url}/readyz", trust_env=False)
        self.hello = self._hello()
        self.accepted_status = 0
        self.lines: list[str] = []
        self._asking = threading.Thread(target=self._ask, daemon=True)
        self._asking.start()

    def wait(self) -> None:
        """Until the answer has ended."""
        self._asking.join(LOAD_S)
        assert not self._asking.is_alive(), f"Asked while loading, still no answer: {self.lines}"

    def _ask(self) -> None:
        key = self.install.tenant("acme")["api_key"]
        asked = {
            "model": self._model,
            "messages": [{"role": "user", "content": QUESTION}],
            "temperature": 0,
            "stream": True,
        }
        with httpx.stream(
            "POST",
            f"{self.install.url}/v1/chat/completions",
            json=asked,
            headers={"Authorization": f"Bearer {key}"},
            timeout=LOAD_S,
            trust_env=False,
        ) as response:
            self.accepted_status = response.status_code
            self.lines.extend(line for line in response.iter_lines() if line)

    def _hello(self) -> dict[str, Any]:
        """The first frame of a chat socket."""
        session = self.install.session(self.install.tenant("acme")["user"])
        address = self.install.url.replace("http", "ws", 1) + "/ws/chat/"
        headers = {"Cookie": f"sessionid={session}"}
        with connect(
            address, origin=Origin(self.install.url), additional_headers=headers, proxy=None
        ) as socket:
            frame: dict[str, Any] = json.loads(socket.recv(timeout=30))
        return frame
