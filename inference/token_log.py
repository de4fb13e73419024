"""The token log: what a generation has produced, in a Redis stream, written before anything reaches
a client.

Only the holder of the lease appends; the last entry gives the lease up, so that nothing follows it.
Reading from any sequence number is one range read, replay and live alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from inference import messages, redis_keys, scripts
from inference.messages import Entry, Failed, Final, Finished, Started, Suspended, Tokens
from kernel.redis import Client

Position = tuple[int, int]
BEGINNING: Position = (0, 0)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """position: the entry's id in its stream, (seq, place among those with that seq)."""

    position: Position
    entry: Entry


def parse(raw: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> list[LogEntry]:
    """Entries as redis-py returns them from XRANGE and XREAD."""
    found = []
    for entry_id, fields in raw:
        seq, _, place = entry_id.decode().partition("-")
        found.append(LogEntry((int(seq), int(place)), messages.decode_entry(fields[b"e"])))
    return found


def as_id(position: Position) -> str:
    return f"{position[0]}-{position[1]}"


async def read(
    redis: Client, key: str, *, after: Position = BEGINNING, count: int | None = None
) -> list[LogEntry]:
    """Entries behind a position, at most `count`; none if the log is not there."""
    return parse(await redis.xrange(key, min=f"({as_id(after)}", count=count) or [])


async def last(redis: Client, key: str) -> LogEntry | None:
    """The newest entry of a log; None if there is no log."""
    found = parse(await redis.xrevrange(key, count=1) or [])
    return found[0] if found else None


async def is_boundary(redis: Client, key: str, seq: int) -> bool:
    """Whether a reader can have the answer up to exactly `seq`: an entry ends there, or what did is
    trimmed.
    """
    if await redis.xrange(key, min=f"{seq}-0", max=f"{seq}", count=1):
        return True
    behind = parse(await redis.xrange(key, min=f"({seq}-0", count=1) or [])
    # Its first token lies behind the position: nothing is split, something may be missing.
    return all(
        isinstance(logged.entry, Tokens) and logged.entry.seq - len(logged.entry.token_ids) >= seq
        for logged in behind
    )


@dataclass(frozen=True, slots=True)
class Write:
    """An entry on its way into a generation's log. turn: the writer's."""

    tenant_id: str
    generation_id: str
    entry: Tokens | Suspended | Final
    turn: int = 0


async def append(redis: Client, incarnation: str, writes: Sequence[Write]) -> list[bool]:
    """Append in one round trip; for each, whether the lease still held.

    An entry that ends the writer's part gives the lease up: a last one closes the log, which then
    expires after `LOG_TTL_S`; one that suspends keeps it for as long as a checkpoint is kept.
    """
    keys: list[str] = []
    args: list[str | bytes | int] = [incarnation, settings.LOG_MAX_ENTRIES]
    for write in writes:
        keys.append(redis_keys.lease(write.generation_id))
        keys.append(redis_keys.log(write.tenant_id, write.generation_id))
        args += [write.turn, *_arguments(write.entry)]
    return [reply == 1 for reply in await scripts.run(redis, "append", keys, args)]


def _arguments(entry: Tokens | Suspended | Final) -> list[str | bytes | int]:
    """Id in the stream, entry, how long the log lives from here, what its lease then says."""
    encoded = messages.encode(entry)
    if isinstance(entry, Tokens):
        # However long it streams, its log outlives its next pause.
        return [f"{entry.seq}-0", encoded, settings.LOG_TTL_S, ""]
    if isinstance(entry, Suspended):
        return [f"{entry.seq}-*", encoded, settings.CHECKPOINT_TTL_S, "suspended"]
    return [f"{entry.seq}-*", encoded, settings.LOG_TTL_S, "closed"]


@dataclass(frozen=True, slots=True)
class Content:
    """What a log adds up to.

    last: position of its last entry
    pending: text of a suspension that no later entry has
    final: None while it is open
    suspended: the last entry, if it is one
    trimmed: the beginning is no longer there
    """

    text: str
    token_ids: list[int]
    seq: int
    last: Position
    pending: str
    cached_tokens: int
    final: Final | None
    suspended: Suspended | None
    trimmed: bool


async def content(redis: Client, tenant_id: str, generation_id: str) -> Content | None:
    """The whole log added up, or None if there is none."""
    logged = await read(redis, redis_keys.log(tenant_id, generation_id))
    if not logged:
        return None
    entries = [each.entry for each in logged]
    tokens = [entry for entry in entries if isinstance(entry, Tokens)]
    return Content(
        text="".join(entry.text for entry in entries if isinstance(entry, Tokens | Finished)),
        token_ids=[token_id for entry in tokens for token_id in entry.token_ids],
        seq=tokens[-1].seq if tokens else 0,
        last=logged[-1].position,
        pending=_pending(entries),
        cached_tokens=max((entry.cached_tokens for entry in tokens), default=0),
        final=next(
            (entry for entry in reversed(entries) if isinstance(entry, Finished | Failed)), None
        ),
        suspended=entries[-1] if isinstance(entries[-1], Suspended) else None,
        trimmed=_has_gap(tokens),
    )


def _pending(entries: list[Entry]) -> str:
    for entry in reversed(entries):
        if isinstance(entry, Suspended):
            return entry.text
        if not isinstance(entry, Started):
            return ""
    return ""


def _has_gap(tokens: list[Tokens]) -> bool:
    before = 0
    for entry in tokens:
        if entry.seq - len(entry.token_ids) > before:
            return True
        before = entry.seq
    return False
