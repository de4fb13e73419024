"""The chat page in a real browser, and a server's end of its socket that a test speaks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, Route, WebSocketRoute, expect

CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
READY = [{"name": "small", "state": "ready"}]


class Chat:
    """The page and the server's end of its socket."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.sockets: list[WebSocketRoute] = []
        self.received: list[dict[str, Any]] = []
        self.acks: list[tuple[str, int]] = []
        self.models = READY
        self.greets = True

    def connected(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(lambda text: self._receive(json.loads(text)))
        if self.greets:
            self.send(type="hello", protocol=1, models=self.models)

    def _receive(self, message: dict[str, Any]) -> None:
        if message["type"] == "ack":
            self.acks.append((message["generation"], message["seq"]))
        else:
            self.received.append(message)

    def send(self, **frame: object) -> None:
        self.sockets[-1].send(json.dumps(frame))

    def ask(self, text: str) -> dict[str, Any]:
        self.page.get_by_test_id("composer").fill(text)
        expect(self.page.get_by_test_id("send")).to_be_enabled()
        self.page.get_by_test_id("composer").press("Enter")
        return self.asked(text)

    def asked(self, text: str) -> dict[str, Any]:
        return self.next_message("send", text=text)

    def next_message(self, kind: str, **fields: object) -> dict[str, Any]:
        """The page's next message, which must be this one. It comes a little after its cause."""
        while not self.received:
            self.page.wait_for_timeout(10)
        message = self.received.pop(0)
        assert message == message | {"type": kind, **fields}
        return message

    def accept(self, message: dict[str, Any], generation: str = "gen_1") -> None:
        self.send(
            type="accepted",
            ref=message["ref"],
            conversation={"id": "cnv_1", "title": message["text"]},
            generation=generation,
            model=message["model"],
        )

    def tokens(self, text: str, seq: int, generation: str = "gen_1") -> None:
        self.send(type="tokens", generation=generation, seq=seq, text=text)

    def finish(self, reason: str = "stop", generation: str = "gen_1") -> None:
        usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
        self.send(type="finished", generation=generation, seq=9, finish_reason=reason, usage=usage)

    def resumed(self, message: dict[str, Any]) -> None:
        """Let a `resume` go on from where it asks for."""
        place = {"generation": message["generation"], "seq": message["after_seq"]}
        self.send(type="resumed", ref=message["ref"], model="small", **place)

    def wait_until(self, what: Callable[[], object]) -> None:
        while not what():
            self.page.wait_for_timeout(10)

    def lose(self, code: int = 1012) -> None:
        """Close the socket, and see the page notice it."""
        self.sockets[-1].close(code=code)

    def expect_answer(self, state: str) -> None:
        expect(self.answer).to_have_attribute("data-state", state)

    @property
    def answer(self) -> Any:
        return self.page.locator('[data-author="assistant"]').last


def complaint(message: ConsoleMessage) -> list[str]:
    return [message.text] if message.type == "error" else []


def with_policy(route: Route) -> None:
    """The page as it is, under a policy that lets no inline script or style run."""
    response = route.fetch(max_redirects=0)
    route.fulfill(response=response, headers={**response.headers, "content-security-policy": CSP})
