"""A replica's record in Redis: renewed while it serves, and gone as soon as it doesn't."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import msgspec
from django.conf import settings

from inference import leases, metrics, redis_keys, registry, replica_history
from inference.host import latency_gauges
from inference.host.pace import Pace
from inference.messages import ReplicaRecord
from inference.services import replicas
from kernel.clock import Clock
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

OUTAGE_PAUSE_S = 0.5
# Renewed so often that one renewal may be late and the replica is still heard of.
RENEWALS = 5


class Presence:
    def __init__(self, redis: Client, record: ReplicaRecord, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock
        self._heard_at = float("-inf")
        self._pace = Pace(span_s=replica_history.SPAN_S)
        self.record = msgspec.structs.replace(record, since=self._now_s)

    @property
    def incarnation(self) -> str:
        return self.record.incarnation

    @property
    def pause_s(self) -> float:
        """Between two renewals."""
        return settings.REPLICA_TIMEOUT_S / RENEWALS

    @property
    def is_heard(self) -> bool:
        """False for a process that was stopped, or cut off, for so long that it may count as lost:
        what it took now would be taken from it at once.
        """
        silent_s = asyncio.get_running_loop().time() - self._heard_at
        return bool(silent_s < settings.REPLICA_TIMEOUT_S)

    async def announce_loading(self) -> None:
        """Loading blocks this process for longer than a heartbeat; nothing is leased to it yet that
        could be lost.
        """
        while True:
            try:
                timeout_s = settings.ENGINE_LOAD_TIMEOUT_S
                await registry.renew(self._redis, self.record, timeout_s=timeout_s)
                await replica_history.note(self._redis, self.record, now_s=self._now_s)
            except OUTAGE as error:
                log.warning("Redis is away, loading waits: %s", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)
            else:
                return

    async def renew(self, *, state: str, output_tokens: int, **load: float) -> bool:
        """Tell how it is; whether it had counted as lost meanwhile."""
        began = state != self.record.state
        now = self._clock.monotonic()
        self.record = msgspec.structs.replace(
            self.record,
            state=state,
            since=self._now_s if began else self.record.since,
            output_tokens=output_tokens,
            tokens_per_s=self._pace.beat(output_tokens, now=now),
            **load,
        )
        asked_at = asyncio.get_running_loop().time()
        timeout_s = settings.REPLICA_TIMEOUT_S
        lapsed = await registry.renew(self._redis, self.record, timeout_s=timeout_s)
        latency_gauges.observe(self.record)
        self._heard_at = asked_at
        self._show()
        rate = self._pace.span_ended(output_tokens, now=now)
        if began or rate is not None:
            await replica_history.note(self._redis, self.record, now_s=self._now_s, rate=rate)
        if began and state == "ready":
            await replicas.forget_followed(self._redis, self.record)
        return lapsed

    def _show(self) -> None:
        of_this = self.record.release_name, self.record.replica
        metrics.RUNNING.labels(*of_this).set(self.record.running)
        metrics.HELD.labels(*of_this).set(self.record.held)

    @property
    def _now_s(self) -> float:
        return self._clock.now().timestamp()

    async def taken_over(self, turns: dict[str, int]) -> list[str]:
        """Which of these generations, by id and turn, this replica has no lease of any more."""
        names = list(turns)
        raw = await self._redis.mget([redis_keys.lease(name) for name in names]) if names else []
        return [
            name
            for name, lease in zip(names, raw, strict=True)
            if not (lease or b"").endswith(leases.holder(self.incarnation, turns[name]).encode())
        ]

    async def leave(self, settled: bool) -> None:
        """Without a trace if all is settled; else whoever looks after lost replicas does the
        rest.
        """
        with outage_logged("leaving"):
            # A request whose claim was on its way when this host stopped has never run here.
            if settled and not await registry.unsettled(self._redis, self.incarnation):
                await registry.leave(self._redis, self.incarnation)
            else:
                await registry.lose(self._redis, self.incarnation)


@contextlib.contextmanager
def outage_logged(what: str) -> Iterator[None]:
    """Redis being away for a while is no reason to stop: it is logged and the loop goes on."""
    try:
        yield
    except OUTAGE as error:
        log.warning("Redis is away (%s): %s", what, error)
