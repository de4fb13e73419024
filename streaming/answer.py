"""An answer as its reader sees it: batches of log entries folded into frames, and the generation
ended if the reader leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from inference import queue
from inference.messages import Failed, Final, Finished, Started, Tokens
from inference.pipeline.admission import Admitted
from inference.services import generations
from inference.token_log import LogEntry
from kernel.clock import Clock
from kernel.errors import EngineLost, GenerationFailed, PlatformError, Unavailable
from kernel.redis import OUTAGE, client
from streaming import metrics
from streaming.relay import relay


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that had piled up: its text, the position behind it, and the end if that has come.

    seq: tokens of the answer up to and including this frame
    started: a replica has the generation; before that it waits in the queue
    """

    seq: int
    text: str
    started: bool
    final: Final | None


def fold(entries: list[LogEntry]) -> Frame:
    """One frame of a batch of entries."""
    text, started, final = [], False, None
    for logged in entries:
        entry = logged.entry
        if isinstance(entry, Tokens):
            text.append(entry.text)
        elif isinstance(entry, Started):
            started = True
        elif isinstance(entry, Finished | Failed):
            final = entry
            text.append(entry.text if isinstance(entry, Finished) else "")
    return Frame(entries[-1].entry.seq, "".join(text), started, final)


@contextlib.asynccontextmanager
async def reading(
    admitted: Admitted, clock: Clock, *, transport: str
) -> AsyncIterator[AsyncGenerator[Frame | None, None]]:
    """Read an answer inside this context; leaving it before the answer has ended ends the
    generation.

    Yields the answer's frames; None about once a second while nothing happens. They raise
    PlatformError when it breaks off.
    """
    end = _End()
    frames = _measured(_frames(admitted, end), admitted, clock, transport)
    metrics.OPEN.labels(transport).inc()
    try:
        async with contextlib.aclosing(frames):
            yield frames
    finally:
        metrics.OPEN.labels(transport).dec()
        if not end.reached:
            # Whatever ends the reader must not end this.
            await asyncio.shield(_cancel(admitted, clock))


@dataclass(slots=True)
class _End:
    reached: bool = False


async def _frames(admitted: Admitted, end: _End) -> AsyncGenerator[Frame | None, None]:
    log = relay().follow(admitted.tenant_id, admitted.generation_id)
    async with contextlib.aclosing(log):
        async for entries in log:
            frame = fold(entries) if entries else None
            if frame is not None and frame.final is not None:
                end.reached = True
            yield frame
            if frame is not None and isinstance(frame.final, Failed):
                raise as_error(frame.final)


async def _measured(
    frames: AsyncGenerator[Frame | None, None], admitted: Admitted, clock: Clock, transport: str
) -> AsyncGenerator[Frame | None, None]:
    def seconds() -> float:
        return max(0.0, (clock.now() - admitted.created_at).total_seconds())

    has_text = False
    async with contextlib.aclosing(frames):
        async for frame in frames:
            if frame is not None and frame.text and not has_text:
                has_text = True
                metrics.TTFT.labels(transport, admitted.model).observe(seconds())
            if frame is not None and frame.final is not None:
                metrics.ANSWER_TIME.labels(transport, admitted.model).observe(seconds())
            yield frame


async def _cancel(admitted: Admitted, clock: Clock) -> None:
    # With Redis away the replica breaks its generations off by itself.
    with contextlib.suppress(*OUTAGE):
        await generations.cancel(admitted, clock)


async def place(admitted: Admitted) -> int | None:
    """Place in the queue, 1 being next; None when it waits no more or can't be told."""
    try:
        return await queue.place(client(), admitted.release_id, admitted.generation_id)
    except OUTAGE:
        return None


def as_error(failed: Failed) -> PlatformError:
    """The error that a reader of a failed answer gets."""
    kind = {"engine_lost": EngineLost, "generation_failed": GenerationFailed}.get(
        failed.code, Unavailable
    )
    return kind(failed.message, code=failed.code, retry_after_s=2 if failed.retryable else None)
