"""Ids that say what they name and sort by time: `gen_01kb8w…`, a ULID in Crockford's base 32, lower
case.

Source of the layout: the ULID specification, 48 bits of milliseconds and 80 random bits.
"""

from __future__ import annotations

import re
import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
MAX_LENGTH = 32


WELL_FORMED = re.compile(r"[a-z]+_[0-9a-z]{1,28}")


def is_id(text: str) -> bool:
    """Whether a text could be an id of ours: what could not must never reach the database, which
    does not even look for some characters.
    """
    return WELL_FORMED.fullmatch(text) is not None


def new_id(prefix: str) -> str:
    """A new id `<prefix>_<26 characters>`, at most MAX_LENGTH characters."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    digits = []
    for _ in range(LENGTH):
        number, digit = divmod(number, 32)
        digits.append(ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"
