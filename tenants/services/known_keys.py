"""Keys that were authenticated a moment ago, so that an application's burst of requests asks the
database once.

What changes about a key, its account or its tenant takes effect when this has forgotten it.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime

from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from kernel.database import database
from kernel.loops import one_per_loop
from tenants.principal import Principal
from tenants.services.keys import authenticate_key

MOST = 10_000


class KnownKeys:
    """Of one event loop. Only good keys are remembered, by a digest of what was presented."""

    def __init__(self) -> None:
        self._asked: dict[bytes, tuple[float, asyncio.Task[Principal]]] = {}

    @sensitive_variables()
    async def authenticate(self, authorization: str, *, now: datetime) -> Principal:
        """Whom an `Authorization` header speaks for, as of at most `KEY_CACHE_S` ago. Raises as
        `authenticate_key`.
        """
        digest = hashlib.sha256(authorization.encode()).digest()
        time_s = asyncio.get_running_loop().time()
        known = self._asked.get(digest)
        if known is None or known[0] <= time_s:
            asking = asyncio.create_task(database(authenticate_key, authorization, now=now))
            self._remember(digest, time_s, asking)
        else:
            _, asking = known
        # One caller's leaving must not refuse the others.
        return await asyncio.shield(asking)

    def _remember(self, digest: bytes, time_s: float, asking: asyncio.Task[Principal]) -> None:
        if len(self._asked) >= MOST:
            self._asked = {key: kept for key, kept in self._asked.items() if kept[0] > time_s}
        if len(self._asked) >= MOST:
            self._asked.clear()
        self._asked[digest] = time_s + settings.KEY_CACHE_S, asking

        def forget_refused(asked: asyncio.Task[Principal]) -> None:
            refused = asked.cancelled() or asked.exception() is not None
            if refused and self._asked.get(digest, (0.0, None))[1] is asked:
                del self._asked[digest]

        asking.add_done_callback(forget_refused)


@one_per_loop
def known_keys() -> KnownKeys:
    """The running event loop's."""
    return KnownKeys()
