from __future__ import annotations

import asyncio
from itertools import chain

import pytest
from pytest_django.fixtures import Settings

from inference import claiming, queue, redis_keys, token_log
from inference.messages import Finished, Opened, QueuedRequest, Started, Usage
from kernel.errors import QueueFull
from kernel.redis import Client
from tests.inference.making import entries, leased, request

CANCELLED = Finished(seq=0, text="", finish_reason="cancelled", usage=Usage(3, 0))


async def enqueued(redis: Client, *tenants: str) -> list[QueuedRequest]:
    asked = [request(tenant) for tenant in tenants]
    for each in asked:
        await queue.enqueue(redis, each)
    return asked


async def counts(redis: Client) -> tuple[int, dict[bytes, bytes]]:
    """How many wait, and how many of each tenant by the queue's own books."""
    waiting = await redis.zcard(redis_keys.queue("rel_a"))
    return waiting, await redis.hgetall(redis_keys.queue_tenants("rel_a"))


async def withdraw(redis: Client, asked: QueuedRequest) -> bool:
    return await queue.withdraw(redis, asked, CANCELLED)


async def test_first_come_first_served(redis: Client) -> None:
    asked = [request() for _ in range(5)]
    places = [await queue.enqueue(redis, each) for each in asked]
    assert places == [1, 2, 3, 4, 5]
    assert await queue.place(redis, "rel_a", asked[2].generation_id) == 3
    taken = [await queue.claim(redis, "rel_a", "inc_a") for _ in range(5)]
    assert taken == asked
    assert await queue.claim(redis, "rel_a", "inc_a") is None
    assert await queue.place(redis, "rel_a", asked[2].generation_id) is None
    assert await counts(redis) == (0, {})


async def test_a_claim_leases_and_tells_the_log_in_one_step(redis: Client) -> None:
    asked = await leased(redis, "inc_a")
    assert await redis.get(redis_keys.lease(asked.generation_id)) == b"inc_a/0"
    assert await redis.hkeys(redis_keys.running("inc_a")) == [asked.generation_id.encode()]
    assert not await redis.exists(redis_keys.request(asked.generation_id))
    assert await entries(redis, asked) == [Opened(prompt_tokens=3), Started("inc_a")]


async def test_two_hosts_that_race_share_the_queue_between_them(redis: Client) -> None:
    asked = await enqueued(redis, *["ten_a"] * 40)

    async def take(incarnation: str) -> list[str]:
        found = []
        while taken := await queue.claim(redis, "rel_a", incarnation):
            found.append(taken.generation_id)
        return found

    taken = await asyncio.gather(take("inc_a"), take("inc_b"), take("inc_a"), take("inc_b"))
    assert sorted(chain(*taken)) == sorted(each.generation_id for each in asked)
    for incarnation, mine in (("inc_a", taken[0] + taken[2]), ("inc_b", taken[1] + taken[3])):
        held = await redis.hkeys(redis_keys.running(incarnation))
        assert sorted(name.decode() for name in held) == sorted(mine)


async def test_a_release_does_not_serve_anothers_queue(redis: Client) -> None:
    await queue.enqueue(redis, request(release_id="rel_b"))
    assert await queue.claim(redis, "rel_a", "inc_a") is None


async def test_a_full_queue_refuses_and_leaves_nothing_behind(
    redis: Client, settings: Settings
) -> None:
    settings.QUEUE_LIMIT = 2
    await enqueued(redis, "ten_a", "ten_b")
    before = sorted(await redis.keys("*"))
    with pytest.raises(QueueFull) as refused:
        await queue.enqueue(redis, request("ten_c"))
    assert (refused.value.http_status, refused.value.retryable) == (429, True)
    assert refused.value.retry_after_s
    assert sorted(await redis.keys("*")) == before
    await queue.claim(redis, "rel_a", "inc_a")
    await enqueued(redis, "ten_c")


async def test_a_tenant_fills_its_own_part_of_the_queue_alone(
    redis: Client, settings: Settings
) -> None:
    settings.QUEUE_LIMIT_PER_TENANT = 2
    asked = await enqueued(redis, "ten_a", "ten_a", "ten_b")
    with pytest.raises(QueueFull, match="organisation"):
        await queue.enqueue(redis, request("ten_a"))
    await enqueued(redis, "ten_b")
    assert await withdraw(redis, asked[1])
    await enqueued(redis, "ten_a")


async def test_what_is_withdrawn_is_never_given_out(redis: Client) -> None:
    first, second = await enqueued(redis, "ten_a", "ten_a")
    assert await withdraw(redis, first)
    assert not await withdraw(redis, first)
    assert await queue.claim(redis, "rel_a", "inc_a") == second
    assert not await withdraw(redis, second)
    content = await token_log.content(redis, "ten_a", first.generation_id)
    assert content is not None
    assert content.final == CANCELLED
    assert await counts(redis) == (0, {})
    assert not await redis.exists(redis_keys.request(first.generation_id))


async def test_the_books_go_back_to_zero_however_requests_leave(redis: Client) -> None:
    asked = await enqueued(redis, *["ten_a", "ten_b"] * 10)
    work = [withdraw(redis, each) for each in asked[::3]]
    claims = [queue.claim(redis, "rel_a", "inc_a") for _ in range(20)]
    left = await asyncio.gather(*work, *claims)
    assert sum(1 for each in left if each) == len(asked)
    assert await counts(redis) == (0, {})


async def test_a_request_whose_body_has_expired_is_passed_over(redis: Client) -> None:
    first, second = await enqueued(redis, "ten_a", "ten_a")
    await redis.delete(redis_keys.request(first.generation_id))
    assert await queue.claim(redis, "rel_a", "inc_a") == second


async def test_overdue_are_those_that_have_waited_too_long(
    redis: Client, settings: Settings
) -> None:
    old, new = await enqueued(redis, "ten_a", "ten_a")
    assert await queue.overdue(redis, "rel_a") == []
    arrived_us = await redis.zscore(redis_keys.queue("rel_a"), old.generation_id)
    age_us = (settings.QUEUE_TIMEOUT_S + 1) * 1_000_000
    await redis.zadd(redis_keys.queue("rel_a"), {old.generation_id: arrived_us - age_us})
    assert await queue.overdue(redis, "rel_a") == [old]
    assert await queue.place(redis, "rel_a", new.generation_id) == 2


async def test_an_arrival_rings_the_bell(redis: Client) -> None:
    waiting = asyncio.create_task(claiming.wait_for_arrival(redis, "rel_a", "inc_a", timeout_s=4.5))
    await asyncio.sleep(0)
    await enqueued(redis, "ten_a")
    await asyncio.wait_for(waiting, 4)


async def test_the_bell_is_bounded_while_no_host_listens(redis: Client) -> None:
    await enqueued(redis, *["ten_a"] * 100)
    assert await redis.llen(redis_keys.queue_bell("rel_a")) <= 64
