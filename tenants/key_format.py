"""How an API key is written: `nhr_<environment>_<id>_<secret><checksum>`.

environment: where it was issued (dev, stg, prod), so that a key of a test install is told from one
that matters at a glance, and is refused elsewhere without a query
id: 24 characters of Crockford's base 32, public, 120 random bits; finds the row
secret: 43 characters of base 62, 256 random bits
checksum: CRC-32 of all before it in 6 characters of base 62, so that a typo or a cut key is refused
without a query, and secret scanners know a real key from a random word

Pure text: no database, no settings. A `KeyText` may be printed: the secret stays out of its repr.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass, field
from zlib import crc32

from kernel.ids import ALPHABET as BASE_32

BASE_62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
ENVIRONMENTS = {"dev": "dev", "staging": "stg", "production": "prod"}
ID_LENGTH = 24
SECRET_LENGTH = 43
SECRET_BITS = 256
CHECKSUM_LENGTH = 6
LONGEST = len("nhr_prod__") + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH

_ENVIRONMENT = "|".join(ENVIRONMENTS.values())
_KEY = re.compile(
    rf"nhr_(?P<environment>{_ENVIRONMENT})_(?P<id>[{BASE_32}]{{{ID_LENGTH}}})"
    rf"_(?P<secret>[0-9A-Za-z]{{{SECRET_LENGTH}}})(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)
# What of a key is public, up to its whole id, with whatever was pasted behind it.
_BEGINNING = re.compile(
    rf"(?:nhr_(?P<environment>{_ENVIRONMENT})_)?(?P<id>[{BASE_32}]{{1,{ID_LENGTH}}})(?:_.*|…)?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class KeyText:
    """A key in its parts. text(): the whole key, for the one moment it's shown."""

    environment: str
    id: str
    secret: str = field(repr=False)

    def text(self) -> str:
        body = f"{prefix(self.environment, self.id)}_{self.secret}"
        return body + _checksum(body)


def make(environment: str) -> KeyText:
    """A new random key of an environment, by its word in keys."""
    return KeyText(
        environment=environment,
        id="".join(secrets.choice(BASE_32) for _ in range(ID_LENGTH)),
        secret=_base_62(secrets.randbits(SECRET_BITS), SECRET_LENGTH),
    )


def parse(text: str) -> KeyText | None:
    """The key in `text`, or None for anything that was never issued as one."""
    match = _KEY.fullmatch(text) if len(text) <= LONGEST else None
    if match is None or _checksum(text[:-CHECKSUM_LENGTH]) != match["checksum"]:
        return None
    return KeyText(match["environment"], match["id"], match["secret"])


def prefix(environment: str, key_id: str) -> str:
    """The public part of a key, by which people know it."""
    return f"nhr_{environment}_{key_id}"


def id_beginning(text: str) -> str | None:
    """The id, or its beginning, in what somebody found of a key: the key, cut anywhere, or the id
    alone. None if there is nothing of one in it.
    """
    match = _BEGINNING.fullmatch(text.strip())
    return match["id"] if match else None


def _checksum(body: str) -> str:
    return _base_62(crc32(body.encode()), CHECKSUM_LENGTH)


def _base_62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(BASE_62))
        digits.append(BASE_62[digit])
    return "".join(reversed(digits))
