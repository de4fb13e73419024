"""Messages to the replicas that run generations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference import messages, redis_keys
from inference.messages import Cancel, Control
from kernel.redis import Client

# A message to a replica that is gone must not stay.
TTL_S = 60
AT_ONCE = 1000


async def send(redis: Client, by_incarnation: Mapping[str, Sequence[Control]]) -> None:
    """Messages to each replica, in order, all in one round trip."""
    pipeline = redis.pipeline(transaction=False)
    for incarnation, batch in by_incarnation.items():
        key = redis_keys.control(incarnation)
        pipeline.rpush(key, *(messages.encode(message) for message in batch))
        pipeline.expire(key, TTL_S)
    await pipeline.execute()


async def receive(redis: Client, incarnation: str, *, timeout_s: float) -> list[Control]:
    """The messages that have come, in order; none after the timeout."""
    key = redis_keys.control(incarnation)
    received = await redis.blmpop(timeout_s, 1, key, direction="LEFT", count=AT_ONCE)
    return [messages.decode_control(raw) for raw in received[1]] if received else []


async def cancelled(redis: Client, incarnation: str) -> set[str]:
    """Generations that a replica was told to end, in messages that it has not taken."""
    left = await redis.lrange(redis_keys.control(incarnation), 0, -1)
    told = [messages.decode_control(raw) for raw in left]
    return {message.generation_id for message in told if isinstance(message, Cancel)}
