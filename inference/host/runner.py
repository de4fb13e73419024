"""Runs generations: engine stream in, token log and outcome out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass

from inference import metrics
from inference.engine.protocol import Delta, Engine, EngineDead, EngineError, FinishReason
from inference.host.settler import Settler
from inference.host.writer import LogLost, LogWriter, Tail
from inference.messages import Failed, Final, Finished, QueuedRequest, Usage
from inference.services.settlement import Outcome
from kernel.clock import Clock

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    request: QueuedRequest
    tail: Tail
    taken_at: float
    cached_tokens: int = 0
    cancelled: bool = False
    ending: bool = False

    @property
    def id(self) -> str:
        return self.request.generation_id

    @property
    def usage(self) -> Usage:
        prompt = len(self.request.engine_request.prompt_token_ids)
        return Usage(prompt, self.tail.seq, self.cached_tokens)

    def finished(self, reason: FinishReason) -> Finished:
        return Finished(seq=self.tail.seq, text="", finish_reason=reason, usage=self.usage)

    def failed(self, code: str, message: str, *, retryable: bool) -> Failed:
        return Failed(self.tail.seq, code, message, retryable, self.usage)


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
        self._made = metrics.OUTPUT_TOKENS.labels(release_name)
        self._tasks: dict[str, tuple[Run, asyncio.Task[None]]] = {}
        # A cancel may overtake the reply that hands the request over.
        self._cancelled_early: deque[str] = deque(maxlen=1000)
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.output_tokens = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, request: QueuedRequest) -> None:
        metrics.QUEUE_TIME.labels(self._release).observe(
            max(0.0, self._clock.now().timestamp() - request.admitted_at)
        )
        tail = Tail(request.tenant_id, request.generation_id)
        run = Run(request, tail, taken_at=self._clock.monotonic())
        task = asyncio.create_task(self._run(run), name=run.id)
        self._tasks[run.id] = run, task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))

    async def cancel(self, generation_id: str) -> None:
        """End a generation early; what it has made stays in its log and is billed."""
        if generation_id in self._tasks:
            self._tasks[generation_id][0].cancelled = True
            await self._engine.abort(generation_id)
        else:
            self._cancelled_early.append(generation_id)

    async def engine_failed(self) -> None:
        """Return never; raises EngineDead when a generation finds the engine dead."""
        await asyncio.shield(self._dead)

    async def stop(self) -> None:
        """Break off what runs, with a last entry that says so; what is being closed may finish."""
        # A task cancelled before its first step would leave no outcome.
        await asyncio.sleep(0)
        runs = list(self._tasks.values())
        for run, task in runs:
            if not run.ending:
                task.cancel()
        await asyncio.gather(*(task for _, task in runs), return_exceptions=True)

    async def _run(self, run: Run) -> None:
        """Never leaves a generation without an outcome, whatever ends it."""
        final = await self._generate(run)
        run.ending = True
        try:
            await self._writer.close(run.tail, final)
        except LogLost:
            log.warning("The log of %s is lost.", run.id)
            final = run.failed("log_lost", "The answer's log was lost.", retryable=True)
        self._count(run, final)
        outcome = Outcome(run.request.tenant_id, run.id, "".join(run.tail.text), final)
        self._settler.put(outcome)

    def _count(self, run: Run, final: Final) -> None:
        how = final.code if isinstance(final, Failed) else final.finish_reason
        metrics.ENDED.labels(self._release, how).inc()
        metrics.EXECUTION_TIME.labels(self._release).observe(self._clock.monotonic() - run.taken_at)

    async def _generate(self, run: Run) -> Final:
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

    async def _stream(self, run: Run) -> Final:
        if run.cancelled or run.id in self._cancelled_early:
            return run.finished("cancelled")
        deltas = self._engine.submit(run.request.engine_request)
        async with contextlib.aclosing(deltas):
            async for delta in deltas:
                self._take(run, delta)
                # The engine may not have known the request yet when it was told to abort it.
                if run.cancelled:
                    return run.finished("cancelled")
                if delta.finish_reason is not None:
                    return run.finished(delta.finish_reason)
        raise EngineError("The stream ended without a finish reason.")

    def _take(self, run: Run, delta: Delta) -> None:
        run.cached_tokens = run.cached_tokens or delta.cached_tokens
        self.output_tokens += len(delta.token_ids)
        self._made.inc(len(delta.token_ids))
        self._writer.add(run.tail, delta)
