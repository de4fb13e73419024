"""How many requests a host may take now and of which priority classes, and waiting until it may."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from django.conf import settings

from inference import queue
from inference.engine.protocol import Engine
from inference.host.presence import Presence
from inference.host.runner import Runner
from kernel.redis import Client
from tenants.priority import CLASSES, PriorityClass

BLOCK_S = 1.0
FULL_PAUSE_S = 0.005
# Who is next may change while there is no room for who is.
NO_ROOM_LOOKS = 10


@dataclass(frozen=True, slots=True)
class Room:
    """at_once: how many, whichever of the classes they are; none without a class"""

    at_once: int
    classes: tuple[PriorityClass, ...]

    def __bool__(self) -> bool:
        return self.at_once > 0


NONE = Room(0, ())


class Rooms:
    def __init__(
        self, redis: Client, release_id: str, engine: Engine, runner: Runner, presence: Presence
    ) -> None:
        self._redis = redis
        self._release_id = release_id
        self._engine = engine
        self._runner = runner
        self._presence = presence
        self._is_without = False

    def now(self) -> Room:
        """What the engine prefills in its next step waits for nobody in it, however many they are;
        beyond that the queue is the fairer place to wait. So it is beyond what objectives allow.
        """
        if not self._presence.is_heard:
            return NONE
        load, depth = self._engine.load(), int(settings.ENGINE_QUEUE_DEPTH)
        fits_a_step = load.waiting_tokens < settings.ENGINE_STEP_TOKENS
        most = depth if fits_a_step else depth - load.waiting
        most = min(most, settings.ENGINE_MAX_RUNNING - len(self._runner))
        rooms = self._runner.latency.room() if most > 0 else {}
        if not rooms:
            return NONE
        # However they come mixed, none is one too many for the tightest of these.
        return Room(min(most, *rooms.values()), tuple(rooms))

    async def some(self, leaving: asyncio.Event) -> Room:
        """Wait for room; none when nothing is to be taken any more."""
        while not leaving.is_set():
            # Asked once: it may have changed when it is asked again, and none means to leave.
            if found := self.now():
                return found
            # Room comes from the engine, which tells nobody.
            await asyncio.sleep(FULL_PAUSE_S)
        return NONE

    async def more(self, room: Room) -> None:
        """After less was there than there was room for: wait until something may have come, or for
        room for what is next. Raises what Redis raises.
        """
        waits = None
        if len(room.classes) < len(CLASSES):
            waits = await queue.next_class(self._redis, self._release_id)
        if waits is None or waits in room.classes:
            self._is_without = False
            await queue.wait_for_arrival(self._redis, self._release_id, timeout_s=BLOCK_S)
            return
        if not self._is_without:
            # It may be this host that was woken for it, and another that has room.
            await queue.ring(self._redis, self._release_id)
        self._is_without = True
        await self._of(waits)

    async def _of(self, priority_class: PriorityClass) -> None:
        """Wait for room for one of that class, not for long."""
        self._runner.latency.waits(priority_class)
        for _ in range(NO_ROOM_LOOKS):
            await asyncio.sleep(FULL_PAUSE_S)
            if priority_class in self.now().classes:
                return
