"""A tenant that floods leaves a host's last slots to those who have less than their share."""

from __future__ import annotations

import asyncio

import pytest
from pytest_django.fixtures import Settings

from inference import queue, redis_keys, registry
from inference.host import pulling
from inference.messages import QueuedRequest
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, request
from tests.inference.test_engine_host import ended, hosting, quick, replica

SLOTS = 4


@pytest.fixture(autouse=True)
def _one_is_kept(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.ENGINE_MAX_RUNNING, settings.KEPT_SLOT_SHARE = SLOTS, 0.25
    monkeypatch.setattr(pulling, "BLOCK_S", 0.1)


async def queued(
    redis: Client, records: Records, tenant_id: str, *, max_tokens: int = 250
) -> QueuedRequest:
    asked = request(tenant_id, max_tokens=max_tokens)
    await database(records.open, asked)
    await queue.enqueue(redis, asked)
    return asked


async def taken(redis: Client) -> list[str]:
    """Whose requests the host has."""
    incarnation = (await replica(redis)).incarnation
    return [each.tenant_id for each in await registry.unsettled(redis, incarnation)]


async def test_who_comes_now_and_then_begins_beside_a_flood_that_has_no_end(
    redis: Client, records: Records
) -> None:
    async with hosting(quick(itl_s=0.02), redis):
        assert (
            await ended(records, await queued(redis, records, "ten_b", max_tokens=1))
        ).settled_at
        flood = [await queued(redis, records, "ten_a") for _ in range(3 * SLOTS)]
        while len(await taken(redis)) < SLOTS - 1:
            await asyncio.sleep(0.005)
        # Long enough to take another, if it could.
        await asyncio.sleep(0.2)
        assert await taken(redis) == ["ten_a"] * (SLOTS - 1)
        light = await queued(redis, records, "ten_b", max_tokens=4)
        assert (await ended(records, light)).state == "finished"
        states = [await database(records.of, each) for each in flood]
        assert {each.settled_at for each in states} == {None}, "before any of the flood ended"


async def test_who_has_less_than_its_share_takes_what_is_kept(
    redis: Client, records: Records
) -> None:
    """Of four slots three tenants would have 1.3 each: two of the first, one of the second."""
    for tenant_id in ("ten_a", "ten_b", "ten_a", "ten_b", "ten_a", "ten_b"):
        await queued(redis, records, tenant_id)
    async with hosting(quick(itl_s=0.02), redis):
        while len(await taken(redis)) < SLOTS:
            await asyncio.sleep(0.005)
        assert sorted(await taken(redis)) == ["ten_a", "ten_a", "ten_b", "ten_b"]


@pytest.mark.parametrize("kept_for", ["nobody was there lately", "a share of none"])
async def test_without_anybody_to_keep_them_for_a_host_is_filled(
    redis: Client, records: Records, settings: Settings, kept_for: str
) -> None:
    if kept_for == "a share of none":
        settings.KEPT_SLOT_SHARE = 0
        await redis.zadd(f"{redis_keys.share('rel_a')}:standard:seen", {"ten_b": 2**52})
    for _ in range(SLOTS + 1):
        await queued(redis, records, "ten_a")
    async with hosting(quick(itl_s=0.02), redis):
        while len(await taken(redis)) < SLOTS:
            await asyncio.sleep(0.005)
