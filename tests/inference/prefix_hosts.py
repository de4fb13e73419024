"""Replicas that ask the queue for work, without engines, by a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings

from inference import claiming, queue, redis_keys, registry
from inference.claiming import Claimed, Left
from inference.messages import QueuedRequest, ReplicaRecord
from kernel.redis import Client
from tests.inference.making import START, request

RELEASE = "rel_a"


@dataclass(slots=True)
class Hosts:
    """room: how many more each replica can take; taken: by whom each generation was, in order"""

    redis: Client
    now_us: int = int(START.timestamp()) * 1_000_000
    room: dict[str, int] = field(default_factory=dict)
    taken: list[tuple[str, str]] = field(default_factory=list)

    async def there(self, incarnation: str, *, room: int = 4, state: str = "ready") -> None:
        """It is heard of; what it has room for the queue learns when it asks."""
        record = ReplicaRecord(incarnation, incarnation, RELEASE, "fake", state)
        await registry.renew(self.redis, record, timeout_s=3600)
        self.room[incarnation] = room

    async def lose(self, incarnation: str) -> None:
        await registry.lose(self.redis, incarnation)
        del self.room[incarnation]

    async def arrive(self, *prompt: int, tenant: str = "ten_a") -> QueuedRequest:
        asked = request(tenant, prompt=prompt)
        self.now_us += 1
        await queue.enqueue(self.redis, asked, now_us=self.now_us)
        return asked

    async def ask(self, incarnation: str) -> Claimed | Left | None:
        reply = await claiming.claim_or_leave(
            self.redis,
            RELEASE,
            incarnation,
            room=self.room[incarnation],
            prefixes_kept=64,
            now_us=self.now_us,
        )
        if isinstance(reply, Claimed):
            self.room[incarnation] -= 1
            self.taken.append((incarnation, reply.request.generation_id))
        return reply

    async def served(self, incarnation: str, *prompt: int, tenant: str = "ten_a") -> None:
        """It has had this prompt, has ended it, and waits for more."""
        asked = await self.arrive(*prompt, tenant=tenant)
        taken = await queue.claim(self.redis, RELEASE, incarnation, now_us=self.now_us)
        assert taken == asked
        await registry.settled(self.redis, incarnation, asked)
        await self.waits(incarnation)

    async def waits(self, incarnation: str) -> None:
        """It has asked while there was nothing."""
        assert await self.ask(incarnation) is None

    async def ended(self, incarnation: str, asked: QueuedRequest) -> None:
        await registry.settled(self.redis, incarnation, asked)
        self.room[incarnation] += 1

    async def is_called(self, incarnation: str) -> bool:
        return bool(await self.redis.llen(redis_keys.host_bell(incarnation)))

    async def following(self) -> str | None:
        """Whose turn it is."""
        seen: list[str] = []

        def looks(asked: QueuedRequest) -> bool:
            seen.append(asked.generation_id)
            return False

        await queue.claim(self.redis, RELEASE, "inc_nobody", takes=looks, now_us=self.now_us)
        return seen[0] if seen else None

    def pass_ms(self, milliseconds: float) -> None:
        self.now_us += round(milliseconds * 1000)


def longest_us() -> int:
    return round(settings.PREFIX_WAIT_MS * 1000)
