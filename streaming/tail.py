"""The end of one token log, as far as this web process has read it, and the readers there."""

from __future__ import annotations

import asyncio

from django.conf import settings

from inference import redis_keys
from inference.messages import Reading, Started, Suspended
from inference.token_log import LogEntry, Position
from kernel.errors import PlatformError
from streaming.reading import Reader, Report


class Tail:
    """The end of one log, as far as this process has read it, and the readers that wait there."""

    def __init__(self, tenant_id: str, generation_id: str, position: Position) -> None:
        self.key = redis_keys.log(tenant_id, generation_id)
        self.tenant_id = tenant_id
        self.generation_id = generation_id
        self.position = position
        self.readers: list[Reader] = []
        self.quiet = False
        self.broken: PlatformError | None = None
        self.incarnation: str | None = None
        self._report = Report()
        self._arrival: asyncio.Future[list[LogEntry]] | None = None

    async def next(self) -> list[LogEntry]:
        """The entries that arrive next; none when the log has been quiet for a while. Raises
        PlatformError.
        """
        if self.broken is not None:
            raise self.broken
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._arrival)

    def arrived(self, entries: list[LogEntry]) -> None:
        self.position = entries[-1].position
        self.quiet = False
        for logged in entries:
            if isinstance(logged.entry, Started):
                self.held_by(logged.entry.incarnation)
            elif isinstance(logged.entry, Suspended):
                self.incarnation = None
        if arrival := self._take():
            arrival.set_result(entries)

    def has_reader(self, *, now: float) -> bool:
        """Whether anybody here reads on."""
        grace_s = settings.DETACH_GRACE_S
        return any(reader.is_there(now=now, grace_s=grace_s) for reader in self.readers)

    def held_by(self, incarnation: str) -> None:
        """A replica that has just taken the generation knows nothing of its readers yet."""
        if incarnation != self.incarnation:
            self.incarnation, self._report = incarnation, Report()

    def reading(self, *, process: str, now: float) -> Reading | None:
        """What to tell the replica now, if anything."""
        return self._report.due(
            self.generation_id,
            self.readers,
            process=process,
            now=now,
            grace_s=settings.DETACH_GRACE_S,
        )

    def stayed_quiet(self) -> None:
        if arrival := self._take():
            arrival.set_result([])

    def fail(self, error: PlatformError) -> None:
        if arrival := self._take():
            arrival.set_exception(error)
            # Its reader may have left meanwhile; then nobody has to hear of it.
            arrival.exception()

    def break_off(self, error: PlatformError) -> None:
        """What comes next can't be read, now or ever."""
        self.broken = error
        self.fail(error)

    def _take(self) -> asyncio.Future[list[LogEntry]] | None:
        arrival, self._arrival = self._arrival, None
        return arrival if arrival is not None and not arrival.done() else None
