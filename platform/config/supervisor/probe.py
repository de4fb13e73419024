"""Whether what was started answers yet."""

from __future__ import annotations

import httpx
from django.conf import settings

from config.supervisor.supervisor import Child
from inference import registry
from inference.messages import ReplicaRecord
from kernel.redis import OUTAGE, connected

TIMEOUT_S = 5.0


async def redis_answers() -> bool:
    try:
        async with connected() as redis:
            return bool(await redis.ping())
    except OUTAGE:
        return False


async def replicas() -> list[ReplicaRecord] | None:
    """The engines' own account of themselves; None while Redis doesn't answer."""
    try:
        async with connected() as redis:
            return await registry.replicas(redis)
    except OUTAGE:
        return None


async def serves(child: Child) -> bool:
    """Whether a child that was started takes work: an engine has made a token, a web process
    accepts connections, of others nothing more is known than that they run.
    """
    if child.process is None or not child.process.has_told_ready:
        return False
    slot = child.service.replica
    return slot is None or any(
        record.replica == slot and record.state == "ready" for record in await replicas() or []
    )


async def web_answers(url: str, path: str) -> bool:
    """Whether the path is served with status 200."""
    # No proxy of the environment stands between this machine and itself.
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as client:
        try:
            reply = await client.get(url + path, headers=_host())
        except httpx.HTTPError:
            return False
    return reply.status_code == httpx.codes.OK


def _host() -> dict[str, str]:
    """A host that Django lets in, where it doesn't let in all."""
    first = next(iter(settings.ALLOWED_HOSTS), "*").lstrip(".")
    return {} if first == "*" else {"Host": first}
