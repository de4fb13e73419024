"""What each tenant has had lately, beside what its weight entitles it to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import queue
from inference.queue import Charge
from inference.services import shares
from inference.services.shares import SPAN_S, WINDOW_S, Who, compared, served_lately
from kernel.database import database
from kernel.redis import Client
from tenants.models import Tenant
from tenants.priority import CLASSES
from tests.inference.crowd import RELEASE, Crowd
from tests.inference.making import Records

TENANTS = ("ten_a", "ten_b", "ten_c")
WHO = st.tuples(st.sampled_from(CLASSES), st.sampled_from(TENANTS))


async def test_prompts_and_answers_count_by_tenant_and_class(redis: Client) -> None:
    crowd = Crowd(redis)
    for tenant, made in (("ten_a", 10), ("ten_c", 3)):
        job = await crowd.arrive(tenant, "batch", prompt=5)
        assert await crowd.take() is job
        await queue.charge(redis, RELEASE, [Charge(job.request, 0, made)], now_us=crowd.now_us)
        del crowd.running[job.id]
    found = await served_lately(redis, RELEASE, now_us=crowd.now_us)
    assert found == {("batch", "ten_a"): 5 + 2 * 10, ("batch", "ten_c"): 5 + 2 * 3}


@pytest.mark.parametrize(("later_s", "counts"), [(WINDOW_S - SPAN_S, True), (WINDOW_S, False)])
async def test_only_the_last_minutes_count(redis: Client, later_s: int, counts: bool) -> None:
    crowd = Crowd(redis)
    await crowd.arrive("ten_a", prompt=5)
    await crowd.take()
    now_us = crowd.now_us + later_s * 1_000_000
    assert bool(await served_lately(redis, RELEASE, now_us=now_us)) is counts
    assert all([await redis.ttl(key) > 0 for key in await redis.keys("*:served:*")])


@given(
    served=st.dictionaries(WHO, st.floats(1, 1e6)),
    waiting=st.dictionaries(WHO, st.integers(1, 9)),
    weights=st.dictionaries(st.sampled_from(TENANTS), st.floats(0.1, 10)),
)
def test_parts_and_entitlements_of_a_class_are_a_whole(
    served: dict[Who, float], waiting: dict[Who, int], weights: dict[str, float]
) -> None:
    found = compared(served, waiting, weights)
    assert {(share.priority_class, share.tenant_id) for share in found} == {*served, *waiting}
    for each in CLASSES:
        of_class = [share for share in found if share.priority_class == each]
        if of_class:
            assert sum(share.entitled for share in of_class) == pytest.approx(1)
        if any(share.service for share in of_class):
            assert sum(share.part for share in of_class) == pytest.approx(1)


def test_a_weight_is_a_part_of_those_who_are_there() -> None:
    weights = {"ten_a": 1.0, "ten_b": 3.0, "ten_c": 4.0}
    one, other = compared({("batch", "ten_a"): 30.0}, {("batch", "ten_b"): 2}, weights)
    assert (one.tenant_id, one.part, one.entitled, one.waiting) == ("ten_a", 1.0, 0.25, 0)
    assert (other.tenant_id, other.part, other.entitled, other.waiting) == ("ten_b", 0.0, 0.75, 2)


async def test_releases_of_which_nobody_has_had_anything_are_left_out(
    redis: Client, records: Records
) -> None:
    assert await shares.shares(redis) == []


async def test_releases_with_their_tenants_weights(redis: Client, records: Records) -> None:
    await database(Tenant.objects.filter(pk="ten_b").update, weight=3)
    crowd = Crowd(redis)
    crowd.now_us = (await redis.time())[0] * 1_000_000
    await crowd.arrive("ten_a")
    await crowd.take()
    await crowd.arrive("ten_b")
    ((release, found),) = await shares.shares(redis)
    assert release == "fake"
    told = {each.tenant_id: (each.part, each.entitled, each.waiting) for each in found}
    assert told == {"ten_a": (1.0, 0.25, 0), "ten_b": (0.0, 0.75, 1)}
