"""A request that comes again is answered by the generation of the first time, and billed once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from inference import messages
from inference.engine.protocol import EngineRequest
from inference.models import Generation, ReplayKey, State
from kernel.errors import Conflict
from tenants import scope
from tenants.principal import Principal


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two requests the same. Digests are 64 hex digits."""

    key_digest: str
    body_digest: str


class Replayed(Exception):
    """Not an error: the request is answered by a generation that exists. `args[0]` is its id."""

    @property
    def generation_id(self) -> str:
        return str(self.args[0])


def by_key(key: str, body: bytes) -> Identity:
    """Of a request with an Idempotency-Key."""
    return Identity(_digest(b"key:" + key.encode()), _digest(body))


def by_content(release_id: str, request: EngineRequest) -> Identity:
    """Of a request that can only have one answer."""
    same = (release_id, request.prompt_token_ids, request.sampling)
    digest = _digest(messages.encode(same))
    return Identity(_digest(b"content:" + digest.encode()), digest)


def claim(identity: Identity, principal: Principal, generation_id: str, *, now: datetime) -> None:
    """Make this generation the answer to the request, inside the transaction that records it.

    Raises Replayed if another one is, Conflict `idempotency_conflict` if the key was used for
    another request. What has failed or is past its time is no answer.
    """
    made, is_new = ReplayKey.objects.select_for_update().get_or_create(
        tenant_id=principal.tenant_id,
        principal=principal.name,
        key_digest=identity.key_digest,
        defaults={
            "body_digest": identity.body_digest,
            "generation_id": generation_id,
            "expires_at": now + timedelta(seconds=settings.REPLAY_TTL_S),
        },
    )
    if is_new:
        return
    if generation_id_before := _answer(made, identity, now):
        raise Replayed(generation_id_before)
    made.body_digest, made.generation_id = identity.body_digest, generation_id
    made.expires_at = now + timedelta(seconds=settings.REPLAY_TTL_S)
    made.save()


def answer_to(identity: Identity, principal: Principal, *, now: datetime) -> str | None:
    """The generation that answers the request already, within the tenant's scope.

    Raises Conflict `idempotency_conflict` if the key was used for another request.
    """
    made: ReplayKey | None = ReplayKey.objects.filter(
        principal=principal.name, key_digest=identity.key_digest
    ).first()
    return _answer(made, identity, now) if made else None


def _answer(made: ReplayKey, identity: Identity, now: datetime) -> str | None:
    if made.expires_at <= now or _has_failed(made.generation_id):
        return None
    if made.body_digest != identity.body_digest:
        raise Conflict(
            "This Idempotency-Key was used for another request.", code="idempotency_conflict"
        )
    return made.generation_id


def _has_failed(generation_id: str) -> bool:
    broken_off = (State.FAILED, State.CANCELLED)
    return Generation.objects.filter(id=generation_id, state__in=broken_off).exists()


def forget_expired(now: datetime, *, dry_run: bool = False) -> int:
    """How many keys, of all tenants, were past their time."""
    with scope.whole_platform():
        expired = ReplayKey.objects.filter(expires_at__lte=now)
        if dry_run:
            return expired.count()
        gone, _ = expired.delete()
        return gone


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
