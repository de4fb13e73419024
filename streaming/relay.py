"""The relay: token logs to readers, with one blocking read a web process.

Readers pull by position. While a reader waits at the end of its log, what arrives is handed to it;
while it is busy with its client, what arrives stays in the log and the reader fetches it from there
when it comes back. So a slow reader costs no memory here, and replay and live are the same read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec

from inference import control, gathering, leases, redis_keys, registry, token_log
from inference.messages import Control, Failed, Finished, Left
from inference.services import checkpoints, takeover
from inference.token_log import BEGINNING, LogEntry, Position, as_id, parse
from kernel import together
from kernel.clock import SystemClock
from kernel.errors import InternalError, Unavailable
from kernel.ids import new_id
from kernel.loops import one_per_loop
from kernel.redis import OUTAGE, Client, client, unavailable
from streaming.reading import Reader
from streaming.tail import Tail

log = logging.getLogger(__name__)

# Well below the socket's timeout, or an idle read looks like an outage.
BLOCK_MS = 2_000
ENTRIES_AT_ONCE = 256
CHECK_S = 1.0
# Positions are gathered for this long.
TELL_S = 0.05
OUTAGE_PAUSE_S = 0.5
WAKE_TTL_S = 3600


class Relay:
    """One web process's reading of token logs."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._tails: dict[str, Tail] = {}
        self._id = new_id("rdr")
        self._wake_key = redis_keys.reader_wake(self._id)
        self._left: list[Tail] = []
        self._wake_id = "0-0"
        # Whether a log was joined since the blocking read began.
        self._unread = False
        self._waking: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def follow(
        self,
        tenant_id: str,
        generation_id: str,
        *,
        reader: Reader,
        after: Position = BEGINNING,
        waits: bool = False,
    ) -> AsyncGenerator[list[LogEntry], None]:
        """Entries behind `after` in batches, until the last one. Everything that has piled up comes
        in one batch.

        While nothing happens, an empty batch comes about once a second: time for a heartbeat.
        How far `reader` has read is told to the replica while this runs; a generation that was
        suspended for want of a reader goes on. Raises Unavailable when Redis or the log is gone.

        waits: it has just been queued, so that its log will tell who takes it
        """
        tail = await self._join(Tail(tenant_id, generation_id, after), reader, waits=waits)
        position = after
        try:
            while True:
                entries = await self._entries(tail, position)
                if entries:
                    position = entries[-1].position
                yield entries
                if entries and isinstance(entries[-1].entry, Finished | Failed):
                    return
        finally:
            self._part(tail, reader)

    def wake(self, tenant_id: str, generation_id: str) -> None:
        """Give those who wait at the end of this log an empty batch now."""
        if tail := self._tails.get(redis_keys.log(tenant_id, generation_id)):
            tail.stayed_quiet()

    async def _entries(self, tail: Tail, position: Position) -> list[LogEntry]:
        # Of what is handed out next, a reader that was faster by itself has had a part.
        while tail.position <= position:
            arrived = await tail.next()
            entries = [entry for entry in arrived if entry.position > position]
            if entries or not arrived:
                return entries
        try:
            entries = await token_log.read(
                self._redis, tail.key, after=position, count=ENTRIES_AT_ONCE
            )
        except OUTAGE as error:
            raise unavailable() from error
        if not entries:
            raise _log_gone()
        return entries

    async def _join(self, new: Tail, reader: Reader, *, waits: bool) -> Tail:
        tail = self._tails.setdefault(new.key, new)
        tail.readers.append(reader)
        self._keep_running()
        self._wake()
        try:
            if not waits:
                key = redis_keys.lease(tail.generation_id)
                await self._look_at_lease(tail, await together.send(self._redis, "GET", key))
        except BaseException as error:
            # Also when its client has left meanwhile: nobody would take it away any more.
            self._part(tail, reader)
            if isinstance(error, OUTAGE):
                raise unavailable() from error
            raise
        return tail

    def _wake(self) -> None:
        """Have the blocking read begin again, with every log; once for all that join just now, and
        not at all where it does so by itself.
        """
        self._unread = True
        if self._waking is None or self._waking.done():
            self._waking = asyncio.create_task(self._send_wakes(), name="relay-wake")

    async def _send_wakes(self) -> None:
        while self._unread:
            self._unread = False
            woken = together.send(self._redis, "XADD", self._wake_key, "MAXLEN", 1, "*", "w", "1")
            lasts = together.send(self._redis, "EXPIRE", self._wake_key, WAKE_TTL_S)
            # Unheard, the read begins again after BLOCK_MS; and with Redis away, it tells.
            with contextlib.suppress(*OUTAGE):
                await woken
                await lasts

    def _part(self, tail: Tail, reader: Reader) -> None:
        # By identity: two readers may be at the same place.
        tail.readers = [other for other in tail.readers if other is not reader]
        if not tail.readers and self._tails.get(tail.key) is tail:
            del self._tails[tail.key]
            self._left.append(tail)

    async def _look_at_lease(self, tail: Tail, holder: bytes | None) -> str | None:
        """Who makes the answer at present; one that waits for a reader has found it."""
        if incarnation := leases.runs_at(holder):
            tail.held_by(incarnation)
            return incarnation
        # One that does not read on is why it was suspended.
        is_read = tail.has_reader(now=asyncio.get_running_loop().time())
        if is_read and (holder or b"").startswith(leases.SUSPENDED.encode()):
            await checkpoints.go_on(self._redis, tail.tenant_id, tail.generation_id)
        return None

    def _keep_running(self) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        running = {task.get_name() for task in self._tasks}
        loops = {"relay-read": self._read, "relay-check": self._check, "relay-tell": self._tell}
        for name, loop in loops.items():
            if name not in running:
                self._tasks.append(asyncio.create_task(loop(), name=name))

    async def _read(self) -> None:
        while self._tails:
            tails = dict(self._tails)
            streams = {key: as_id(tail.position) for key, tail in tails.items() if not tail.broken}
            streams[self._wake_key] = self._wake_id
            self._unread = False
            try:
                replies = await self._redis.xread(streams, count=ENTRIES_AT_ONCE, block=BLOCK_MS)
            except OUTAGE as error:
                log.warning("Redis is away, %d streams break off: %s", len(self._tails), error)
                for tail in list(self._tails.values()):
                    tail.fail(unavailable())
                await asyncio.sleep(OUTAGE_PAUSE_S)
                continue
            self._deliver(replies, tails)
            if pause_s := gathering.pause_s(len(replies or [])):
                await asyncio.sleep(pause_s)

    def _deliver(self, replies: Any, tails: dict[str, Tail]) -> None:
        """tails: those that were read. A log that was joined anew since starts somewhere else."""
        for raw_key, raw_entries in replies or []:
            key = raw_key.decode()
            if key == self._wake_key:
                self._wake_id = raw_entries[-1][0].decode()
            elif self._tails.get(key) is tails[key]:
                try:
                    tails[key].arrived(parse(raw_entries))
                except msgspec.MsgspecError:
                    log.exception("%s can't be read.", key)
                    tails[key].break_off(_unreadable())

    async def _tell(self) -> None:
        """Tell replicas how far their readers are and who has left, all in one round trip."""
        while self._tails or self._left:
            await asyncio.sleep(TELL_S)
            by_incarnation: dict[str, list[Control]] = {}
            for incarnation, message in self._news():
                by_incarnation.setdefault(incarnation, []).append(message)
            if by_incarnation:
                try:
                    await control.send(self._redis, by_incarnation)
                except OUTAGE as error:
                    log.warning("Redis is away (telling positions): %s", error)

    def _news(self) -> Iterator[tuple[str, Control]]:
        now = asyncio.get_running_loop().time()
        left, self._left = self._left, []
        for tail in left:
            # It may have come back at once.
            if tail.incarnation and tail.key not in self._tails:
                yield tail.incarnation, Left(tail.generation_id, self._id)
        for tail in self._tails.values():
            if tail.incarnation and (reading := tail.reading(process=self._id, now=now)):
                yield tail.incarnation, reading

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

    async def _check_quiet(self, quiet: list[Tail]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for tail in quiet:
            pipeline.get(redis_keys.lease(tail.generation_id))
            pipeline.exists(redis_keys.log(tail.tenant_id, tail.generation_id))
        replies = await pipeline.execute()
        holders: set[str] = set()
        for tail, holder, exists in zip(quiet, replies[::2], replies[1::2], strict=True):
            if not exists:
                tail.fail(_log_gone())
            if incarnation := await self._look_at_lease(tail, holder):
                holders.add(incarnation)
        if lost := await registry.lost(self._redis, holders):
            log.warning("Lost replicas: %s", ", ".join(sorted(lost)))
            await takeover.take_over(self._redis, SystemClock(), lost)


def _unreadable() -> InternalError:
    return InternalError("The answer's log can't be read.", code="log_unreadable")


def _log_gone() -> Unavailable:
    return Unavailable("The answer's log is gone. Ask again.", code="log_lost")


@one_per_loop
def relay() -> Relay:
    """The running event loop's relay."""
    return Relay(client())
