"""Writes what the engine makes into token logs, one pipelined round trip at a time for all
generations.

While a write is on its way, the next steps of every generation gather into one entry each: the
busier the host, the larger the entries and the fewer the round trips.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

import msgspec

from inference import gathering, token_log
from inference.engine.protocol import Delta
from inference.messages import Final, Finished, Suspended, Tokens
from inference.token_log import Write
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

RETRY_S = 0.2
End = Suspended | Final


class LogLost(Exception):
    """The log can't be written any more: another holds the lease, or Redis was away too long."""


@dataclass(slots=True)
class Tail:
    """One generation's end of its log, as its writer sees it.

    turn: the writer's; seq: tokens handed over so far, written or not
    text, token_ids: the whole answer so far; cached_tokens: to be told with the next tokens
    closed: done when the entry that ends the writer's part is in the log
    """

    tenant_id: str
    generation_id: str
    turn: int = 0
    seq: int = 0
    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    lost: bool = False
    closed: asyncio.Future[None] | None = None
    pending_text: list[str] = field(default_factory=list)
    pending_ids: list[int] = field(default_factory=list)
    pending_end: End | None = None
    cached_tokens: int = 0

    def take(self) -> list[Write]:
        """What has gathered, as entries. Text without a token of its own waits for the next token
        or the last entry, beyond a suspension too.
        """
        entries: list[Tokens | End] = []
        text = "".join(self.pending_text)
        if self.pending_ids:
            made = tuple(self.pending_ids)
            entries.append(Tokens(self.seq, text, made, self.cached_tokens))
            text, self.cached_tokens = "", 0
        if isinstance(self.pending_end, Finished | Suspended) and text:
            self.pending_end = msgspec.structs.replace(self.pending_end, text=text)
        if self.pending_end is not None:
            entries.append(self.pending_end)
            text = text if isinstance(self.pending_end, Suspended) else ""
            self.pending_end = None
        self.pending_text = [text] if text else []
        self.pending_ids.clear()
        return [Write(self.tenant_id, self.generation_id, entry, self.turn) for entry in entries]


class LogWriter:
    def __init__(self, redis: Client, incarnation: str, *, outage_limit_s: float) -> None:
        """outage_limit_s: how long to keep trying when Redis is away before the open logs are given
        up.
        """
        self._redis = redis
        self._incarnation = incarnation
        self._outage_limit_s = outage_limit_s
        self._dirty: dict[str, Tail] = {}
        self._writing: list[Tail] = []
        self._work = asyncio.Event()
        self._ended = False

    def add(self, tail: Tail, delta: Delta) -> None:
        """Take over a step's tokens. Raises LogLost if an earlier write found the log lost."""
        self._check(tail)
        tail.seq += len(delta.token_ids)
        tail.text.append(delta.text)
        tail.token_ids.extend(delta.token_ids)
        tail.pending_text.append(delta.text)
        tail.pending_ids.extend(delta.token_ids)
        tail.cached_tokens = tail.cached_tokens or delta.cached_tokens
        self._mark(tail)

    async def close(self, tail: Tail, end: End) -> None:
        """Write the entry that ends this writer's part, the last one or one that suspends; returns
        when it is in the log. Raises LogLost.
        """
        self._check(tail)
        tail.pending_end = end
        tail.closed = asyncio.get_running_loop().create_future()
        self._mark(tail)
        await tail.closed

    def give_up(self, tail: Tail) -> None:
        """Write nothing more: another has the log."""
        _lose(tail)

    def _mark(self, tail: Tail) -> None:
        self._dirty[tail.generation_id] = tail
        self._work.set()

    def _check(self, tail: Tail) -> None:
        if tail.lost or self._ended:
            raise LogLost(tail.generation_id)

    async def run(self) -> None:
        """Write until cancelled. However it ends, nobody is left waiting for a last entry."""
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                self._writing, self._dirty = list(self._dirty.values()), {}
                await self._write(self._writing)
                if pause_s := gathering.pause_s(len(self._writing)):
                    await asyncio.sleep(pause_s)
        finally:
            self._ended = True
            for tail in (*self._writing, *self._dirty.values()):
                _lose(tail)

    async def _write(self, tails: list[Tail]) -> None:
        batches = [(tail, tail.take()) for tail in tails]
        writes = [write for _, batch in batches for write in batch]
        if not writes:
            return
        kept = await self._append(writes)
        for tail, batch in batches:
            held, kept = kept[: len(batch)], kept[len(batch) :]
            _conclude(tail, batch, held=all(held))

    async def _append(self, writes: list[Write]) -> list[bool]:
        give_up_at = asyncio.get_running_loop().time() + self._outage_limit_s
        while True:
            try:
                return await token_log.append(self._redis, self._incarnation, writes)
            except OUTAGE as error:
                if asyncio.get_running_loop().time() >= give_up_at:
                    log.error("Redis is away (%s); giving up %d open entries.", error, len(writes))
                    return [False] * len(writes)
                await asyncio.sleep(RETRY_S)


def _conclude(tail: Tail, batch: list[Write], *, held: bool) -> None:
    if not batch:
        return
    if tail.lost or not held:
        _lose(tail)
    elif tail.closed and not tail.closed.done() and not isinstance(batch[-1].entry, Tokens):
        tail.closed.set_result(None)


def _lose(tail: Tail) -> None:
    tail.lost = True
    if tail.closed and not tail.closed.done():
        tail.closed.set_exception(LogLost(tail.generation_id))
