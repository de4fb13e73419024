"""Django's cache on Redis, which goes on without it.

What is kept there are counts of attempts to sign in. While Redis is away each process counts for
itself: nobody is locked out, and nobody may try without end, only as often again as there are
processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache

from kernel.redis import OUTAGE

R = TypeVar("R")

# For how long an outage is believed: each call that finds out waits for a timeout.
AWAY_S = 5.0
TIMEOUTS = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}


class OutageCache(RedisCache):
    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = TIMEOUTS | params.get("OPTIONS", {})
        super().__init__(server, params | {"OPTIONS": options})
        self._own = LocMemCache("during-outages", {})
        self._away_until = 0.0

    def _either(self, shared: Callable[[], R], own: Callable[[], R]) -> R:
        if time.monotonic() >= self._away_until:
            try:
                return shared()
            except OUTAGE:
                self._away_until = time.monotonic() + AWAY_S
        return own()

    def add(self, key: Any, value: Any, *args: Any, **kwargs: Any) -> bool:
        return self._either(
            lambda: bool(super(OutageCache, self).add(key, value, *args, **kwargs)),
            lambda: self._own.add(key, value, *args, **kwargs),
        )

    def get(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        return self._either(
            lambda: super(OutageCache, self).get(key, *args, **kwargs),
            lambda: self._own.get(key, *args, **kwargs),
        )

    def set(self, key: Any, value: Any, *args: Any, **kwargs: Any) -> None:
        self._either(
            lambda: super(OutageCache, self).set(key, value, *args, **kwargs),
            lambda: self._own.set(key, value, *args, **kwargs),
        )

    def delete(self, key: Any, version: int | None = None) -> bool:
        return self._either(
            lambda: bool(super(OutageCache, self).delete(key, version)),
            lambda: self._own.delete(key, version),
        )

    def clear(self) -> None:
        """Refused: Django's empties the whole Redis, and queues and token logs live there too."""
        raise RuntimeError("The cache shares its Redis with queues and token logs.")
