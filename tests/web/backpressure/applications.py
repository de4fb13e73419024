"""ASGI applications the tests serve, one a path, and what they counted (`/state`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from web.backpressure import stats

Scope = dict[str, Any]
logger = logging.getLogger(__name__)
SEEN: Counter[str] = Counter()
RELEASED = asyncio.Event()


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def pattern(total: int, piece: int) -> Iterator[bytes]:
    """The same bytes however they are cut."""
    block = b"".join(number.to_bytes(4, "big") for number in range(piece // 4 + 1))[:piece]
    for start in range(0, total, piece):
        yield block[: min(piece, total - start)]


class Page:
    def __init__(self, scope: Scope, receive: Any, send: Any) -> None:
        self.scope, self.receive, self._send = scope, receive, send
        self.query = dict(parse_qsl(scope["query_string"].decode()))
        self.drain = scope["extensions"]["drain"]["event"]

    def number(self, name: str, default: int = 0) -> int:
        return int(self.query.get(name, default))

    async def send(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except ConnectionResetError as error:
            SEEN[f"raised {type(error).__name__}"] += 1
            raise
        except asyncio.CancelledError:
            SEEN["cancelled in send"] += 1
            raise

    async def start(self, status: int = 200, **headers: str) -> None:
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": lines})

    async def body(self, data: bytes, *, more: bool = True) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": more})
        SEEN["sent"] += len(data)

    async def answer(self, content: Any) -> None:
        data = json.dumps(content).encode()
        await self.start(**{"content-length": str(len(data))})
        await self.send({"type": "http.response.body", "body": data})


async def state(page: Page) -> None:
    figures = stats.current()
    assert figures is not None
    await page.answer({"seen": SEEN, "rss": rss_bytes(), "stats": asdict(figures)})


async def release(page: Page) -> None:
    RELEASED.set()
    await page.answer({})


async def flood(page: Page) -> None:
    """total, piece; declared: with Content-Length; once: everything in one send."""
    total, piece = page.number("total"), page.number("piece", 65536)
    await page.start(**({"content-length": str(total)} if "declared" in page.query else {}))
    if "once" in page.query:
        await page.body(b"".join(pattern(total, piece)), more=False)
        return
    for data in pattern(total, piece):
        await page.body(data)
    await page.body(b"", more=False)


async def flood_and_turns(page: Page) -> None:
    """Many small messages, while somebody else wants the loop too."""
    other = asyncio.create_task(count_turns())
    await flood(page)
    other.cancel()


async def count_turns() -> None:
    while True:
        SEEN["turns"] += 1
        await asyncio.sleep(0)


async def after_disconnect(page: Page) -> None:
    """unanswered: it begins its answer only then."""
    SEEN["waits for disconnect"] += 1
    if "unanswered" not in page.query:
        await page.start()
        await page.body(b"begun")
    while (await page.receive())["type"] != "http.disconnect":
        pass
    assert (await page.receive())["type"] == "http.disconnect"
    SEEN["told of disconnect"] += 1
    if "unanswered" in page.query:
        await page.start()
    await page.body(b"late")


async def measure_body(page: Page) -> None:
    digest, messages, size, more = hashlib.sha256(), 0, 0, True
    while more:
        message = await page.receive()
        more = message["more_body"]
        digest.update(message["body"])
        messages, size = messages + 1, size + len(message["body"])
    await page.answer({"bytes": size, "messages": messages, "sha256": digest.hexdigest()})


async def fail(page: Page) -> None:
    when = page.query["when"]
    if when != "before":
        await page.start(**({"content-length": "100"} if when == "declared" else {}))
    if when in ("middle", "returns", "declared"):
        await page.body(b"half an answer")
    if when != "returns":
        raise LookupError("this application fails")


async def wrong_length(page: Page) -> None:
    await page.start(**{"content-length": str(page.number("declared"))})
    await page.body(b"x" * page.number("size"), more=False)


async def slow(page: Page) -> None:
    SEEN["slow began"] += 1
    await RELEASED.wait()
    await page.answer({"slow": True})


async def answer_when_draining(page: Page) -> None:
    SEEN["waits for drain"] += 1
    await page.drain.wait()
    await asyncio.sleep(0.3)
    await page.answer({"remaining": page.drain.remaining_s})


async def until_drain(page: Page) -> None:
    await page.start()
    while not page.drain.is_set():
        await page.body(b"tick\n")
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)  # beyond the time in which idle connections are closed
    await page.body(b"bye\n", more=False)


async def for_ever(page: Page) -> None:
    await page.start()
    await page.body(b"begun\n")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        logger.warning("cancelled")
        raise


async def stubborn(page: Page) -> None:
    """Ignores its cancellation, and keeps a thread that would be waited for at exit."""
    thread = asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    await page.start()
    await page.body(b"begun\n")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            logger.warning("cancelled and goes on, %s", thread)


async def hello(page: Page) -> None:
    await page.answer({"pid": os.getpid()})


# -- WebSockets


async def accept(page: Page) -> None:
    assert (await page.receive())["type"] == "websocket.connect"
    await page.send({"type": "websocket.accept"})


async def ws_send(page: Page, data: bytes | str) -> None:
    kind = "text" if isinstance(data, str) else "bytes"
    await page.send({"type": "websocket.send", kind: data})
    SEEN["sent"] += len(data)


async def ws_close(page: Page, code: int, reason: str = "") -> None:
    await page.send({"type": "websocket.close", "code": code, "reason": reason})


async def ws_echo(page: Page) -> None:
    await accept(page)
    while (message := await page.receive())["type"] == "websocket.receive":
        text = message.get("text")
        await ws_send(page, message["bytes"] if text is None else text)


async def ws_flood(page: Page) -> None:
    await accept(page)
    total, piece = page.number("total"), page.number("piece", 65536)
    for data in pattern(total, piece):
        await ws_send(page, data)
    await ws_close(page, 1000)


async def ws_deaf(page: Page) -> None:
    """Receives nothing until released, then counts."""
    await accept(page)
    await RELEASED.wait()
    SEEN["queued"] = len(page.receive.__self__._messages)
    while (message := await page.receive())["type"] == "websocket.receive":
        SEEN["received"] += 1
        SEEN["received bytes"] += len(message.get("bytes") or message.get("text") or "")


async def ws_closes(page: Page) -> None:
    await accept(page)
    try:
        await ws_close(page, page.number("code"), page.query.get("reason", ""))
    except ValueError as error:
        await ws_send(page, str(error))
        await ws_close(page, 1000)


async def ws_interrupted(page: Page) -> None:
    """Cancelled in the middle of one large message, then closes with a code."""
    await accept(page)
    sending = asyncio.create_task(ws_send(page, b"x" * 50_000_000))
    await page.receive()
    sending.cancel()
    await asyncio.wait([sending])
    if "goes_on" in page.query:
        await ws_send(page, "another message")
    await ws_close(page, 4401, "cut")


async def ws_for_ever(page: Page) -> None:
    await accept(page)
    await ws_send(page, "begun")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        logger.warning("cancelled")
        raise


async def ws_drain(page: Page) -> None:
    await accept(page)
    await ws_send(page, "begun")
    await page.drain.wait()
    await ws_send(page, "bye")
    await ws_close(page, 1012, "come back")


async def ws_fails(page: Page) -> None:
    if page.query["when"] == "after":
        await accept(page)
    if page.query["when"] != "returns":
        raise LookupError("this application fails")
    await accept(page)


async def ws_together(page: Page) -> None:
    """Several large messages at once must not mix."""
    await accept(page)
    messages = [letter * 300_000 for letter in "abcd"]
    await asyncio.gather(*(ws_send(page, message) for message in messages))
    await ws_close(page, 1000)


PAGES = {
    "/state": state,
    "/release": release,
    "/flood": flood,
    "/flood-and-turns": flood_and_turns,
    "/after-disconnect": after_disconnect,
    "/body": measure_body,
    "/fail": fail,
    "/wrong-length": wrong_length,
    "/slow": slow,
    "/answer-when-draining": answer_when_draining,
    "/until-drain": until_drain,
    "/for-ever": for_ever,
    "/stubborn": stubborn,
    "/hello": hello,
}
SOCKETS = {
    "/echo": ws_echo,
    "/flood": ws_flood,
    "/deaf": ws_deaf,
    "/closes": ws_closes,
    "/interrupted": ws_interrupted,
    "/for-ever": ws_for_ever,
    "/drain": ws_drain,
    "/fails": ws_fails,
    "/together": ws_together,
}


async def application(scope: Scope, receive: Any, send: Any) -> None:
    table = SOCKETS if scope["type"] == "websocket" else PAGES
    await table[scope["path"]](Page(scope, receive, send))
