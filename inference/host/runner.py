"""Runs generations: engine stream in, token log and outcome out, never further ahead of the reader
than its credit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable

import msgspec
from django.conf import settings

from inference.engine.protocol import Delta, Engine, EngineDead, EngineError, GrammarFailed
from inference.host.census import Census
from inference.host.credit import Credit
from inference.host.holding import beyond_limits
from inference.host.latency import Latency
from inference.host.run import Run
from inference.host.settler import Ended, Settler
from inference.host.tally import Tally
from inference.host.writer import LogLost, LogWriter
from inference.host.yielding import Yielding
from inference.messages import (
    Cancel,
    Control,
    Final,
    Left,
    QueuedRequest,
    Reading,
    Suspended,
    SuspendReason,
)
from inference.services import takeover
from kernel.clock import Clock

log = logging.getLogger(__name__)

WATCH_S = 1.0
# How long taking everything out of the engine may take at a drain's end.
SUSPEND_S = 10.0
FAILED = "The engine could not complete the answer."
GRAMMAR_FAILED = "The answer can't be kept to this schema: it is too complex for the engine."


class Runner:
    def __init__(
        self,
        engine: Engine,
        writer: LogWriter,
        settler: Settler,
        clock: Clock,
        *,
        release_name: str,
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._settler = settler
        self._clock = clock
        self.tally = Tally(release_name)
        self.latency = Latency(clock, self.runs)
        self._credit = Credit(engine, clock, self.tally)
        self._yielding = Yielding(engine, self.tally)
        self.census = Census(self.runs, self.latency, self._yielding)
        self._tasks: dict[str, tuple[Run, asyncio.Task[None]]] = {}
        # A cancel may overtake the reply that hands the request over.
        self._cancelled_early: deque[str] = deque(maxlen=1000)
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopped_by: SuspendReason = "drained"

    def __len__(self) -> int:
        return len(self._tasks)

    def runs(self) -> list[Run]:
        return [run for run, _ in self._tasks.values()]

    @property
    def in_engine(self) -> int:
        """How many wait for the engine's next token."""
        return self.census.in_engine

    def __contains__(self, generation_id: str) -> bool:
        return generation_id in self._tasks

    def start(self, request: QueuedRequest) -> Run:
        self.tally.started(request, now_s=self._clock.now().timestamp())
        exactly = self._engine.capabilities.restores_exactly
        run = Run.of(request, now=self._clock.monotonic(), restores_exactly=exactly)
        earlier = None
        if before := self._tasks.get(run.id):
            # It was taken over from here, and has come back before that was noticed.
            self._drop(*before)
            earlier = before[1]
        task = asyncio.create_task(self._run(run, earlier), name=run.id)
        self._tasks[run.id] = run, task
        task.add_done_callback(lambda _: self._ended(run))
        return run

    def _ended(self, run: Run) -> None:
        if self._tasks.get(run.id, (None,))[0] is run:
            del self._tasks[run.id]

    def _drop(self, run: Run, task: asyncio.Task[None]) -> None:
        """Another has it: write nothing more, and take it out of the engine."""
        run.dropped = True
        self._writer.give_up(run.tail)
        if not run.ending:
            task.cancel()

    def turns(self) -> dict[str, int]:
        """What this host believes to run: generation id to turn."""
        return {name: run.request.turn for name, (run, _) in self._tasks.items()}

    def drop(self, generation_ids: Iterable[str]) -> None:
        """These are another's by now."""
        for name in generation_ids:
            if found := self._tasks.get(name):
                log.warning("%s was taken over by another replica.", name)
                self._drop(*found)

    async def engine_failed(self) -> None:
        """Return never; raises EngineDead when a generation finds the engine dead."""
        await asyncio.shield(self._dead)

    # -- What readers and operators ask for

    async def handle(self, message: Control) -> None:
        if isinstance(message, Cancel):
            await self._cancel(message.generation_id)
        elif found := self._tasks.get(message.generation_id):
            run, _ = found
            if isinstance(message, Left):
                run.flow.left(message.reader)
            else:
                self._heard_of_reader(run, message)
            await self._credit.go_on_if_it_may(run)

    def _heard_of_reader(self, run: Run, message: Reading) -> None:
        run.flow.read(
            message.seq,
            message.high_water_tokens,
            reader=message.reader,
            now=self._clock.monotonic(),
        )

    async def _cancel(self, generation_id: str) -> None:
        """End a generation early; what it has made stays in its log and is billed."""
        if found := self._tasks.get(generation_id):
            run, _ = found
            run.cancelled = True
            run.go_on.set()
            await self._engine.abort(generation_id)
        else:
            self._cancelled_early.append(generation_id)

    async def watch(self) -> None:
        """Look after generations that nobody reads any more, or hardly, until cancelled."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = self._clock.monotonic()
            for run in self.runs():
                if run.flow.is_detached(now=now, grace_s=settings.DETACH_GRACE_S):
                    await self._detach(run)
            await self._yielding.look(self.runs())
            for run in await beyond_limits(self._engine, self.runs(), now=now):
                await self._make_way(run)

    async def _make_way(self, run: Run) -> None:
        """It keeps what others could use: as if detached, but for a reader that is there."""
        if run.flow.detached == "finish":
            await self._detach(run)
        else:
            await self._suspend(run, "held")

    async def _detach(self, run: Run) -> None:
        if run.flow.detached == "cancel":
            await self._cancel(run.id)
        elif run.flow.detached == "finish":
            run.flow.runs_free = True
            await self._credit.go_on_if_it_may(run)
        else:
            await self._suspend(run, "detached")

    async def _suspend(self, run: Run, reason: SuspendReason) -> None:
        """Take it out of the engine, to go on later."""
        if not run.ending and run.suspending is None:
            run.suspending = reason
            run.go_on.set()
            await self._engine.abort(run.id)

    async def drain(self, *, grace_s: float) -> None:
        """Let what runs finish within the grace; hand the rest back to the queue."""
        tasks = [task for _, task in self._tasks.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for run in self.runs():
            await self._suspend(run, "drained")
        if self._tasks:
            await asyncio.wait([task for _, task in self._tasks.values()], timeout=SUSPEND_S)

    async def stop(self, why: SuspendReason = "drained") -> None:
        """Take what runs out of the engine, to go on elsewhere; what is being closed may finish."""
        self._stopped_by = why
        # A task cancelled before its first step would leave no outcome.
        await asyncio.sleep(0)
        runs = list(self._tasks.values())
        for run, task in runs:
            if not run.ending:
                task.cancel()
        await asyncio.gather(*(task for _, task in runs), return_exceptions=True)

    # -- One generation

    async def _run(self, run: Run, earlier: asyncio.Task[None] | None) -> None:
        """Never leaves a generation without an outcome, whatever ends it."""
        end = await self._generate(run, earlier)
        run.ending = True
        if end is not None:
            try:
                await self._writer.close(run.tail, end)
            except LogLost:
                end = None
        if end is None:
            log.warning("The log of %s can't be written on here.", run.id)
        self.tally.ended(end, took_s=self._clock.monotonic() - run.taken_at, tokens=run.tail.seq)
        request = run.resumable() if isinstance(end, Suspended) else run.request
        self._settler.put(Ended(request, run.text, end))

    async def _generate(
        self, run: Run, earlier: asyncio.Task[None] | None
    ) -> Suspended | Final | None:
        """How its stay in the engine ends; None if its log is lost to this host."""
        try:
            if earlier is not None:
                # The engine knows a generation once.
                await asyncio.wait([earlier])
            return await self._stream(run)
        except asyncio.CancelledError:
            return None if run.dropped else _broken_off(run, self._stopped_by)
        except LogLost:
            return None
        except EngineDead as error:
            if not self._dead.done():
                self._dead.set_exception(error)
            return _broken_off(run, "engine_lost")
        except EngineError as error:
            return _failed(run, error)
        except Exception:
            # An adapter's bug ends the one answer that met it, and leaves no reader waiting.
            log.exception("%s failed.", run.id)
            return run.failed("generation_failed", FAILED, retryable=False)

    async def _stream(self, run: Run) -> Suspended | Final:
        run.cancelled |= run.id in self._cancelled_early
        await self._credit.before_the_engine(run)
        if run.cancelled:
            return run.finished("cancelled")
        if run.suspending:
            return run.suspended(run.suspending)
        run.enter_engine()
        deltas = self._deltas(run)
        async with contextlib.aclosing(deltas):
            async for delta in deltas:
                self._take(run, delta)
                end = await self._after(run, delta)
                if end is not None:
                    return end
        raise EngineError("The stream ended without a finish reason.")

    def _deltas(self, run: Run) -> AsyncGenerator[Delta, None]:
        progress = run.request.progress
        request = msgspec.structs.replace(run.request.engine_request, rank=run.rank)
        if progress and progress.token_ids:
            self.tally.restored()
            return self._engine.restore(request, progress.token_ids, run.request.logged_text)
        return self._engine.submit(request)

    async def _after(self, run: Run, delta: Delta) -> Suspended | Final | None:
        """What a delta means for the generation: its end, or None to go on."""
        if delta.finish_reason in ("stop", "length"):
            return run.finished(delta.finish_reason)
        if run.cancelled:
            return run.finished("cancelled")
        if run.suspending:
            # Only the engine's own end flushes what text it held back.
            if delta.finish_reason is not None:
                return run.suspended(run.suspending)
            # It may not have known the request yet when it was first told.
            await self._engine.abort(run.id)
        elif delta.finish_reason is not None:
            return run.finished(delta.finish_reason)
        elif run.flow.must_hold(run.tail.seq):
            await self._credit.hold(run)
        return None

    def _take(self, run: Run, delta: Delta) -> None:
        self.tally.took(delta)
        if not run.decoding:
            run.decoding = True
            self.tally.prefilled(run.request, delta.cached_tokens)
        if delta.token_ids:
            self._time(run, len(delta.token_ids))
        run.cached_tokens = run.cached_tokens or delta.cached_tokens
        self._writer.add(run.tail, delta)

    def _time(self, run: Run, tokens: int) -> None:
        """Since its last tokens, unless it has been held in between: that is its reader's pace."""
        now = self._clock.monotonic()
        if run.token_at is not None:
            self.tally.came_after(now - run.token_at, tokens)
            self.latency.delivered(now - run.token_at, now=now)
        run.token_at = None if run.flow.held else now


def _broken_off(run: Run, why: SuspendReason) -> Suspended | Final:
    """It goes on in another engine, unless it may be what they die of."""
    if why == "engine_lost" and not takeover.may_go_on(run.request):
        return run.failed("engine_lost", takeover.ENGINE_LOST, retryable=True)
    return run.suspended(why)


def _failed(run: Run, error: EngineError) -> Final:
    """The engine gave this one up; others go on."""
    log.error("%s failed in the engine: %s", run.id, error)
    if isinstance(error, GrammarFailed):
        return run.failed("grammar_failed", GRAMMAR_FAILED, retryable=False)
    return run.failed("generation_failed", FAILED, retryable=False)
