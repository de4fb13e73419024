"""The Lua scripts that make several steps in Redis one. Each file in a `lua/` folder says what it
takes and returns; a line `-- uses: NAME, NAME` puts those files of the folder before it.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis.exceptions import NoScriptError

from kernel import together
from kernel.redis import Client

FOLDER = Path(__file__).resolve().parent / "lua"
_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)


@functools.cache
def _source(name: str, folder: Path) -> str:
    own = (folder / f"{name}.lua").read_text()
    uses = _USES.search(own)
    shared = uses.group(1).split(", ") if uses else []
    return "".join([*((folder / f"{each}.lua").read_text() for each in shared), own])


@functools.cache
def _digest(name: str, folder: Path) -> str:
    # Redis names scripts by their SHA-1; nothing is protected by it.
    return hashlib.sha1(_source(name, folder).encode(), usedforsecurity=False).hexdigest()


async def run(
    redis: Client, name: str, keys: Sequence[str], args: Sequence[Any], *, folder: Path = FOLDER
) -> Any:
    try:
        return await together.send(redis, "EVALSHA", _digest(name, folder), len(keys), *keys, *args)
    except NoScriptError:
        return await together.send(redis, "EVAL", _source(name, folder), len(keys), *keys, *args)
