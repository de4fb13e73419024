"""The chat's WebSocket: messages in, events out, each answer streamed in a task that this socket
owns.

Channels awaits a handler before it hands over the next message, the disconnect included; so
handlers only start tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.auth.models import AnonymousUser

from inference.pipeline.admission import Admitted
from inference.services import generations
from inference.services.catalog import ModelState
from inference.token_log import BEGINNING, Position
from kernel.clock import SystemClock
from kernel.database import database
from kernel.errors import BadRequest, PlatformError, Unavailable
from streaming import answer, events, model_states
from streaming.answer import Answer, Stopwatch
from streaming.connections import Slot, connections
from streaming.draining import Drain, Restarting
from streaming.events import Ack, Message, Ping, Resume, Send, Stop
from streaming.open_sessions import open_sessions
from streaming.resuming import resume
from streaming.services.asking import ask, asked_before, say
from streaming.services.sessions import SignedOut, principal_of_session
from streaming.waiting import QueueWatch
from tenants.access import Access
from tenants.principal import Principal
from web.errors import as_platform_error

log = logging.getLogger(__name__)

CLOCK = SystemClock()
NOT_SIGNED_IN = 4401
NO_TENANT = 4403
RESTARTING = 1012
TRY_AGAIN_LATER = 1013
MODELS_POLL_S = 1.0
ANSWERS_AT_ONCE = 8


class ClientLeft(Exception):
    """Something was sent to a client that isn't there any more."""


class ChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    # Joins no group: a channel of its own would cost a subscription in Redis, and a handshake that
    # fails while Redis is away.
    channel_layer_alias = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[str, Answer] = {}
        self._asked = 0
        self._slot: Slot | None = None
        self._access: Access | None = None
        self._kept = ExitStack()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """However it ends, nothing stays: a handler that sends to a client who has left breaks
        off, and `disconnect` is never called.
        """
        try:
            await super().__call__(scope, receive, send)
        except ClientLeft:
            log.debug("A chat's client left while something was sent to it.")
        finally:
            await self._free()

    async def connect(self) -> None:
        self._drain = Drain(self.scope)
        await self.accept()
        if isinstance(self.scope["user"], AnonymousUser):
            await self._close(NOT_SIGNED_IN)
            return
        try:
            principal = await self._principal()
        except PlatformError as error:
            signed_out = isinstance(error, SignedOut)
            await self._close(NOT_SIGNED_IN if signed_out else NO_TENANT)
            return
        try:
            self._slot = await connections().take("websocket", principal)
        except PlatformError as error:
            await self._refuse(error)
            return
        session = self.scope["session"]
        mark = str(session.get(HASH_SESSION_KEY, ""))
        self._access = open_sessions().access(session.session_key, mark, principal)
        self._kept.enter_context(self._access.kept(self._access_ended))
        self._start(self._greet(self._slot))

    def _access_ended(self) -> None:
        self._start(self._dismiss(list(self._answers.values())))

    async def _dismiss(self, readings: list[Answer]) -> None:
        """Nothing more comes through here; what is being answered is told why."""
        access = self._access
        assert access is not None  # noqa: S101 - whose end this is
        assert access.error is not None  # noqa: S101 - it has ended
        if access.is_withdrawn:
            for reading in readings:
                answer.end_soon(reading.admitted, CLOCK)
        await self._cancel_tasks()
        for reading in readings:
            generation_id = reading.admitted.generation_id
            await self._emit(events.failed(access.error, generation=generation_id))
        signed_out = access.error.code == SignedOut.code
        await self._close(NOT_SIGNED_IN if signed_out else NO_TENANT)

    async def _greet(self, slot: Slot) -> None:
        try:
            async for place in slot.turn():
                self._drain.check_begun()
                if place is not None:
                    await self._emit(events.connection_queued(place))
        except Restarting:
            await self._close(RESTARTING)
            return
        except PlatformError as error:
            await self._refuse(error)
            return
        await self._watch_models()

    async def _refuse(self, error: PlatformError) -> None:
        await self._emit(events.failed(error))
        await self._close(TRY_AGAIN_LATER)

    async def disconnect(self, code: int) -> None:
        await self._free()

    async def _free(self) -> None:
        self._kept.close()
        if self._slot is not None:
            self._slot.close()
        await self._cancel_tasks()

    async def _cancel_tasks(self) -> None:
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        frame = text_data or ""
        try:
            message = events.parse(frame)
        except BadRequest as error:
            await self._emit(events.failed(error, ref=events.ref_of(frame)))
            return
        await self._handle(message)

    async def _handle(self, message: Message) -> None:
        if isinstance(message, Ack):
            if reading := self._answers.get(message.generation):
                reading.has_read(message.seq)
        elif isinstance(message, Ping):
            await self._emit(events.pong(message.ref))
        elif isinstance(message, Stop):
            self._asked += 1
            self._start(self._telling_errors(message, self._stop))
        elif self._slot is None or self._slot.place:
            waits = Unavailable("This connection waits for its turn.", code="connection_queued")
            await self._emit(events.failed(waits, ref=message.ref))
        elif self._asked >= ANSWERS_AT_ONCE:
            busy = BadRequest("Too many answers at once.", code="too_many_answers")
            await self._emit(events.failed(busy, ref=message.ref))
        else:
            self._asked += 1
            work = self._resume if isinstance(message, Resume) else self._answer
            self._start(self._telling_errors(message, work))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ClientLeft):
            log.error("A chat's task failed.", exc_info=error)

    async def _principal(self) -> Principal:
        """Who this socket speaks for, asked anew each time: the session may have ended since it was
        opened.
        """
        principal = await database(principal_of_session, self.scope["session"].session_key)
        if self._access is not None:
            # In the session another tenant may have been chosen.
            self._access.principal = principal
        return principal

    async def _emit(self, event: events.Event) -> None:
        try:
            await self.send(text_data=events.encode(event))
        except OSError as error:
            raise ClientLeft from error

    async def _close(self, code: int) -> None:
        try:
            await self.close(code)
        except OSError as error:
            raise ClientLeft from error

    async def _watch_models(self) -> None:
        known: list[ModelState] | None = None
        while True:
            models = await model_states.now_or(known)
            if self._drain.has_begun and not self._asked:
                await self._close(RESTARTING)
                return
            if models is not None and models != known:
                greet = events.hello if known is None else events.models_changed
                await self._emit(greet(models))
                known = models
            await asyncio.sleep(MODELS_POLL_S)

    async def _telling_errors(self, message: Send | Resume | Stop, work: Any) -> None:
        """told: what an error says beside itself, as far as the work has got."""
        told: dict[str, Any] = {} if isinstance(message, Stop) else {"ref": message.ref}
        try:
            await work(message, told)
        except ClientLeft:
            raise
        except SignedOut:
            await self._close(NOT_SIGNED_IN)
        except Restarting:
            await self._close(RESTARTING)
        except Exception as error:  # noqa: BLE001 - told to the client, and logged where unforeseen
            await self._emit(events.failed(as_platform_error(error), **told))
        finally:
            self._asked -= 1

    async def _answer(self, message: Send, told: dict[str, Any]) -> None:
        principal = await self._principal()
        before = await asked_before(message, principal, CLOCK)
        said = before.conversation if before else await say(message, principal, CLOCK)
        told["conversation"] = {"id": said.id, "title": said.heading}
        admitted = before.admitted if before else await ask(message, principal, said, CLOCK)
        told["generation"] = admitted.generation_id
        accepted = events.accepted(
            message.ref,
            conversation=told["conversation"],
            generation=admitted.generation_id,
            model=admitted.model,
        )
        stopwatch = None if before else Stopwatch(admitted, CLOCK, "websocket")
        await self._stream(admitted, BEGINNING, accepted, stopwatch)

    async def _stop(self, message: Stop, told: dict[str, Any]) -> None:
        reading = self._answers.get(message.generation)
        if reading is None:
            admitted = await generations.find(await self._principal(), message.generation)
        else:
            admitted = reading.admitted
        # Once said, a stop holds, though the socket closes right behind it.
        await asyncio.shield(generations.cancel(admitted, CLOCK))

    async def _resume(self, message: Resume, told: dict[str, Any]) -> None:
        told["generation"] = message.generation
        found = await resume(await self._principal(), message.generation, message.after_seq)
        # From here to its place among the answers nothing waits, so of two only one gets there.
        if message.generation in self._answers:
            # The one that it receives has not ended.
            del told["generation"]
            raise BadRequest("This socket receives that answer already.", code="already_reading")
        admitted = _with_mark(found.admitted, message.high_water_tokens)
        resumed = events.resumed(
            message.ref,
            generation=message.generation,
            seq=message.after_seq,
            model=admitted.model,
        )
        await self._stream(admitted, found.after, resumed, None)

    async def _stream(
        self,
        admitted: Admitted,
        after: Position,
        greeting: events.Event,
        stopwatch: Stopwatch | None,
    ) -> None:
        reading_it = answer.reading(
            admitted, CLOCK, transport="websocket", after=after, drain=self._drain
        )
        async with reading_it as reading:
            self._answers[admitted.generation_id] = reading
            try:
                await self._emit(greeting)
                await self._emit_frames(reading, stopwatch)
            finally:
                self._answers.pop(admitted.generation_id, None)

    async def _emit_frames(self, reading: Answer, stopwatch: Stopwatch | None) -> None:
        generation_id = reading.admitted.generation_id
        watch = QueueWatch(reading.admitted)
        async for frame in reading:
            if frame is not None:
                watch.saw(frame)
                if stopwatch:
                    stopwatch.saw(frame)
                for event in events.of_frame(generation_id, frame):
                    await self._emit(event)
            elif queued := await watch.changed():
                await self._emit(events.queued(generation_id, queued))


def _with_mark(admitted: Admitted, high_water_tokens: int | None) -> Admitted:
    """A client may ask for a lower mark than it may have, never a higher one."""
    mark = admitted.high_water_tokens
    wanted = mark if high_water_tokens is None else min(mark, high_water_tokens)
    return replace(admitted, high_water_tokens=wanted)
