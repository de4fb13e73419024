"""The Lua scripts that make several steps in Redis one. Each file in a `lua/` folder says what it
takes and returns.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis.exceptions import NoScriptError

from kernel import together
from kernel.redis import Client

FOLDER = Path(__file__).resolve().parent / "lua"


@functools.cache
def _source(name: str, folder: Path) -> str:
    return (folder / f"{name}.lua").read_text()


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
