"""Requests and streams as the tests of this package make them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.ground.stack import Stack, TenantAccess

CHAT = "/v1/chat/completions"


def asking(text: str = "hi", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "fake", "messages": messages, "max_tokens": 5} | fields


def client_of(stack: Stack, tenant: TenantAccess | None = None, *, url: str = "") -> httpx.Client:
    key = (tenant or stack.acme).key
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url or stack.url, headers=headers, timeout=30)


class Stream:
    """A stream of server-sent events, read as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.lines = response.iter_lines()

    @property
    def generation_id(self) -> str:
        return self.response.headers["X-Generation-Id"]

    def events(self) -> Iterator[dict[str, Any]]:
        """Data of the events that are left; `[DONE]` is no event."""
        for line in self.lines:
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line.removeprefix("data: "))

    def words(self, count: int) -> None:
        """Read until so many events with text have come."""
        for event in self.events():
            assert "error" not in event, event
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                count -= 1
                if count == 0:
                    return
        raise AssertionError("the stream ended before")


@contextmanager
def streaming(client: httpx.Client, **fields: Any) -> Iterator[Stream]:
    with client.stream("POST", CHAT, json=asking(stream=True, **fields)) as response:
        assert response.status_code == 200, response.read()
        yield Stream(response)
