"""Runs generations: engine stream in, token log and outcome out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass

from inference.engine.protocol import Delta, Engine, EngineDead, EngineError, FinishReason
from inference.host.settler import Settler
from inference.host.writer import LogLost, LogWriter, Tail
from inference.messages import Failed, Final, Finished, QueuedRequest, Usage
from inference.services.settlement import Outcome

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    request: QueuedRequest
    tail: Tail
    cached_tokens: int = 0
    cancelled: bool = False
    ending: bool = False

    @property
    def usage(self) -> Usage:
        prompt = len(self.request.engine_request.prompt_token_ids)
        return Usage(prompt, self.tail.seq, self.cached_tokens)

    def finished(self, reason: FinishReason) -> Finished:
        return Finished(seq=self.tail.seq, text="", finish_reason=reason, usage=self.usage)

    def failed(self, code: str, message: str, *, retryable: bool) -> Failed:
        return Failed(self.tail.seq, code, message, retryable, self.usage)


class Runner:
    def __init__(self, engine: Engine, writer: LogWriter, settler: Settler) -> None:
        self._engine = engine
        self._writer = writer
        self._settler = settler
        self._runs: dict[str, Run] = {}
        self._tasks: dict[asyncio.Task[None], Run] = {}
        # A cancel may overtake the reply that hands the request over.
        self._cancelled_early: deque[str] = deque(maxlen=1000)
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.output_tokens = 0

    def __len__(self) -> int:
        return len(self._runs)

    def start(self, request: QueuedRequest) -> None:
        run = Run(request, Tail(request.tenant_id, request.generation_id))
        self._runs[request.generation_id] = run
        task = asyncio.create_task(self._run(run), name=request.generation_id)
        self._tasks[task] = run
        task.add_done_callback(self._tasks.pop)

    async def cancel(self, generation_id: str) -> None:
        """End a generation early; what it has made stays in its log and is billed."""
        if run := self._runs.get(generation_id):
            run.cancelled = True
            await self._engine.abort(generation_id)
        else:
            self._cancelled_early.append(generation_id)

    async def engine_failed(self) -> None:
        """Return never; raises EngineDead when a generation finds the engine dead."""
        await asyncio.shield(self._dead)

    async def stop(self) -> None:
        """Break off what runs, with a last entry that says so; what is ending anyway may end."""
        tasks = list(self._tasks.items())
        for task, run in tasks:
            if not run.ending:
                task.cancel()
        await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)

    async def _run(self, run: Run) -> None:
        try:
            final = await self._generate(run)
            run.ending = True
            await self._writer.close(run.tail, final)
        except LogLost:
            log.warning("The log of %s is lost.", run.request.generation_id)
            final = run.failed("log_lost", "The answer's log was lost.", retryable=True)
        except asyncio.CancelledError:
            final = run.failed("engine_stopped", "The engine was stopped.", retryable=True)
            with contextlib.suppress(LogLost):
                await self._writer.close(run.tail, final)
            raise
        finally:
            self._runs.pop(run.request.generation_id, None)
            text = "".join(run.tail.text)
            self._settler.put(
                Outcome(run.request.tenant_id, run.request.generation_id, text, final)
            )

    async def _generate(self, run: Run) -> Final:
        try:
            return await self._stream(run)
        except EngineDead as error:
            if not self._dead.done():
                self._dead.set_exception(error)
            return run.failed(
                "engine_lost", "The engine failed while it was answering.", retryable=True
            )
        except LogLost:
            raise
        except EngineError as error:
            log.error("%s failed in the engine: %s", run.request.generation_id, error)
        except Exception:
            # An adapter's bug ends the one answer that met it, and leaves no reader waiting.
            log.exception("%s failed.", run.request.generation_id)
        return run.failed(
            "generation_failed", "The engine could not complete the answer.", retryable=False
        )

    async def _stream(self, run: Run) -> Final:
        if run.cancelled or run.request.generation_id in self._cancelled_early:
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
        self._writer.add(run.tail, delta)
