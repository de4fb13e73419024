"""Keys in use: looked up once, then kept fresh behind the requests' backs, so that no request waits
for the database; and the open requests that go on by them.

What changes about a key, its account or its tenant takes effect within `KEY_CACHE_S`.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import Error as DatabaseUnusable
from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_variables

from kernel.clock import Clock, SystemClock
from kernel.database import database
from kernel.errors import PlatformError, Unauthenticated
from kernel.loops import one_per_loop
from kernel.networks import Address
from kernel.rounds import Rounds
from tenants import authorization, key_format
from tenants.access import Access, AccessEnded
from tenants.principal import Principal
from tenants.services import key_records, key_usage
from tenants.services.key_records import KeyRecord, Row
from tenants.services.key_usage import Rehashed
from tenants.services.keys import HEADER_LIMIT, presented

log = logging.getLogger(__name__)

MOST = 10_000
# Keys that are kept fresh without anybody asking: used in the last minute, the latest first.
IN_USE_S = 60.0
MOST_IN_USE = 1_000


@dataclass(slots=True)
class _Kept:
    """read_at, used_at: in the clock's monotonic seconds; what the record says is not older than
    read_at.
    """

    record: KeyRecord
    read_at: float
    used_at: float


class KnownKeys:
    """Of one event loop. Holds no key, only digests of what was presented and found good."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._asking: dict[str, asyncio.Task[_Kept | None]] = {}
        # Digest of a header -> the key's id, and the stored digest that its secret matched.
        self._verified: dict[bytes, tuple[str, str]] = {}
        self._open: dict[str, set[Access]] = {}
        self._used: set[str] = set()
        self._rehashed: dict[str, Rehashed] = {}
        self._writing: asyncio.Task[None] | None = None
        self._rounds = Rounds("known-keys", self.round, lambda: settings.KEY_CACHE_S / 2)

    @sensitive_variables()
    async def authenticate(
        self, authorization: str, *, where: Callable[[], Address | None]
    ) -> Access:
        """What an `Authorization` header gives, as of at most `KEY_CACHE_S` ago.

        Raises Unauthenticated, the same for every reason; for a good key PermissionDenied
        `tenant_suspended` or `address_not_allowed`.
        """
        if len(authorization) > HEADER_LIMIT:
            raise key_records.refused()
        seen = hashlib.sha256(authorization.encode(errors="surrogatepass")).digest()
        key_id, matched = self._verified.get(seen, ("", ""))
        kept = self._fresh(key_id)
        if kept is None or kept.record.digest != matched:
            kept = await self._verify(authorization, seen)
        record, now = kept.record, self._clock.now()
        principal = _granted(record, where, now)
        kept.used_at = self._clock.monotonic()
        if key_usage.is_news(record.last_used_at, now):
            self._used.add(record.id)
        self._rounds.keep_running()
        return Access(principal, self, where)

    # -- Open requests

    def add(self, access: Access) -> None:
        self._open.setdefault(_key_id(access), set()).add(access)
        self._rounds.keep_running()

    def discard(self, access: Access) -> None:
        accesses = self._open.get(_key_id(access), set())
        accesses.discard(access)
        if not accesses:
            self._open.pop(_key_id(access), None)

    def _look_after_open(self, read: set[str]) -> None:
        """read: the keys that were just read; of others nothing new is known."""
        now = self._clock.now()
        for key_id in read & self._open.keys():
            kept = self._kept.get(key_id)
            for access in list(self._open[key_id]):
                _renew(access, kept.record if kept else None, now)

    # -- Looking keys up

    def _fresh(self, key_id: str) -> _Kept | None:
        kept = self._kept.get(key_id)
        oldest = self._clock.monotonic() - settings.KEY_CACHE_S
        return kept if kept is not None and kept.read_at > oldest else None

    @sensitive_variables()
    async def _verify(self, authorization: str, seen: bytes) -> _Kept:
        text = presented(authorization)
        kept = self._fresh(text.id) or await self._look_up(text.id)
        if not key_records.matches(text, kept.record if kept else None) or kept is None:
            raise key_records.refused()
        if len(self._verified) >= MOST:
            self._verified.clear()
        self._verified[seen] = (text.id, kept.record.digest)
        self._rehash(text, kept.record)
        return kept

    async def _look_up(self, key_id: str) -> _Kept | None:
        if key_id not in self._asking:
            asking = asyncio.create_task(self._read_one(key_id))
            self._asking[key_id] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key_id))
        # One caller's leaving must not refuse the others.
        return await asyncio.shield(self._asking[key_id])

    async def _read_one(self, key_id: str) -> _Kept | None:
        read_at = self._clock.monotonic()
        record = await database(key_records.read, key_id)
        if record is None:
            return None
        newer = self._kept.get(key_id)
        if newer is not None and newer.read_at > read_at:
            return newer
        if len(self._kept) >= MOST:
            self._forget_unused()
        self._kept[key_id] = _Kept(record, read_at, used_at=read_at)
        return self._kept[key_id]

    @sensitive_variables()
    def _rehash(self, text: key_format.KeyText, record: KeyRecord) -> None:
        current = settings.KEY_PEPPER_VERSION
        if record.pepper_version != current:
            new = key_records.digest(text.secret, current)
            self._rehashed[record.id] = Rehashed(record.digest, new, current)

    # -- Behind the requests' backs

    async def round(self) -> bool:
        """Read anew what is in use, look after open requests, write what use has left. Whether
        there is anything left to look after.
        """
        in_use = self._in_use()
        await self._refresh(in_use)
        self._look_after_open(in_use)
        self._write_soon()
        return bool(self._kept or self._open or self._used or self._rehashed)

    def _in_use(self) -> set[str]:
        since = self._clock.monotonic() - IN_USE_S
        used = [(kept.used_at, key) for key, kept in self._kept.items() if kept.used_at > since]
        latest = used if len(used) <= MOST_IN_USE else heapq.nlargest(MOST_IN_USE, used)
        return {key for _, key in latest} | self._open.keys()

    async def _refresh(self, wanted: set[str]) -> None:
        self._kept = {
            key: kept for key, kept in self._kept.items() if key in wanted or self._fresh(key)
        }
        ids = sorted(wanted)
        for start in range(0, len(ids), key_records.SIZES[-1]):
            batch = ids[start : start + key_records.SIZES[-1]]
            read_at = self._clock.monotonic()
            rows = await database(key_records.rows, batch)
            self._learn(batch, {row[0]: row for row in rows}, read_at)

    def _learn(self, asked: Iterable[str], rows: dict[str, Row], read_at: float) -> None:
        for key_id in asked:
            kept, row = self._kept.get(key_id), rows.get(key_id)
            if kept is not None and kept.read_at > read_at:
                continue  # looked up for a request meanwhile
            if row is None:
                self._kept.pop(key_id, None)
            elif kept is None:
                self._kept[key_id] = _Kept(key_records.of(row), read_at, used_at=read_at)
            else:
                kept.read_at = read_at
                if row != kept.record.row:
                    kept.record = key_records.of(row)

    def _forget_unused(self) -> None:
        kept_fresh = self._in_use()
        self._kept = {key: kept for key, kept in self._kept.items() if key in kept_fresh}

    def _write_soon(self) -> None:
        """Apart from the round: a writer may have to wait for others, and revocations must not."""
        if (self._used or self._rehashed) and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        used, self._used = self._used, set()
        rehashed, self._rehashed = self._rehashed, {}
        try:
            await database(key_usage.write, used, rehashed, now=self._clock.now())
        except DatabaseUnusable as error:
            log.warning("The use of %d keys was not kept: %s", len(used), error)
            # Each is made once only, when its key is verified.
            self._rehashed = rehashed | self._rehashed


def _key_id(access: Access) -> str:
    return access.principal.key_id or ""


def _granted(record: KeyRecord, where: Callable[[], Address | None], now: datetime) -> Principal:
    principal = record.check(now=now)
    if record.networks:
        authorization.check_address(record.networks, where())
    return principal


def _renew(access: Access, record: KeyRecord | None, now: datetime) -> None:
    """record: None if the key was deleted"""
    try:
        if record is None:
            raise key_records.refused()
        access.renew(_granted(record, access.where, now))
    except Unauthenticated:
        ended = AccessEnded(gettext_noop("The API key was revoked, switched off or has expired."))
        is_expired = record is not None and record.is_on and record.is_expired(now=now)
        access.end(ended, is_withdrawn=not is_expired)
    except PlatformError as error:
        access.end(error, is_withdrawn=True)


@one_per_loop
def known_keys() -> KnownKeys:
    """The running event loop's."""
    return KnownKeys(SystemClock())
