from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from django.db import OperationalError

from kernel.group_commit import AT_ONCE, GroupCommit
from tenants import scope

pytestmark = pytest.mark.django_db(transaction=True)


class Verb:
    """Doubles numbers; keeps what it was asked for at a time."""

    def __init__(self, *, broken: int | None = None, away: int = 0) -> None:
        self.asked: list[list[int]] = []
        self._broken = broken
        self._away = away

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.asked.append(list(numbers))
        if self._away:
            self._away -= 1
            raise OperationalError("gone")
        if self._broken in numbers:
            raise ValueError("this one")
        return [2 * number for number in numbers]


async def test_one_goes_at_once_and_alone() -> None:
    verb = Verb()
    assert await GroupCommit(verb)(21) == 42
    assert verb.asked == [[21]]


async def test_a_burst_shares_a_few_transactions_and_each_gets_its_own_result() -> None:
    verb, count = Verb(), 2 * AT_ONCE + 5
    group = GroupCommit(verb)
    results = await asyncio.gather(*(group(number) for number in range(count)))
    assert results == [2 * number for number in range(count)]
    assert [len(each) for each in verb.asked] == [AT_ONCE, AT_ONCE, 5]


async def test_what_comes_meanwhile_goes_with_the_next() -> None:
    verb = Verb()
    group = GroupCommit(verb)
    first = asyncio.create_task(group(1))
    while not verb.asked:
        await asyncio.sleep(0)
    assert await asyncio.gather(first, group(2), group(3)) == [2, 4, 6]
    assert verb.asked == [[1], [2, 3]]
    assert await group(4) == 8


async def test_one_at_fault_fails_alone() -> None:
    group = GroupCommit(Verb(broken=2))
    results = await asyncio.gather(*(group(number) for number in (1, 2, 3)), return_exceptions=True)
    assert (results[0], results[2]) == (2, 6)
    assert isinstance(results[1], ValueError)


async def test_a_database_that_is_away_is_not_asked_once_for_each() -> None:
    verb = Verb(away=1)
    group = GroupCommit(verb)
    results = await asyncio.gather(*(group(number) for number in (1, 2, 3)), return_exceptions=True)
    assert all(isinstance(each, OperationalError) for each in results)
    assert verb.asked == [[1, 2, 3]]
    assert await group(4) == 8


async def test_who_leaves_before_its_turn_is_left_out_and_nobody_else_suffers() -> None:
    verb = Verb()
    group = GroupCommit(verb)
    first = asyncio.create_task(group(1))
    while not verb.asked:
        await asyncio.sleep(0)
    leaving, staying = asyncio.create_task(group(2)), asyncio.create_task(group(3))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await asyncio.gather(first, staying) == [2, 6]
    assert verb.asked == [[1], [3]]


async def test_the_first_ones_tenant_is_not_everybodys() -> None:
    def seen(numbers: Sequence[int]) -> list[bool]:
        with pytest.raises(scope.ScopeMissing):
            scope.current()
        return [True] * len(numbers)

    with scope.tenant("ten_a"):
        assert await GroupCommit(seen)(1)
