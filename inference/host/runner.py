"""Runs generations: engine stream in, token log and outcome out, never further ahead of the reader
than its credit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator

from django.conf import settings

from inference import metrics
from inference.engine.protocol import Delta, Engine, EngineDead, EngineError
from inference.host.run import Run
from inference.host.settler import Settler
from inference.host.writer import LogLost, LogWriter
from inference.messages import (
    Cancel,
    Control,
    Failed,
    Final,
    Left,
    QueuedRequest,
    Reading,
    Suspended,
    SuspendReason,
)
from inference.services.checkpoints import Suspension
from inference.services.settlement import Outcome
from kernel.clock import Clock

log = logging.getLogger(__name__)

WATCH_S = 1.0
# How long taking everything out of the engine may take at a drain's end.
SUSPEND_S = 10.0


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
        self._release = release_name
        self._counted_tokens = 0
        self._tasks: dict[str, tuple[Run, asyncio.Task[None]]] = {}
        # A cancel may overtake the reply that hands the request over.
        self._cancelled_early: deque[str] = deque(maxlen=1000)
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lengths: deque[int] = deque(maxlen=1000)
        self.output_tokens = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def count_tokens(self) -> None:
        """Bring the metric up to date: a counter in a file is too slow for every delta."""
        made = metrics.OUTPUT_TOKENS.labels(self._release)
        made.inc(self.output_tokens - self._counted_tokens)
        self._counted_tokens = self.output_tokens

    def lengths(self) -> list[int]:
        """Tokens of the answers that have ended since the last call."""
        lengths = list(self._lengths)
        self._lengths.clear()
        return lengths

    @property
    def held(self) -> int:
        """How many wait for their reader."""
        return sum(run.flow.held for run, _ in self._tasks.values())

    @property
    def batch_tokens(self) -> int:
        """Prompts and answers so far of all that it runs."""
        return sum(run.prompt_tokens + run.tail.seq for run, _ in self._tasks.values())

    @property
    def longest_prompt(self) -> int:
        return max((run.prompt_tokens for run, _ in self._tasks.values()), default=0)

    def __contains__(self, generation_id: str) -> bool:
        return generation_id in self._tasks

    def start(self, request: QueuedRequest) -> Run:
        metrics.QUEUE_TIME.labels(self._release, request.priority_class).observe(
            max(0.0, self._clock.now().timestamp() - request.admitted_at)
        )
        run = Run.of(request, now=self._clock.monotonic())
        task = asyncio.create_task(self._run(run), name=run.id)
        self._tasks[run.id] = run, task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))
        return run

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
            await self._go_on_if_it_may(run)

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
        """Look after generations that nobody reads any more, until cancelled."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = self._clock.monotonic()
            for run, _ in list(self._tasks.values()):
                if run.flow.is_detached(now=now, grace_s=settings.DETACH_GRACE_S):
                    await self._detach(run)

    async def _detach(self, run: Run) -> None:
        if run.flow.detached == "cancel":
            await self._cancel(run.id)
        elif run.flow.detached == "finish":
            run.flow.runs_free = True
            await self._go_on_if_it_may(run)
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
        for run, _ in list(self._tasks.values()):
            await self._suspend(run, "drained")
        if self._tasks:
            await asyncio.wait([task for _, task in self._tasks.values()], timeout=SUSPEND_S)

    async def stop(self) -> None:
        """Break off what runs, with a last entry that says so; what is being closed may finish."""
        # A task cancelled before its first step would leave no outcome.
        await asyncio.sleep(0)
        runs = list(self._tasks.values())
        for run, task in runs:
            if not run.ending:
                task.cancel()
        await asyncio.gather(*(task for _, task in runs), return_exceptions=True)

    # -- One generation

    async def _run(self, run: Run) -> None:
        """Never leaves a generation without an outcome, whatever ends it."""
        end = await self._generate(run)
        run.ending = True
        try:
            await self._writer.close(run.tail, end)
        except LogLost:
            log.warning("The log of %s is lost.", run.id)
            end = run.failed("log_lost", "The answer's log was lost.", retryable=True)
        self._count(run, end)
        if isinstance(end, Suspended):
            self._settler.put(Suspension(run.resumable(), end))
        else:
            self._settler.put(Outcome(run.request.tenant_id, run.id, run.text, end))

    def _count(self, run: Run, end: Suspended | Final) -> None:
        how: str
        if isinstance(end, Suspended):
            how = end.reason
        else:
            self._lengths.append(run.tail.seq)
            how = end.code if isinstance(end, Failed) else end.finish_reason
        metrics.ENDED.labels(self._release, how).inc()
        took_s = self._clock.monotonic() - run.taken_at
        metrics.EXECUTION_TIME.labels(self._release).observe(took_s)

    async def _generate(self, run: Run) -> Suspended | Final:
        try:
            return await self._stream(run)
        except asyncio.CancelledError:
            return run.failed("engine_stopped", "The engine was stopped.", retryable=True)
        except LogLost:
            # Closing it finds the same, and says so.
            return run.failed("log_lost", "The answer's log was lost.", retryable=True)
        except EngineDead as error:
            if not self._dead.done():
                self._dead.set_exception(error)
            return run.failed(
                "engine_lost", "The engine failed while it was answering.", retryable=True
            )
        except EngineError as error:
            log.error("%s failed in the engine: %s", run.id, error)
        except Exception:
            # An adapter's bug ends the one answer that met it, and leaves no reader waiting.
            log.exception("%s failed.", run.id)
        return run.failed(
            "generation_failed", "The engine could not complete the answer.", retryable=False
        )

    async def _stream(self, run: Run) -> Suspended | Final:
        run.cancelled |= run.id in self._cancelled_early
        await self._credit(run)
        if run.cancelled:
            return run.finished("cancelled")
        if run.suspending:
            return run.suspended(run.suspending)
        deltas = self._deltas(run)
        async with contextlib.aclosing(deltas):
            async for delta in deltas:
                self._take(run, delta)
                end = await self._after(run, delta)
                if end is not None:
                    return end
        raise EngineError("The stream ended without a finish reason.")

    def _deltas(self, run: Run) -> AsyncGenerator[Delta, None]:
        request, progress = run.request.engine_request, run.request.progress
        if progress and progress.token_ids:
            return self._engine.restore(request, progress.token_ids)
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
            await self._hold(run)
        return None

    def _take(self, run: Run, delta: Delta) -> None:
        run.cached_tokens = run.cached_tokens or delta.cached_tokens
        self.output_tokens += len(delta.token_ids)
        self._writer.add(run.tail, delta)

    # -- Credit

    async def _hold(self, run: Run) -> None:
        """An engine that can't hold one request is left unread until there is credit again."""
        run.flow.held = True
        metrics.HOLDS.labels(self._release).inc()
        if self._engine.capabilities.hold:
            await self._engine.hold(run.id)
            return
        await self._wait_outside(run)

    async def _credit(self, run: Run) -> None:
        """One that comes back to a reader without room has nothing to do in the engine yet."""
        if run.flow.must_hold(run.tail.seq):
            run.flow.held = True
            await self._wait_outside(run)

    async def _wait_outside(self, run: Run) -> None:
        run.go_on.clear()
        if not (run.cancelled or run.suspending):
            await run.go_on.wait()

    async def _go_on_if_it_may(self, run: Run) -> None:
        if not run.flow.may_go_on(run.tail.seq):
            return
        run.flow.held = False
        run.go_on.set()
        if self._engine.capabilities.hold:
            await self._engine.release(run.id)
