"""An answer as server-sent events in OpenAI's format."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from inference.messages import Finished
from inference.pipeline.admission import Admitted
from inference.token_log import BEGINNING, Position
from kernel.clock import Clock
from kernel.errors import Unavailable
from streaming import answer, sse
from streaming.answer import Frame, Stopwatch
from streaming.draining import Drain
from streaming.openai import responses
from streaming.waiting import QueueWatch
from web.errors import as_platform_error

# Proxies give up on a silent connection after 30 to 60 seconds.
HEARTBEAT_S = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client wants beside the text. Naive clients break on events that they don't know."""

    include_usage: bool = False
    include_queue: bool = False
    include_gaps: bool = False


async def events(
    admitted: Admitted,
    clock: Clock,
    wanted: Wanted,
    *,
    drain: Drain,
    after: Position | None = None,
) -> AsyncGenerator[bytes, None]:
    """The events of an answer, behind a position or from its beginning. Never raises: what breaks
    off ends with an error event and without `[DONE]`.
    """
    stopwatch = Stopwatch(admitted, clock, "sse") if after is None else None
    reading_it = answer.reading(admitted, clock, transport="sse", after=after, drain=drain)
    async with reading_it as reading:
        if (after or BEGINNING)[0] == 0:
            yield sse.event(responses.chunk(admitted, {"role": "assistant", "content": ""}))
        else:
            yield sse.comment("resumed")
        watch = QueueWatch(admitted)
        try:
            async for frame in reading:
                if frame is None:
                    if told := await _while_quiet(watch, wanted):
                        yield told
                    continue
                watch.saw(frame)
                if stopwatch:
                    stopwatch.saw(frame)
                for event in _frame_events(admitted, frame, wanted):
                    yield event
                # The transport has taken it: `yield` comes back when its buffer has drained.
                reading.has_read(frame.seq)
        except Exception as error:  # noqa: BLE001 - told to the client, and logged where unforeseen
            yield sse.error_event(as_platform_error(error))


async def _while_quiet(watch: QueueWatch, wanted: Wanted) -> bytes | None:
    queued = await watch.changed()
    if queued is not None:
        if wanted.include_queue:
            return sse.event(queued.as_json(), name="queued")
        return sse.comment(f"queued position={queued.position}")
    return sse.comment("waiting") if watch.quiet_s % HEARTBEAT_S == 0 else None


def _frame_events(admitted: Admitted, frame: Frame, wanted: Wanted) -> list[bytes]:
    events = []
    if frame.missed:
        if not wanted.include_gaps:
            raise Unavailable("Part of the answer is no longer kept.", code="gap")
        events.append(sse.event({"missed": frame.missed, "seq": frame.seq}, name="gap"))
    if frame.text:
        delta = responses.chunk(admitted, {"content": frame.text})
        events.append(sse.event(delta, seq=frame.seq))
    if isinstance(frame.final, Finished):
        reason = responses.FINISH_REASONS[frame.final.finish_reason]
        last = responses.chunk(admitted, {}, finish_reason=reason)
        events.append(sse.event(last, seq=frame.seq))
        if wanted.include_usage:
            events.append(sse.event(responses.usage_chunk(admitted, frame.final.usage)))
        events.append(sse.DONE)
    return events
