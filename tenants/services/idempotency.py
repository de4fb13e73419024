"""A change that is asked for again with the same Idempotency-Key is answered as the first time, and
made once.

A claim is committed first, so that who comes meanwhile is told to wait. What was done and the
answer to it are committed together: if the process dies in between, nothing was done, and the claim
lapses.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings

from kernel.database import writing
from kernel.errors import Conflict
from tenants.models import IdempotencyKey

# Longer than any request takes: after that, whoever claimed the key is dead.
CLAIM_S = 60.0
RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Reply:
    """body: JSON, or empty"""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to carry a request out."""

    pk: int
    token: str


def begin(*, principal: str, key: str, request: bytes, now: datetime) -> Claim | Reply:
    """The right to carry the request out, or the answer that it had.

    request: all that makes it what it is

    Raises Conflict: `idempotency_conflict` if the key was used for another request,
    `idempotency_in_progress` while the first is being carried out.
    """
    fresh = {
        "request_digest": _digest(request),
        "claim": secrets.token_hex(16),
        "claimed_at": now,
        "status": None,
        "body": "",
        "headers": {},
        "expires_at": now + timedelta(seconds=settings.IDEMPOTENCY_TTL_S),
    }
    with writing():
        row, is_new = IdempotencyKey.objects.select_for_update().get_or_create(
            principal=principal, key_digest=_digest(key.encode()), defaults=fresh
        )
        if not is_new:
            if row.expires_at > now and (reply := _answer(row, fresh["request_digest"], now)):
                return reply
            for name, value in fresh.items():
                setattr(row, name, value)
            row.save()
    return Claim(row.pk, row.claim)


def _answer(row: IdempotencyKey, request_digest: object, now: datetime) -> Reply | None:
    """None for a claim whose holder has died."""
    if row.request_digest != request_digest:
        raise Conflict(
            "This Idempotency-Key was used for another request.", code="idempotency_conflict"
        )
    if row.status is not None:
        return Reply(row.status, row.body, row.headers)
    if row.claimed_at + timedelta(seconds=CLAIM_S) > now:
        raise _in_progress()
    return None


def hold(claim: Claim) -> None:
    """Inside the transaction of what is done: nobody else does it meanwhile. Raises Conflict
    `idempotency_in_progress` if the claim has lapsed and somebody else has it.
    """
    held = IdempotencyKey.objects.select_for_update().filter(pk=claim.pk, claim=claim.token)
    if not held.exists():
        raise _in_progress()


def keep(claim: Claim, reply: Reply) -> None:
    """The answer, inside the same transaction. Its body may hold no secret."""
    IdempotencyKey.objects.filter(pk=claim.pk, claim=claim.token).update(
        status=reply.status, body=reply.body, headers=reply.headers
    )


def give_up(claim: Claim) -> None:
    """Nothing was done: the next one may try."""
    with writing():
        IdempotencyKey.objects.filter(pk=claim.pk, claim=claim.token, status=None).delete()


def forget_expired(now: datetime, *, dry_run: bool = False) -> int:
    """How many were past their time."""
    expired = IdempotencyKey.objects.filter(expires_at__lte=now)
    if dry_run:
        return expired.count()
    gone, _ = expired.delete()
    return gone


def _in_progress() -> Conflict:
    return Conflict(
        "The first request with this Idempotency-Key is still being carried out.",
        code="idempotency_in_progress",
        retry_after_s=RETRY_AFTER_S,
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
