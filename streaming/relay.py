"""The relay: token logs to readers, with one blocking read a web process.

Readers pull by position. While a reader waits at the end of its log, what arrives is handed to it;
while it is busy with its client, what arrives stays in the log and the reader fetches it from there
when it comes back. So a slow reader costs no memory here, and replay and live are the same read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

from inference import redis_keys, registry, token_log
from inference.messages import Failed, Finished
from inference.services import recovery
from inference.token_log import BEGINNING, LogEntry, Position, as_id, parse
from kernel.clock import SystemClock
from kernel.errors import PlatformError, Unavailable
from kernel.ids import new_id
from kernel.redis import OUTAGE, Client, client, unavailable

log = logging.getLogger(__name__)

# Well below the socket's timeout, or an idle read looks like an outage.
BLOCK_MS = 2_000
ENTRIES_AT_ONCE = 256
CHECK_S = 1.0
OUTAGE_PAUSE_S = 0.5


class _Tail:
    """The end of one log, as far as this process has read it, and the readers that wait there."""

    def __init__(self, tenant_id: str, generation_id: str, position: Position) -> None:
        self.tenant_id = tenant_id
        self.generation_id = generation_id
        self.position = position
        self.readers = 0
        self.quiet = False
        self._arrival: asyncio.Future[list[LogEntry]] | None = None

    async def next(self) -> list[LogEntry]:
        """The entries that arrive next; none when the log has been quiet for a while. Raises
        PlatformError.
        """
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._arrival)

    def arrived(self, entries: list[LogEntry]) -> None:
        self.position = entries[-1].position
        self.quiet = False
        if arrival := self._take():
            arrival.set_result(entries)

    def stayed_quiet(self) -> None:
        if arrival := self._take():
            arrival.set_result([])

    def fail(self, error: PlatformError) -> None:
        if arrival := self._take():
            arrival.set_exception(error)
            # Its reader may have left meanwhile; then nobody has to hear of it.
            arrival.exception()

    def _take(self) -> asyncio.Future[list[LogEntry]] | None:
        arrival, self._arrival = self._arrival, None
        return arrival if arrival is not None and not arrival.done() else None


class Relay:
    """One web process's reading of token logs."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._tails: dict[str, _Tail] = {}
        self._wake_key = redis_keys.reader_wake(new_id("rdr"))
        self._wake_id = "0-0"
        self._tasks: list[asyncio.Task[None]] = []

    async def follow(
        self, tenant_id: str, generation_id: str, *, after: Position = BEGINNING
    ) -> AsyncGenerator[list[LogEntry], None]:
        """Entries behind `after` in batches, until the last one. Everything that has piled up comes
        in one batch.

        While nothing happens, an empty batch comes about once a second: time for a heartbeat.
        Raises Unavailable when Redis or the log is gone.
        """
        key = redis_keys.log(tenant_id, generation_id)
        tail = await self._join(key, tenant_id, generation_id, after)
        position = after
        try:
            while True:
                entries = await self._entries(key, tail, position)
                if entries:
                    position = entries[-1].position
                yield entries
                if entries and isinstance(entries[-1].entry, Finished | Failed):
                    return
        finally:
            self._part(key, tail)

    async def _entries(self, key: str, tail: _Tail, position: Position) -> list[LogEntry]:
        # Of what is handed out next, a reader that was faster by itself has had a part.
        while tail.position <= position:
            arrived = await tail.next()
            entries = [entry for entry in arrived if entry.position > position]
            if entries or not arrived:
                return entries
        try:
            entries = await token_log.read(self._redis, key, after=position, count=ENTRIES_AT_ONCE)
        except OUTAGE as error:
            raise unavailable() from error
        if not entries:
            raise _log_gone()
        return entries

    async def _join(self, key: str, tenant_id: str, generation_id: str, after: Position) -> _Tail:
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = _Tail(tenant_id, generation_id, after)
            self._keep_running()
        tail.readers += 1
        try:
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.xadd(self._wake_key, {"w": "1"}, maxlen=1)
            pipeline.expire(self._wake_key, 3600)
            await pipeline.execute()
        except OUTAGE as error:
            self._part(key, tail)
            raise unavailable() from error
        return tail

    def _part(self, key: str, tail: _Tail) -> None:
        tail.readers -= 1
        if tail.readers == 0 and self._tails.get(key) is tail:
            del self._tails[key]

    def _keep_running(self) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        running = {task.get_name() for task in self._tasks}
        for name, loop in (("relay-read", self._read), ("relay-check", self._check)):
            if name not in running:
                self._tasks.append(asyncio.create_task(loop(), name=name))

    async def _read(self) -> None:
        while self._tails:
            tails = dict(self._tails)
            streams = {key: as_id(tail.position) for key, tail in tails.items()}
            streams[self._wake_key] = self._wake_id
            try:
                replies = await self._redis.xread(streams, count=ENTRIES_AT_ONCE, block=BLOCK_MS)
            except OUTAGE as error:
                log.warning("Redis is away, %d streams break off: %s", len(self._tails), error)
                for tail in list(self._tails.values()):
                    tail.fail(unavailable())
                await asyncio.sleep(OUTAGE_PAUSE_S)
                continue
            self._deliver(replies, tails)

    def _deliver(self, replies: Any, tails: dict[str, _Tail]) -> None:
        """tails: those that were read. A log that was joined anew since starts somewhere else."""
        for raw_key, raw_entries in _pairs(replies):
            key = raw_key.decode()
            if key == self._wake_key:
                self._wake_id = raw_entries[-1][0].decode()
            elif self._tails.get(key) is tails[key]:
                tails[key].arrived(parse(raw_entries))

    async def _check(self) -> None:
        """Find out why a log is quiet: its replica may be lost, or the log itself."""
        while self._tails:
            await asyncio.sleep(CHECK_S)
            quiet = [tail for tail in self._tails.values() if tail.quiet]
            for tail in self._tails.values():
                tail.quiet = True
            for tail in quiet:
                tail.stayed_quiet()
            if quiet:
                try:
                    await self._check_quiet(quiet)
                except OUTAGE as error:
                    log.warning("Redis is away (checking replicas): %s", error)
                except Exception:
                    # The database may be away; whoever waits for this check goes on waiting.
                    log.exception("Checking quiet logs failed.")

    async def _check_quiet(self, quiet: list[_Tail]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for tail in quiet:
            pipeline.get(redis_keys.lease(tail.generation_id))
            pipeline.exists(redis_keys.log(tail.tenant_id, tail.generation_id))
        replies = await pipeline.execute()
        holders = set()
        for tail, holder, exists in zip(quiet, replies[::2], replies[1::2], strict=True):
            if not exists:
                tail.fail(_log_gone())
            if holder is not None and not holder.startswith(b"closed:"):
                holders.add(holder.decode())
        if lost := await registry.lost(self._redis, holders):
            log.warning("Lost replicas: %s", ", ".join(sorted(lost)))
            await recovery.close_lost(self._redis, SystemClock(), lost)


def _pairs(replies: Any) -> list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]:
    """XREAD's reply in redis-py's two shapes, by protocol version."""
    if isinstance(replies, dict):
        return [(key, [e for batch in value for e in batch]) for key, value in replies.items()]
    return list(replies or [])


def _log_gone() -> Unavailable:
    return Unavailable("The answer's log is gone. Ask again.", code="log_lost")


_relays: WeakKeyDictionary[asyncio.AbstractEventLoop, Relay] = WeakKeyDictionary()


def relay() -> Relay:
    """The running event loop's relay."""
    loop = asyncio.get_running_loop()
    if loop not in _relays:
        _relays[loop] = Relay(client())
    return _relays[loop]
