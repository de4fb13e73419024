"""A task that does a round of work every so often, for as long as there is any."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

from django.db import Error as DatabaseUnusable

log = logging.getLogger(__name__)

SHORTEST_S = 0.05


class Rounds:
    """Belongs to one event loop. A round that fails is logged, and the next one comes."""

    def __init__(
        self, name: str, work: Callable[[], Awaitable[bool]], every_s: Callable[[], float]
    ) -> None:
        """work: does a round; whether there will be more to do
        every_s: from the beginning of one round to the next
        """
        self._name = name
        self._work = work
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def keep_running(self) -> None:
        if self._task is None or self._task.done():
            # Nothing of the first caller's context, such as its tenant, is the others'.
            self._task = asyncio.create_task(
                self._run(), name=self._name, context=contextvars.Context()
            )

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        goes_on, due = True, now()
        while goes_on:
            due = max(now(), due + max(SHORTEST_S, self._every_s()))
            await asyncio.sleep(due - now())
            try:
                goes_on = await self._work()
            except DatabaseUnusable as error:
                log.warning("The database is away (%s): %s", self._name, error)
            except Exception:
                log.exception("A round failed (%s).", self._name)
