"""A replica's record in Redis: renewed while it serves, and gone as soon as it doesn't."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import msgspec
from django.conf import settings

from inference import leases, redis_keys, registry
from inference.messages import ReplicaRecord
from kernel.redis import OUTAGE, Client

log = logging.getLogger(__name__)

OUTAGE_PAUSE_S = 0.5
# Renewed so often that one renewal may be late and the replica is still heard of.
RENEWALS = 5


class Presence:
    def __init__(self, redis: Client, record: ReplicaRecord) -> None:
        self._redis = redis
        self._heard_at = float("-inf")
        self.record = record

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
            except OUTAGE as error:
                log.warning("Redis is away, loading waits: %s", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)
            else:
                return

    async def renew(self, **changes: object) -> bool:
        """Tell what has changed in the record; whether it had counted as lost meanwhile."""
        record = msgspec.structs.replace(self.record, **changes)
        asked_at = asyncio.get_running_loop().time()
        timeout_s = settings.REPLICA_TIMEOUT_S
        lapsed = await registry.renew(self._redis, record, timeout_s=timeout_s)
        self._heard_at = asked_at
        return lapsed

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
