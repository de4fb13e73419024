"""Event loops: what each has one of, and the futures that wait in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


def conclude(waiting: asyncio.Future[T], result: T | Exception) -> None:
    """Give someone who waits what became of it, if they still do."""
    if waiting.done():
        return
    if isinstance(result, Exception):
        waiting.set_exception(result)
        # Cancelled just now, they don't ask.
        waiting.exception()
    else:
        waiting.set_result(result)


def one_per_loop(make: Callable[[], T]) -> Callable[[], T]:
    """Have `make` called once in each event loop; later calls there return the same."""
    made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    @wraps(make)
    def get() -> T:
        loop = asyncio.get_running_loop()
        if loop not in made:
            made[loop] = make()
        return made[loop]

    return get
