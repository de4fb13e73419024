"""Group commit: what arrives while the database works shares its next transaction.

A thread's turn and a transaction cost more than the row that they are for; a burst of a hundred
requests pays them a few times instead of a hundred. Alone, an item goes at once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from django.db import InterfaceError, OperationalError

from kernel.database import database
from kernel.loops import conclude

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 64
# Which item is at fault makes no difference to these: the database is away.
AWAY = (OperationalError, InterfaceError)


class GroupCommit(Generic[Item, Result]):
    """Belongs to one event loop."""

    def __init__(self, verb: Callable[[Sequence[Item]], Sequence[Result]]) -> None:
        """verb: does all of some items in one transaction, which it opens, in scopes that it
        enters, and returns one result for each. It may be asked for an item again, alone.
        """
        self._verb = verb
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._working: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """The item's result, once it is committed. Raises what the verb raises of it alone.

        Cancelled, the caller is gone and the item is done or not: it can't be known.
        """
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._working is None:
            # Nothing of the first caller's context, such as its tenant, is the others'.
            self._working = asyncio.create_task(self._work(), context=contextvars.Context())
        return await done

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                if wanted := [each for each in batch if not each[1].done()]:
                    await self._commit(wanted)
        finally:
            self._working = None

    async def _commit(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        results: Sequence[Result | Exception]
        try:
            results = await database(self._verb, [item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - each caller gets it
            if len(batch) > 1 and not isinstance(error, AWAY):
                # One of them is at fault, and the others must not suffer for it.
                for one in batch:
                    await self._commit([one])
                return
            results = [error] * len(batch)
        for (_, done), result in zip(batch, results, strict=True):
            conclude(done, result)
