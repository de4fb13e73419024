"""An answer as server-sent events in OpenAI's format."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from inference.messages import Finished
from inference.pipeline.admission import Admitted
from inference.token_log import BEGINNING, Position
from kernel.clock import Clock
from kernel.errors import Unavailable
from streaming import answer, sse
from streaming.answer import Frame, Stopwatch
from streaming.connections import Slot, connections
from streaming.draining import Drain
from streaming.openai import responses
from streaming.waiting import QueueWatch
from tenants.access import Access
from web.errors import as_platform_error

# Proxies give up on a silent connection after 30 to 60 seconds.
HEARTBEAT_S = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client wants beside the text. Naive clients break on events that they don't know."""

    include_usage: bool = False
    include_queue: bool = False
    include_gaps: bool = False


# An answer and the position to read it from, None being its first reading.
Begun = tuple[Admitted, Position | None]
Begin = Callable[[], Awaitable[Begun]]


async def respond(
    access: Access, begin: Begin, clock: Clock, wanted: Wanted, drain: Drain
) -> tuple[sse.EventStream, Admitted | None]:
    """A stream of the answer that `begin` gives, and that answer.

    Where the connection has to wait for a slot, the reply begins at once and the answer is begun in
    it, when it is its turn; then there is none to name yet. An access that ends meanwhile ends the
    stream with its error. Raises PlatformError.
    """
    slot = await connections().take("sse", access.principal)
    try:
        begun = None if slot.place else await begin()
        events = _in_turn(slot, access, begin, begun, clock, wanted, drain)
        # Begun here, so that it is closed, and its reader gone, even if nobody ever reads on.
        response = sse.EventStream(await anext(events), events)
    except BaseException:
        slot.close()
        raise
    admitted = begun[0] if begun else None
    if admitted is not None:
        response.headers["X-Generation-Id"] = admitted.generation_id
    return response, admitted


async def _in_turn(
    slot: Slot,
    access: Access,
    begin: Begin,
    begun: Begun | None,
    clock: Clock,
    wanted: Wanted,
    drain: Drain,
) -> AsyncGenerator[bytes, None]:
    try:
        if begun is None:
            with access.kept(slot.wake):
                async for told in _while_connection_waits(slot, access, wanted, drain):
                    yield told
            begun = await begin()
        admitted, after = begun
        answer_events = events(admitted, clock, wanted, drain=drain, after=after, access=access)
        async with contextlib.aclosing(answer_events):
            async for event in answer_events:
                yield event
    except Exception as error:  # noqa: BLE001 - told to the client, and logged where unforeseen
        yield sse.error_event(as_platform_error(error))
    finally:
        slot.close()


async def _while_connection_waits(
    slot: Slot, access: Access, wanted: Wanted, drain: Drain
) -> AsyncGenerator[bytes, None]:
    quiet_s = 0
    async for place in slot.turn():
        drain.check_begun()
        access.check()
        quiet_s = quiet_s + 1 if place is None else 0
        if place is None:
            if quiet_s % HEARTBEAT_S == 0:
                yield sse.comment("waiting")
        elif wanted.include_queue:
            yield sse.event({"position": place}, name="connection_queued")
        else:
            yield sse.comment(f"connection queued position={place}")


async def events(
    admitted: Admitted,
    clock: Clock,
    wanted: Wanted,
    *,
    drain: Drain,
    after: Position | None = None,
    access: Access | None = None,
) -> AsyncGenerator[bytes, None]:
    """The events of an answer, behind a position or from its beginning. Never raises: what breaks
    off ends with an error event and without `[DONE]`.
    """
    stopwatch = Stopwatch(admitted, clock, "sse") if after is None else None
    reading_it = answer.reading(
        admitted, clock, transport="sse", after=after, drain=drain, access=access
    )
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
                if told := _frame_events(admitted, frame, wanted):
                    yield told
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


def _frame_events(admitted: Admitted, frame: Frame, wanted: Wanted) -> bytes:
    """In one piece: each that is sent costs a system call."""
    events = []
    if frame.missed:
        if not wanted.include_gaps:
            raise Unavailable("Part of the answer is no longer kept.", code="gap")
        events.append(sse.event({"missed": frame.missed, "seq": frame.seq}, name="gap"))
    if frame.text:
        delta = responses.chunk(admitted, {"content": frame.text})
        events.append(sse.event(delta, seq=frame.seq))
    if frame.interrupted:
        events.append(sse.comment(f"interrupted {frame.interrupted}"))
    if isinstance(frame.final, Finished):
        if frame.final.restored:
            events.append(sse.comment(f"restored {frame.final.restored}"))
        reason = responses.FINISH_REASONS[frame.final.finish_reason]
        last = responses.chunk(admitted, {}, finish_reason=reason)
        events.append(sse.event(last, seq=frame.seq))
        if wanted.include_usage:
            events.append(sse.event(responses.usage_chunk(admitted, frame.final.usage)))
        events.append(sse.DONE)
    return b"".join(events)
