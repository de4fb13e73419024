"""What a prompt begins with, as replicas' prefix caches see it.

A prompt is known by its marks: digests of some of its beginnings, whole blocks each, salted by its
tenant. Two prompts of one tenant have as many marks in common as they have beginnings; whose they
are or whether they belong to a conversation makes no difference. Replicas note the marks of what
they serve, and `lua/prefixes.lua` finds out which of them has served most of a prompt.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence

from django.conf import settings

from inference import redis_keys, scripts
from inference.messages import QueuedRequest
from kernel.redis import Client

# As in lua/prefixes.lua.
MARK_BYTES = 8
# A prompt has a mark for each of its first blocks, and from there on so many an octave.
PER_OCTAVE = 16
MOST_MARKS = 128
# Marks a replica keeps whose engine doesn't tell how large its cache is.
KEPT = 8192


def marks(salt: str, token_ids: Sequence[int]) -> bytes:
    """MARK_BYTES for each of its beginnings, the shortest first. The last token is in none: it has
    to be computed anyway.
    """
    digest = hashlib.blake2b(salt.encode() + b"\0", digest_size=MARK_BYTES)
    raw, at = array("I", token_ids), 0
    found = bytearray()
    for end in _ends(len(token_ids) - 1):
        digest.update(raw[at:end].tobytes())
        found += digest.digest()
        at = end
    return bytes(found)


def _ends(tokens: int) -> Iterator[int]:
    """Lengths in tokens of the beginnings that are marked, the same for every prompt."""
    size, blocks, made = int(settings.PREFIX_BLOCK_TOKENS), 1, 0
    while blocks * size <= tokens and made < MOST_MARKS:
        yield blocks * size
        blocks += 1 << max(0, blocks.bit_length() - PER_OCTAVE.bit_length())
        made += 1


def of(request: QueuedRequest) -> bytes:
    """The marks of what an engine has to compute before the request goes on."""
    made = request.progress.token_ids if request.progress else []
    return of_answer(request, made)


def of_answer(request: QueuedRequest, token_ids: Sequence[int]) -> bytes:
    """The marks of what an engine has computed once it has made these tokens."""
    engine = request.engine_request
    return marks(engine.cache_salt, [*engine.prompt_token_ids, *token_ids])


async def remember(
    redis: Client,
    incarnation: str,
    served: Sequence[bytes],
    *,
    most: int,
    now_us: int | None = None,
) -> None:
    """Note the marks of what a replica has served, of which the latest `most` are kept."""
    args = [redis_keys.PREFIX, incarnation, "" if now_us is None else now_us, most]
    await scripts.run(redis, "remember", [redis_keys.prefixes(incarnation)], [*args, *served])
