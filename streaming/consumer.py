"""The chat's WebSocket: messages in, events out, each answer streamed in a task that this socket
owns.

Channels awaits a handler before it hands over the next message, the disconnect included; so
handlers only start tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import AnonymousUser

from inference.messages import Finished
from inference.pipeline.admission import Admitted
from inference.services import catalog, generations
from kernel.clock import SystemClock
from kernel.database import database
from kernel.errors import BadRequest, PlatformError
from kernel.redis import OUTAGE
from streaming import answer, events
from streaming.answer import Frame
from streaming.events import Send, Stop
from streaming.services.asking import ask, say
from streaming.services.sessions import SignedOut, principal_of_session
from tenants.principal import Principal
from web.errors import as_platform_error

log = logging.getLogger(__name__)

CLOCK = SystemClock()
NOT_SIGNED_IN = 4401
NO_TENANT = 4403
MODELS_POLL_S = 1.0
ANSWERS_AT_ONCE = 8


class ChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[str, Admitted] = {}
        self._asked = 0

    async def connect(self) -> None:
        await self.accept()
        if isinstance(self.scope["user"], AnonymousUser):
            await self.close(NOT_SIGNED_IN)
            return
        try:
            await self._principal()
        except PlatformError:
            await self.close(NO_TENANT)
            return
        self._start(self._watch_models())

    async def disconnect(self, code: int) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        frame = text_data or ""
        try:
            message = events.parse(frame)
        except BadRequest as error:
            await self._emit(events.failed(error, ref=events.ref_of(frame)))
            return
        if isinstance(message, Stop):
            self._start(self._stop(message))
        elif self._asked >= ANSWERS_AT_ONCE:
            busy = BadRequest("Too many answers at once.", code="too_many_answers")
            await self._emit(events.failed(busy, ref=message.ref))
        else:
            self._asked += 1
            self._start(self._answer(message))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _principal(self) -> Principal:
        """Who this socket speaks for, asked anew each time: the session may have ended since it was
        opened.
        """
        return await database(principal_of_session, self.scope["session"].session_key)

    async def _emit(self, event: events.Event) -> None:
        await self.send(text_data=events.encode(event))

    async def _watch_models(self) -> None:
        known = None
        while True:
            try:
                models = await catalog.model_states()
            except OUTAGE:
                models = await catalog.all_down()
            if models != known:
                greet = events.hello if known is None else events.models_changed
                await self._emit(greet(models))
                known = models
            await asyncio.sleep(MODELS_POLL_S)

    async def _stop(self, message: Stop) -> None:
        admitted = self._answers.get(message.generation)
        if admitted is not None:
            await generations.cancel(admitted, CLOCK)

    async def _answer(self, message: Send) -> None:
        try:
            await self._say_and_answer(message)
        finally:
            self._asked -= 1

    async def _say_and_answer(self, message: Send) -> None:
        told: dict[str, Any] = {"ref": message.ref}
        try:
            principal = await self._principal()
            said = await say(message, principal, CLOCK)
            told["conversation"] = {"id": said.id, "title": said.heading}
            admitted = await ask(message, principal, said, CLOCK)
            told["generation"] = admitted.generation_id
            await self._stream(message, told["conversation"], admitted)
        except SignedOut:
            await self.close(NOT_SIGNED_IN)
        except Exception as error:  # noqa: BLE001 - told to the client, and logged where unforeseen
            await self._emit(events.failed(as_platform_error(error), **told))

    async def _stream(
        self, message: Send, conversation: dict[str, str], admitted: Admitted
    ) -> None:
        generation_id = admitted.generation_id
        self._answers[generation_id] = admitted
        try:
            async with answer.reading(admitted, CLOCK, transport="websocket") as frames:
                accepted = events.accepted(
                    message.ref,
                    conversation=conversation,
                    generation=generation_id,
                    model=admitted.model,
                )
                await self._emit(accepted)
                await self._emit_frames(admitted, frames)
        finally:
            del self._answers[generation_id]

    async def _emit_frames(self, admitted: Admitted, frames: AsyncIterator[Frame | None]) -> None:
        started, known_place = False, None
        async for frame in frames:
            if frame is not None:
                started |= frame.started
                await self._emit_frame(admitted.generation_id, frame)
            if not started:
                known_place = await self._emit_place(admitted, known_place)

    async def _emit_frame(self, generation_id: str, frame: Frame) -> None:
        if frame.text:
            await self._emit(events.tokens(generation_id, frame.seq, frame.text))
        if isinstance(frame.final, Finished):
            await self._emit(events.finished(generation_id, frame.final))

    async def _emit_place(self, admitted: Admitted, known: int | None) -> int | None:
        place = await answer.place(admitted)
        if place is not None and place != known:
            await self._emit(events.waiting(admitted.generation_id, place))
        return place
