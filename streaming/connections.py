"""How many connections receive answers, over all web processes, and the queue for the next slot.

WebSockets and SSE streams are counted apart: per client (a principal), per tenant and in all.
Beyond a limit a new one waits, first come first served among those whose own limits have room, and
is told its place; it is refused only when the queue is full too.

A slot is a lease in Redis, renewed by one task a process for all of its slots, so that those of a
killed process come free. Opening costs one round trip, closing a share of one; no token costs any.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from django.conf import settings

from inference import redis_keys, scripts
from kernel.errors import PlatformError, Unavailable
from kernel.ids import new_id
from kernel.loops import one_per_loop
from kernel.redis import OUTAGE, Client, client, unavailable
from streaming import metrics
from tenants.principal import Principal

log = logging.getLogger(__name__)

Kind = Literal["sse", "websocket"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FOLDER = Path(__file__).resolve().parent / "lua"
# A place is looked at, and its reader given a sign, this often.
WATCH_S = 1.0
OUTAGE_PAUSE_S = 0.5
# Redis does nothing else while it renews so many.
RENEWED_AT_ONCE = 256
LONGEST_RETRY_S = 60
# Each takes a connection to Redis while it is asked for; a crowd is served by few of them.


def limits(kind: Kind) -> list[int]:
    """Connections of a kind at once: in all, of a tenant, of a client."""
    name = {"sse": "SSE_LIMIT", "websocket": "WS_LIMIT"}[kind]
    return [getattr(settings, f"{name}{whose}") for whose in ("", "_PER_TENANT", "_PER_CLIENT")]


class Slot:
    """One connection's slot, or its place in the queue for one.

    place: 1 being next; 0: it has its slot; None: not known yet
    """

    def __init__(self, connections: Connections, kind: Kind, member: str) -> None:
        self.kind = kind
        self.member = member
        self.place: int | None = None
        self._connections = connections
        self._error: PlatformError | None = None
        self._moved = asyncio.Event()
        self._opened_at = asyncio.get_running_loop().time()

    async def turn(self) -> AsyncIterator[int | None]:
        """The place whenever it has changed, None about once a second while it has not; ends when
        this has its slot. Raises Unavailable if the place was lost and the queue is full.
        """
        told: int | None = None
        while self.place:
            yield self.place if self.place != told else None
            told = self.place
            await _within(WATCH_S, self._moved)
        if self._error is not None:
            raise self._error

    def wake(self) -> None:
        """Have `turn` say something now, although nothing has changed."""
        self._moved.set()

    def moved(self, place: int) -> None:
        """What Redis says of it."""
        if place == self.place:
            return
        if self.place is not None and place == 0:
            waited_s = asyncio.get_running_loop().time() - self._opened_at
            metrics.CONNECTION_WAIT.labels(self.kind).observe(waited_s)
        self._count(-1)
        self.place = place
        self._count(1)
        self._moved.set()

    def fail(self, error: PlatformError) -> None:
        self.close()
        self._error = error
        self.place = 0
        self._moved.set()

    def close(self) -> None:
        """Give it up, held or waited for. Never waits, and twice is the same as once."""
        if self._connections.forget(self):
            self._count(-1)

    def _count(self, step: int) -> None:
        if self.place is not None:
            gauge = metrics.CONNECTIONS_WAITING if self.place else metrics.CONNECTIONS
            gauge.labels(self.kind).inc(step)


class Connections:
    """One web process's connections."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._process = new_id("web")
        self._slots: dict[str, Slot] = {}
        self._closed: list[Slot] = []
        self._closing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def take(self, kind: Kind, principal: Principal) -> Slot:
        """A slot, or a place in the queue for one: wait with `turn`. Close it in any case.

        Raises Unavailable `too_many_connections` when the queue is full, or when Redis is away.
        """
        owner = f"{principal.tenant_id}|{principal.name}"
        slot = Slot(self, kind, f"{owner}|{self._process}|{new_id('con')}")
        self._slots[slot.member] = slot
        try:
            slot.moved(await self._ask(slot))
        except OUTAGE as error:
            slot.close()
            raise unavailable() from error
        except BaseException:
            # Redis may have given it one all the same.
            slot.close()
            raise
        finally:
            self._keep_running()
        return slot

    def forget(self, slot: Slot) -> bool:
        """False if it was closed before."""
        if self._slots.pop(slot.member, None) is None:
            return False
        self._release_soon(slot)
        return True

    def _release_soon(self, slot: Slot) -> None:
        self._closed.append(slot)
        self._closing.set()

    async def _ask(self, slot: Slot) -> int:
        place, *facts = await self._run(slot.kind, "take", [slot.member])
        if place >= 0:
            return int(place)
        limit, ahead, freed, span_ms = facts
        metrics.CONNECTIONS_REFUSED.labels(slot.kind, limit.decode()).inc()
        raise Unavailable(
            "Too many connections are open, and the queue for the next one is full.",
            code="too_many_connections",
            retry_after_s=retry_after_s(ahead, freed, span_ms / 1000),
        )

    async def _run(self, kind: Kind, operation: str, members: Sequence[str]) -> Any:
        args = [
            operation,
            *limits(kind),
            settings.CONNECTION_QUEUE,
            int(settings.CONNECTION_LEASE_S * 1000),
            *members,
        ]
        keys = [redis_keys.connections(kind)]
        return await scripts.run(self._redis, "connections", keys, args, folder=FOLDER)

    def _keep_running(self) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        running = {task.get_name() for task in self._tasks}
        for name, loop in {
            "connections-keep": self._keep,
            "connections-watch": self._watch,
        }.items():
            if name not in running:
                self._tasks.append(asyncio.create_task(loop(), name=name))

    async def _keep(self) -> None:
        """Renew the slots that are held, release those that are closed. One task does both, so that
        none is renewed behind its release.
        """
        now = asyncio.get_running_loop().time
        renewed_at = now()
        while self._slots or self._closed:
            await _within(renewed_at + _renewal_s() - now(), self._closing)
            closed, self._closed = self._closed, []
            try:
                await self._each_kind("release", closed)
                if now() >= renewed_at + _renewal_s():
                    renewed_at = now()
                    await self._each_kind(
                        "renew", [s for s in self._slots.values() if s.place == 0]
                    )
            except OUTAGE as error:
                # What could not be released lapses; what is still held is put back later.
                log.warning("Redis is away (keeping connections): %s", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)
            except Exception:
                log.exception("Keeping connections failed.")
                await asyncio.sleep(OUTAGE_PAUSE_S)

    async def _each_kind(self, operation: str, slots: Iterable[Slot]) -> None:
        by_kind: dict[Kind, list[str]] = {}
        for slot in slots:
            by_kind.setdefault(slot.kind, []).append(slot.member)
        for kind, members in by_kind.items():
            rest = iter(members)
            while batch := list(islice(rest, RENEWED_AT_ONCE)):
                await self._run(kind, operation, batch)

    async def _watch(self) -> None:
        """Learn the places of those that wait: at once when one of them gets its slot."""
        while waiting := [slot for slot in self._slots.values() if slot.place]:
            try:
                await self._redis.blpop(self._bells(), timeout=min(WATCH_S, _renewal_s()))
                for kind in {slot.kind for slot in waiting}:
                    await self._look(kind)
            except OUTAGE as error:
                log.warning("Redis is away (waiting connections): %s", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)
            except Exception:
                log.exception("Looking after waiting connections failed.")
                await asyncio.sleep(OUTAGE_PAUSE_S)

    async def _look(self, kind: Kind) -> None:
        waiting = [slot for slot in self._slots.values() if slot.place and slot.kind == kind]
        if not waiting:
            return
        places = await self._run(kind, "watch", [slot.member for slot in waiting])
        for slot, place in zip(waiting, places, strict=True):
            if slot.member not in self._slots:
                continue  # closed meanwhile
            if place >= 0:
                slot.moved(place)
            else:
                await self._ask_again(slot)

    async def _ask_again(self, slot: Slot) -> None:
        """Redis has lost what it knew of it."""
        try:
            place = await self._ask(slot)
        except PlatformError as error:
            slot.fail(error)
            return
        if slot.member in self._slots:
            slot.moved(place)
        else:
            self._release_soon(slot)

    def _bells(self) -> list[str]:
        return [f"{redis_keys.connections(kind)}:bell:{self._process}" for kind in KINDS]


def _renewal_s() -> float:
    return float(settings.CONNECTION_LEASE_S) / 3


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Until the event, which is cleared, or so long. Not `wait_for`: before Python 3.12 that may
    swallow a cancellation.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0, seconds)):
            await event.wait()
    event.clear()


def retry_after_s(waiting: int, freed: int, span_s: float) -> float:
    """When to try again: how long as many slots as are waited for, and one more, take to come free,
    at the rate at which `freed` of them did in the last `span_s` seconds (a minute at most).
    """
    if not freed:
        return LONGEST_RETRY_S
    return min(LONGEST_RETRY_S, (waiting + 1) * span_s / freed)


@one_per_loop
def connections() -> Connections:
    """The running event loop's connections."""
    return Connections(client())
