"""What each event loop has one of: a process has one loop, tests have many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


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
