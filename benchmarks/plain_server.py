"""An OpenAI-style server that does nothing but answer at a set pace: what the platform would be if
it did nothing either. `python benchmarks/plain_server.py PORT TTFT_MS ITL_MS`
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

WORDS = ("river ", "water ", "stone ", "bank ", "bridge ", "current ", "reed ", "mill ")


class Pace:
    """Sleeps until each token is due, as the fake engine does: lateness is not added up."""

    def __init__(self, ttft_s: float, itl_s: float) -> None:
        self._itl_s = itl_s
        self._due = time.monotonic() + ttft_s

    async def next(self) -> None:
        remaining = self._due - time.monotonic()
        if remaining > 0:
            await asyncio.sleep(remaining)
        self._due = max(self._due, time.monotonic() - self._itl_s) + self._itl_s


def application(ttft_s: float, itl_s: float) -> Starlette:
    async def completions(request: Request) -> Response:
        asked = await request.json()
        tokens = asked["max_tokens"]
        pace = Pace(ttft_s, itl_s)
        if asked.get("stream"):
            return StreamingResponse(_events(tokens, pace), media_type="text/event-stream")
        for _ in range(tokens):
            await pace.next()
        text = "".join(WORDS[number % len(WORDS)] for number in range(tokens))
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        return JSONResponse(_body("chat.completion", [choice]) | {"usage": _usage(tokens)})

    async def health(request: Request) -> Response:
        return Response()

    return Starlette(
        routes=[
            Route("/v1/chat/completions", completions, methods=["POST"]),
            Route("/health", health),
        ]
    )


async def _events(tokens: int, pace: Pace) -> AsyncIterator[bytes]:
    yield _event(_chunk({"role": "assistant", "content": ""}))
    for number in range(tokens):
        await pace.next()
        yield _event(_chunk({"content": WORDS[number % len(WORDS)]}))
    yield _event(_chunk({}, "length"))
    yield _event(_body("chat.completion.chunk", []) | {"usage": _usage(tokens)})
    yield b"data: [DONE]\n\n"


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _body("chat.completion.chunk", [choice])


def _body(kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "plain", "object": kind, "created": 0, "model": "plain", "choices": choices}


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


if __name__ == "__main__":
    port, ttft_ms, itl_ms = sys.argv[1:]
    uvicorn.run(
        application(float(ttft_ms) / 1000, float(itl_ms) / 1000),
        host="127.0.0.1",
        port=int(port),
        log_level="warning",
    )
