"""Lets generations survive their engine: what a lost replica ran goes back into its queue from its
log, and whatever had ended there is settled.

Anybody may call these at any time, as often as they like: each step is one script in Redis that
asks the lease, which names replica and turn, so one of many takes a generation over and a replica
that comes back can't go on with it.
"""

from __future__ import annotations

import logging

import msgspec
from django.conf import settings
from redis.exceptions import ResponseError

from inference import (
    control,
    leases,
    messages,
    metrics,
    queue,
    redis_keys,
    registry,
    scripts,
    token_log,
)
from inference.messages import Failed, Final, Finished, Progress, QueuedRequest, Suspended, Usage
from inference.queue import LostLease
from inference.services import checkpoints
from inference.services.checkpoints import Suspension
from inference.services.settlement import Outcome, settle
from inference.token_log import Content, Write
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

# A replica that is only slow to fall silent may append between reading and taking; then again.
TRIES = 5


async def take_over(redis: Client, clock: Clock, incarnations: set[str]) -> int:
    """Put back or end what these lost replicas had taken; how many were dealt with here."""
    done = 0
    for incarnation in incarnations:
        stopped = await control.cancelled(redis, incarnation)
        for request in await registry.unsettled(redis, incarnation):
            one = _Lost(redis, clock, incarnation, request, request.generation_id in stopped)
            try:
                done += await one.take()
            except OUTAGE:
                raise
            except Exception:
                # One that can't be dealt with holds none of the others up; it is tried again.
                log.exception("%s could not be taken over.", request.generation_id)
        await registry.forget(redis, incarnation)
    return done


def may_go_on(request: QueuedRequest) -> bool:
    """Whether it may have another engine: one that kills each must not have them all."""
    return request.engines_lost < settings.TAKEOVER_LIMIT


def after_a_loss(request: QueuedRequest) -> QueuedRequest:
    return msgspec.structs.replace(request, engines_lost=request.engines_lost + 1)


async def abandoned(redis: Client, clock: Clock, incarnation: str, request: QueuedRequest) -> None:
    """What a living replica could not write on: put back if it still has the lease, settled if its
    log is gone; else it is another's.
    """
    one = _Lost(redis, clock, incarnation, request, stopped=False)
    for tries_left in reversed(range(TRIES)):
        try:
            await one.suspend()
            break
        except ResponseError:
            # It was written meanwhile, by a command that an outage had delayed.
            if not tries_left:
                raise
    await one.take()


class _Lost:
    """One generation that a replica, which is no longer heard of, had taken in this turn."""

    def __init__(
        self, redis: Client, clock: Clock, incarnation: str, request: QueuedRequest, stopped: bool
    ) -> None:
        """stopped: its replica was told to end it and may not have heard."""
        self._redis = redis
        self._clock = clock
        self._incarnation = incarnation
        self._request = request
        self._stopped = stopped

    async def take(self) -> bool:
        """Whether it was dealt with here."""
        for _ in range(TRIES):
            done = await self._try()
            if done is not None:
                return done
        return False

    async def suspend(self) -> None:
        """If its replica still has the lease. Raises ResponseError if its log has grown since it
        was read.
        """
        content = await self.content()
        holder = leases.holder(self._incarnation, self._request.turn)
        if content is None or content.final is not None or await self.lease() != holder:
            return
        entry = Suspended(content.seq, content.pending, "drained", self.usage(content))
        request = self._request
        write = Write(request.tenant_id, request.generation_id, entry, request.turn)
        await token_log.append(self._redis, self._incarnation, [write])

    async def content(self) -> Content | None:
        return await token_log.content(
            self._redis, self._request.tenant_id, self._request.generation_id
        )

    async def lease(self) -> str:
        raw = await self._redis.get(redis_keys.lease(self._request.generation_id))
        return (raw or b"").decode()

    def usage(self, content: Content) -> Usage:
        earlier = self._request.progress.cached_tokens if self._request.progress else 0
        prompt = len(self._request.engine_request.prompt_token_ids)
        return Usage(prompt, content.seq, content.cached_tokens or earlier)

    async def _try(self) -> bool | None:
        """None to look again: something has changed between reading and taking."""
        # The lease first: what it says then, the log that is read after it shows.
        lease, content = await self.lease(), await self.content()
        holder = leases.holder(self._incarnation, self._request.turn)
        if content is None:
            return await self._settle("", _log_lost(self._request))
        if content.final is not None:
            return await self._settle(content.text, content.final)
        if lease == holder:
            return await self._end_or_put_back(content)
        if lease == leases.SUSPENDED + holder and content.suspended is not None:
            return await self._conclude_suspension(content, content.suspended)
        # Another has it, or it waits in its queue.
        await self._forget()
        return False

    async def _end_or_put_back(self, content: Content) -> bool | None:
        if final := self._end(content, engine_lost=True):
            return await self._close_lost(content, final)
        entry = Suspended(content.seq, content.pending, "engine_lost", self.usage(content))
        lost = LostLease(self._incarnation, content.last, entry)
        put_back = after_a_loss(self._resumable(content))
        if not await queue.requeue(self._redis, put_back, lost):
            return await self._if_still_lost()
        metrics.TAKEN_OVER.inc()
        log.warning("%s goes on after its engine was lost.", self._request.generation_id)
        return True

    def _end(self, content: Content, *, engine_lost: bool) -> Final | None:
        """Why it can't, or need not, go on."""
        if self._stopped:
            usage = self.usage(content)
            return Finished(content.seq, content.pending, "cancelled", usage)
        if content.trimmed:
            return self._failed(
                content,
                "log_trimmed",
                "The engine was lost, and the beginning of the answer is no longer kept, so that it"
                " could not go on. Ask again.",
            )
        if engine_lost and not may_go_on(self._request):
            return self._failed(content, "engine_lost", ENGINE_LOST)
        return None

    def _failed(self, content: Content, code: str, message: str) -> Failed:
        return Failed(content.seq, code, message, retryable=True, usage=self.usage(content))

    async def _close_lost(self, content: Content, final: Final) -> bool | None:
        holder = leases.holder(self._incarnation, self._request.turn)
        keys = [*self._lease_and_log(), redis_keys.replica(self._incarnation)]
        args = [holder, f"{final.seq}-*", messages.encode(final), settings.LOG_TTL_S]
        if await scripts.run(self._redis, "close_lost", keys, args) != 1:
            return await self._if_still_lost()
        return await self._settle(_with_end(content, final), final)

    def _lease_and_log(self) -> list[str]:
        generation_id = self._request.generation_id
        log_key = redis_keys.log(self._request.tenant_id, generation_id)
        return [redis_keys.lease(generation_id), log_key]

    async def _if_still_lost(self) -> bool | None:
        return None if await registry.lost(self._redis, [self._incarnation]) else False

    async def _conclude_suspension(self, content: Content, entry: Suspended) -> bool | None:
        """It was lost between suspending this in the log and keeping it, or putting it back."""
        lost = entry.reason == "engine_lost"
        if final := self._end(content, engine_lost=lost):
            args = [f"{final.seq}-*", messages.encode(final), settings.LOG_TTL_S]
            args.append(self._request.turn)
            if await scripts.run(self._redis, "end_suspended", self._lease_and_log(), args) != 1:
                return None
            return await self._settle(_with_end(content, final), final)
        request = self._resumable(content)
        if entry.waits_for_reader:
            holder = leases.holder(self._incarnation, self._request.turn)
            suspension = Suspension(request, entry)
            await checkpoints.keep_while_suspended(
                self._redis, suspension, holder, now=self._clock.now()
            )
        else:
            await queue.requeue(self._redis, after_a_loss(request) if lost else request)
        await self._forget()
        return True

    def _resumable(self, content: Content) -> QueuedRequest:
        """The request that goes on from its log."""
        before = self._request.progress
        progress = Progress(
            token_ids=content.token_ids,
            text=content.text + content.pending,
            cached_tokens=self.usage(content).cached_tokens,
            pending=content.pending,
            consumed=before.consumed if before else 0,
        )
        return msgspec.structs.replace(self._request, progress=progress)

    async def _settle(self, text: str, final: Final) -> bool:
        outcome = Outcome(self._request.tenant_id, self._request.generation_id, text, final)
        settled = await database(settle, outcome, now=self._clock.now())
        await self._forget()
        return settled

    async def _forget(self) -> None:
        await registry.settled(self._redis, self._incarnation, self._request)


ENGINE_LOST = (
    "The engine was lost while it was answering, and so were those that took over. What had arrived"
    " is kept; try again."
)


def _with_end(content: Content, final: Final) -> str:
    return content.text + (final.text if isinstance(final, Finished) else "")


def _log_lost(request: QueuedRequest) -> Failed:
    return Failed(
        seq=0,
        code="log_lost",
        message="The answer's log was lost.",
        retryable=True,
        usage=Usage(len(request.engine_request.prompt_token_ids), output_tokens=0),
    )
