"""Celery tasks: thin, idempotent, each around one service."""

from __future__ import annotations

import asyncio
import logging

from celery import shared_task

from inference.services import maintenance, recovery, seals, usage
from kernel.clock import SystemClock
from kernel.redis import connected

log = logging.getLogger(__name__)


@shared_task
def close_lost_generations() -> dict[str, int]:
    """Look after what lost replicas, full queues and lost logs leave behind."""
    return asyncio.run(_sweep())


async def _sweep() -> dict[str, int]:
    async with connected() as redis:
        closed = await recovery.sweep(redis, SystemClock())
    if any(closed.values()):
        log.warning("Looked after generations that nobody else did: %s", closed)
    return closed


@shared_task
def clean_up_checkpoints() -> dict[str, int]:
    """Give up checkpoints, replay keys and logs that are past their time or over their size."""
    return asyncio.run(_clean_up())


async def _clean_up() -> dict[str, int]:
    async with connected() as redis:
        return await maintenance.clean_up(redis, SystemClock())


@shared_task
def seal_generations() -> int:
    """Put into the audit chain what was settled since the last round."""
    return seals.seal_settled(now=SystemClock().now())


@shared_task
def count_usage() -> int:
    """Add what was settled since to the hours of usage; how many generations that were."""
    return usage.count_settled()
