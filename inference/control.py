"""Messages to the replica that runs a generation."""

from __future__ import annotations

from inference import messages, redis_keys
from inference.messages import Cancel
from kernel.redis import Client

# A message to a replica that is gone must not stay.
TTL_S = 60


async def send(redis: Client, incarnation: str, message: Cancel) -> None:
    pipeline = redis.pipeline(transaction=False)
    pipeline.rpush(redis_keys.control(incarnation), messages.encode(message))
    pipeline.expire(redis_keys.control(incarnation), TTL_S)
    await pipeline.execute()


async def receive(redis: Client, incarnation: str, *, timeout_s: float) -> Cancel | None:
    """The next message, or None after the timeout."""
    received = await redis.blpop([redis_keys.control(incarnation)], timeout=timeout_s)
    return messages.decode_control(received[1]) if received else None
