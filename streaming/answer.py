"""An answer as its reader sees it: batches of log entries folded into frames, never more than the
reader's connection may have outstanding.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

from inference.messages import (
    Failed,
    Final,
    Finished,
    Started,
    Suspended,
    SuspendReason,
    Tokens,
)
from inference.pipeline.admission import Admitted
from inference.services import generations
from inference.token_log import BEGINNING, LogEntry, Position
from kernel.clock import Clock
from kernel.errors import EngineLost, GenerationFailed, GrammarFailed, PlatformError, Unavailable
from kernel.redis import OUTAGE
from streaming import metrics
from streaming.draining import NO_DRAIN, Drain
from streaming.reading import Reader
from streaming.relay import relay
from tenants.access import Access

log = logging.getLogger(__name__)

# How often a reader without room looks whether its server leaves.
ROOM_POLL_S = 1.0
# Tasks that nobody else holds.
_ending: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that had piled up: its text, the position behind it, and the end if that has come.

    seq: tokens of the answer up to and including this frame
    missed: tokens before this frame that the log no longer had
    started: a replica has the generation; before that it waits in the queue
    interrupted: why it has none any more, and waits there again
    """

    seq: int
    text: str
    missed: int
    started: bool
    interrupted: SuspendReason | None
    final: Final | None


def fold(entries: list[LogEntry], *, behind: int) -> Frame:
    """One frame of a batch of entries, for a reader that has the answer up to `behind` tokens."""
    text, started, final, missed = [], False, None, 0
    interrupted: SuspendReason | None = None
    for logged in entries:
        entry, (seq, _) = logged.entry, logged.position
        begins = seq - len(entry.token_ids) if isinstance(entry, Tokens) else seq
        missed += max(0, begins - behind)
        behind = seq
        if isinstance(entry, Tokens | Finished):
            text.append(entry.text)
        if isinstance(entry, Started):
            started, interrupted = True, None
        # Whoever reads on has ended a suspension for want of a reader already.
        if isinstance(entry, Suspended) and not entry.waits_for_reader:
            started, interrupted = False, entry.reason
        if isinstance(entry, Finished | Failed):
            final = entry
    return Frame(behind, "".join(text), missed, started, interrupted, final)


class Answer:
    """One reading of an answer.

    Iterate for its frames; None comes about once a second while nothing happens. No frame is given
    while the reader has its high-water mark outstanding: say how far it has read with `has_read`.
    Raises PlatformError when the answer breaks off.
    """

    def __init__(
        self, admitted: Admitted, after: Position, drain: Drain, access: Access | None = None
    ) -> None:
        self.admitted = admitted
        self._drain = drain
        self._access = access
        self.ended = False
        self._after = after
        loop = asyncio.get_running_loop()
        self._reader = Reader(admitted.high_water_tokens, moved_at=loop.time())
        self._reader.given = self._reader.consumed = after[0]
        self._moved = asyncio.Event()

    def has_read(self, seq: int) -> None:
        """The client has the answer up to `seq`; what lies beyond what it was sent is ignored."""
        self._reader.has_read(seq, now=asyncio.get_running_loop().time())
        self._moved.set()

    def look(self) -> None:
        """Have whoever waits for the next frame look now whether this goes on."""
        self._moved.set()
        relay().wake(self.admitted.tenant_id, self.admitted.generation_id)

    async def __aiter__(self) -> AsyncGenerator[Frame | None, None]:
        admitted, behind = self.admitted, self._after[0]
        log = relay().follow(
            admitted.tenant_id,
            admitted.generation_id,
            reader=self._reader,
            after=self._after,
            waits=admitted.new,
        )
        async with contextlib.aclosing(log):
            async for entries in log:
                self._check_access()
                frame = fold(entries, behind=behind) if entries else None
                if frame is not None:
                    behind = frame.seq
                    self.ended = frame.final is not None
                    self._reader.was_given(frame.seq)
                yield frame
                if frame is not None and isinstance(frame.final, Failed):
                    raise as_error(frame.final)
                await self._room()
                self._drain.check()
                if not self.ended:
                    # Nobody was woken if it ended while the frame was on its way.
                    self._check_access()

    async def _room(self) -> None:
        while not self._reader.has_room:
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: before Python 3.12 that may swallow a cancellation.
                async with asyncio.timeout(ROOM_POLL_S):
                    await self._moved.wait()
            self._drain.check()
            self._check_access()

    def _check_access(self) -> None:
        if self._access is not None:
            self._access.check()


@contextlib.asynccontextmanager
async def reading(
    admitted: Admitted,
    clock: Clock,
    *,
    transport: str,
    after: Position | None = None,
    drain: Drain = NO_DRAIN,
    access: Access | None = None,
) -> AsyncIterator[Answer]:
    """Read an answer inside this context, from its beginning or behind a position.

    Leaving before its end leaves it to its policy: `cancel` ends it here and now; otherwise its
    replica is told that this reader is gone. What takes the access away that it was asked by ends
    it at once, whether its reader reads on or not. Raises PermissionDenied for a model that the
    access doesn't reach.
    """
    answer = Answer(admitted, after or BEGINNING, drain, access)
    metrics.OPEN.labels(transport).inc()
    try:
        with _ending_with(access, answer, clock):
            yield answer
    finally:
        metrics.OPEN.labels(transport).dec()
        if not answer.ended and admitted.detached == "cancel":
            # Whatever ends the reader must not end this.
            await asyncio.shield(_cancel(admitted, clock))


@contextlib.contextmanager
def _ending_with(access: Access | None, answer: Answer, clock: Clock) -> Iterator[None]:
    if access is None:
        yield
        return

    def tell() -> None:
        # Of several keys of an application, one that is lost ends what it has begun itself.
        if access.is_withdrawn and answer.admitted.key_id == access.principal.key_id:
            end_soon(answer.admitted, clock)
        answer.look()

    with access.kept(tell):
        access.need_model(answer.admitted.model)
        yield


class Stopwatch:
    """Times from admission, for metrics: of a first reading, from the beginning."""

    def __init__(self, admitted: Admitted, clock: Clock, transport: str) -> None:
        self._admitted = admitted
        self._clock = clock
        self._labels = (transport, admitted.model)
        self._has_text = False

    def saw(self, frame: Frame) -> None:
        if frame.text and not self._has_text:
            self._has_text = True
            metrics.TTFT.labels(*self._labels).observe(self._seconds())
        if frame.final is not None:
            metrics.ANSWER_TIME.labels(*self._labels).observe(self._seconds())

    def _seconds(self) -> float:
        return max(0.0, (self._clock.now() - self._admitted.created_at).total_seconds())


def end_soon(admitted: Admitted, clock: Clock) -> None:
    """End an answer whose reader may be gone by then."""
    task = asyncio.create_task(_cancel(admitted, clock))
    _ending.add(task)
    task.add_done_callback(_ended)


def _ended(task: asyncio.Task[None]) -> None:
    _ending.discard(task)
    if not task.cancelled() and (error := task.exception()):
        log.error("An answer could not be ended.", exc_info=error)


async def _cancel(admitted: Admitted, clock: Clock) -> None:
    # With Redis away the replica breaks its generations off by itself.
    with contextlib.suppress(*OUTAGE):
        await generations.cancel(admitted, clock)


def as_error(failed: Failed) -> PlatformError:
    """The error that a reader of a failed answer gets."""
    if failed.code == GrammarFailed.code:
        return GrammarFailed(failed.message, param="response_format")
    kind = {"engine_lost": EngineLost, "generation_failed": GenerationFailed}.get(
        failed.code, Unavailable
    )
    return kind(failed.message, code=failed.code, retry_after_s=2 if failed.retryable else None)
