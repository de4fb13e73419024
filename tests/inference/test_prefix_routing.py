"""A request goes to the replica that has served most of its prompt, if that one can take it at
once. One statement a test.
"""

from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings

from inference import claiming, prefixes, queue, redis_keys, registry
from inference.claiming import Claimed, Left
from kernel.redis import Client
from tests.inference.prefix_hosts import RELEASE, Hosts

LONG = tuple(range(1, 20))


@pytest.fixture
async def hosts(redis: Client, settings: Settings) -> Hosts:
    """Two replicas that wait; the first has served LONG."""
    settings.PREFIX_BLOCK_TOKENS = 4
    settings.PREFIX_WAIT_MS = 50
    settings.PREFIX_SLACK = 2
    hosts = Hosts(redis)
    await hosts.there("inc_a")
    await hosts.there("inc_b")
    await hosts.served("inc_a", *LONG)
    await hosts.waits("inc_b")
    return hosts


async def test_what_another_has_served_is_left_for_it_and_it_is_called(hosts: Hosts) -> None:
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Left(0.05)
    assert await hosts.is_called("inc_a")
    assert await hosts.ask("inc_a") == Claimed(asked, "hit")


async def test_it_is_left_for_so_long_and_then_anyone_takes_it(hosts: Hosts) -> None:
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Left(0.05)
    hosts.pass_ms(49)
    assert await hosts.ask("inc_b") == Left(0.001)
    hosts.pass_ms(1)
    assert await hosts.ask("inc_b") == Claimed(asked, "elsewhere")


async def test_one_that_does_not_come_has_nothing_left_for_it_until_it_asks(hosts: Hosts) -> None:
    other = range(50, 69)
    await hosts.served("inc_a", *other)
    first, second = await hosts.arrive(*LONG, 99), await hosts.arrive(*other, 99)
    third = await hosts.arrive(*other, 98)
    assert await hosts.ask("inc_b") == Left(0.05)
    hosts.pass_ms(50)
    assert await hosts.ask("inc_b") == Claimed(first, "elsewhere")
    assert await hosts.ask("inc_b") == Claimed(second, "elsewhere")
    assert await hosts.ask("inc_a") == Claimed(third, "hit")
    await hosts.served("inc_a", *range(80, 90))
    await hosts.arrive(*range(80, 90), 99)
    assert await hosts.ask("inc_b") == Left(0.05)


async def test_whose_prompt_nobody_has_served_goes_to_whoever_comes(hosts: Hosts) -> None:
    asked = await hosts.arrive(*range(50, 70))
    assert await hosts.ask("inc_b") == Claimed(asked, "miss")


async def test_a_prompt_within_one_block_goes_to_whoever_comes(hosts: Hosts) -> None:
    asked = await hosts.arrive(*LONG[:4])
    assert await hosts.ask("inc_b") == Claimed(asked, "short")


async def test_what_another_tenant_asked_is_not_known(hosts: Hosts) -> None:
    asked = await hosts.arrive(*LONG, 99, tenant="ten_b")
    assert await hosts.ask("inc_b") == Claimed(asked, "miss")


async def test_a_shared_beginning_is_enough(hosts: Hosts) -> None:
    """As a system prompt is: whoever asks, in whatever conversation."""
    await hosts.arrive(*LONG[:5], 70, 71, 72, 73, 74)
    assert isinstance(await hosts.ask("inc_b"), Left)


async def test_who_has_served_more_is_preferred(hosts: Hosts) -> None:
    await hosts.served("inc_b", *LONG, 30, 31, 32, 33, 34)
    asked = await hosts.arrive(*LONG, 30, 31, 32, 33, 34, 35)
    assert isinstance(await hosts.ask("inc_a"), Left)
    assert await hosts.ask("inc_b") == Claimed(asked, "hit")


async def test_who_has_served_as_much_takes_it(hosts: Hosts) -> None:
    await hosts.served("inc_b", *LONG)
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Claimed(asked, "hit")


# -- Nobody waits for one that can't


async def test_not_for_one_that_is_full(hosts: Hosts) -> None:
    hosts.room["inc_a"] = 1
    filling = await hosts.arrive(*LONG, 1)
    assert await hosts.ask("inc_a") == Claimed(filling, "hit")
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Claimed(asked, "elsewhere")


@pytest.mark.parametrize("state", ["draining", "loading"])
async def test_not_for_one_that_does_not_serve(hosts: Hosts, state: str) -> None:
    asked = await hosts.arrive(*LONG, 99)
    await hosts.there("inc_a", state=state)
    taken = await hosts.ask("inc_b")
    assert isinstance(taken, Claimed)
    assert taken.request == asked


async def test_not_for_a_lost_one(hosts: Hosts) -> None:
    await hosts.lose("inc_a")
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Claimed(asked, "miss")
    # Nor is it looked at again.
    assert await hosts.redis.hkeys(f"{redis_keys.share(RELEASE)}:room") == [b"inc_b"]


async def test_not_for_one_that_has_stopped_asking(hosts: Hosts) -> None:
    await claiming.stop_claiming(hosts.redis, RELEASE, "inc_a")
    asked = await hosts.arrive(*LONG, 99)
    taken = await hosts.ask("inc_b")
    assert isinstance(taken, Claimed)
    assert taken.request == asked


async def test_not_for_one_that_runs_many_more(hosts: Hosts, settings: Settings) -> None:
    """Or all that begin alike would be decoded in one place."""
    hosts.room["inc_a"] = 100
    for number in range(3):
        await hosts.arrive(*LONG, number)
        assert isinstance(await hosts.ask("inc_a"), Claimed)
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Claimed(asked, "elsewhere")
    # From there on both have it.
    await hosts.arrive(*LONG, 98)
    assert isinstance(await hosts.ask("inc_b"), Claimed)


async def test_not_at_all_where_that_is_set(hosts: Hosts, settings: Settings) -> None:
    settings.PREFIX_WAIT_MS = 0
    asked = await hosts.arrive(*LONG, 99)
    assert await hosts.ask("inc_b") == Claimed(asked, "elsewhere")


async def test_not_when_the_clock_went_back(hosts: Hosts) -> None:
    await hosts.arrive(*LONG, 99)
    assert isinstance(await hosts.ask("inc_b"), Left)
    hosts.pass_ms(-1000)
    assert isinstance(await hosts.ask("inc_b"), Claimed)


# -- Order


async def test_nothing_behind_it_is_given_out_meanwhile(hosts: Hosts) -> None:
    first = await hosts.arrive(*LONG, 99)
    second = await hosts.arrive(*range(50, 70), tenant="ten_b")
    assert isinstance(await hosts.ask("inc_b"), Left)
    assert isinstance(await hosts.ask("inc_b"), Left)
    assert await hosts.ask("inc_a") == Claimed(first, "hit")
    assert await hosts.ask("inc_b") == Claimed(second, "miss")


async def test_who_left_it_is_woken_for_what_comes_next(hosts: Hosts) -> None:
    await hosts.arrive(*LONG, 99)
    await hosts.arrive(*range(50, 70))
    await hosts.ask("inc_b")
    bell = redis_keys.queue_bell(RELEASE)
    await hosts.redis.delete(bell)
    await hosts.ask("inc_a")
    assert await hosts.redis.llen(bell) == 1


async def test_being_left_is_charged_to_nobody(hosts: Hosts) -> None:
    counters = f"{redis_keys.share(RELEASE)}:standard:counters"
    await hosts.arrive(*LONG, 99)
    before = await hosts.redis.zrange(counters, 0, -1, withscores=True)
    await hosts.ask("inc_b")
    assert await hosts.redis.zrange(counters, 0, -1, withscores=True) == before


# -- What is kept


async def test_the_answer_counts_as_well_for_the_next_turn(hosts: Hosts) -> None:
    first = await hosts.arrive(60, 61)
    assert await hosts.ask("inc_b") == Claimed(first, "short")
    served = prefixes.of_answer(first, [62, 63, 64, 65, 66])
    await prefixes.remember(hosts.redis, "inc_b", [served], most=64, now_us=hosts.now_us)
    await hosts.arrive(60, 61, 62, 63, 64, 65, 66, 67, 68)
    assert isinstance(await hosts.ask("inc_a"), Left)


async def test_the_latest_are_kept_and_the_longest_forgotten_first(hosts: Hosts) -> None:
    for begin in (100, 200):
        asked = await hosts.arrive(*range(begin, begin + 13))
        hosts.pass_ms(1)
        served = [prefixes.of(asked)]
        await prefixes.remember(hosts.redis, "inc_c", served, most=4, now_us=hosts.now_us)
    oldest, *later = await hosts.redis.zrange(redis_keys.prefixes("inc_c"), 0, -1)
    assert len(later) == 3
    assert oldest == prefixes.of(await hosts.arrive(*range(100, 105)))


async def test_what_goes_on_is_known_by_its_answer_too(hosts: Hosts) -> None:
    asked = await hosts.arrive(*LONG)
    taken = await hosts.ask("inc_a")
    assert isinstance(taken, Claimed)
    await hosts.redis.set(redis_keys.lease(asked.generation_id), "suspended:inc_a/0")
    assert await queue.requeue(hosts.redis, asked, now_us=hosts.now_us)
    assert isinstance(await hosts.ask("inc_b"), Left)


async def test_a_replica_that_leaves_or_is_lost_leaves_no_table(hosts: Hosts) -> None:
    assert await hosts.redis.exists(redis_keys.prefixes("inc_a"))
    await registry.leave(hosts.redis, "inc_a")
    assert not await hosts.redis.exists(redis_keys.prefixes("inc_a"))
    await hosts.served("inc_b", *LONG)
    await registry.lose(hosts.redis, "inc_b")
    await registry.forget(hosts.redis, "inc_b")
    assert not await hosts.redis.exists(redis_keys.prefixes("inc_b"))
