"""The audit log's one verb. Whoever changes something calls it, in the same transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.models import Model

from kernel import origin
from tenants import audit_chain, scope
from tenants.audit_actions import AuditAction
from tenants.models import ActorType, AuditHead, AuditOutcome, AuditRecord, Decision
from tenants.principal import Actor, Principal

HEAD = 1
TEXT_CHARACTERS = 500
# What nobody may list, whatever they mean by it.
NEVER = frozenset(
    {
        "answer",
        "content",
        "digest",
        "message",
        "messages",
        "password",
        "prompt",
        "request",
        "secret",
    }
    | {"text", "title", "token"}
)
SECRET = re.compile(r"(?:^|[_-])(?:password|secret|token|credentials?|api[_-]?key)$", re.IGNORECASE)
NOT_KEPT = "(not kept)"


class NoTransaction(Exception):
    """A record was to be written outside the transaction of what it tells of. A bug."""


class NotForTheLog(Exception):
    """A field was listed that no record may hold. A bug."""


@dataclass(frozen=True, slots=True)
class Target:
    """What was done something to. type: a model's name, as `apikey`, or another word for a thing"""

    type: str
    id: str
    version: str = ""
    digest: str = ""


def target_of(row: Model) -> Target:
    return Target(type(row).__name__.lower(), str(row.pk))


def fields_of(row: Model, names: Sequence[str]) -> dict[str, Any]:
    """A row's listed fields as `record` takes them; name a foreign key `<field>_id`."""
    return {name: getattr(row, name) for name in names}


def record(
    action: AuditAction,
    *,
    actor: Actor | AnonymousUser,
    now: datetime,
    tenant_id: str | None,
    target: Model | Target | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    decision: Decision = Decision.ALLOWED,
    reason: str = "",
    outcome: AuditOutcome = AuditOutcome.DONE,
) -> AuditRecord:
    """Append a record. Whoever else appends waits until this transaction has ended, so call it
    last.

    tenant_id: whom it concerns; None for the platform
    before, after: listed fields alone; where both have a field, it is kept if it changed. Never
        what people asked or were answered, nor a secret.

    Raises NoTransaction and NotForTheLog.
    """
    if not connection.in_atomic_block:
        raise NoTransaction("An audit record belongs to the transaction of what it tells of.")
    thing = target_of(target) if isinstance(target, Model) else target or Target("", "")
    old, new = _changed(_plain(before), _plain(after))
    row = AuditRecord(
        at=now,
        tenant_id=tenant_id,
        action=action.value,
        object_type=thing.type,
        object_id=_text(thing.id)[:128],
        object_version=thing.version[:64],
        object_digest=thing.digest[:128],
        before=old,
        after=new,
        decision=decision.value,
        reason=_text(reason)[:200],
        outcome=outcome.value,
        **_actor(actor),
    )
    return _append(row)


def _append(row: AuditRecord) -> AuditRecord:
    with scope.whole_platform():
        head, _ = AuditHead.objects.select_for_update().get_or_create(
            pk=HEAD, defaults={"hash": audit_chain.GENESIS}
        )
        row.seq, row.prev_hash = head.seq + 1, head.hash
        row.hash = audit_chain.digest(row)
        row.save()
        head.seq, head.hash = row.seq, row.hash
        head.save(update_fields=["seq", "hash"])
    return row


def _actor(actor: Actor | AnonymousUser) -> dict[str, Any]:
    """The columns that tell who, and from where."""
    here = origin.current()
    where = {"ip": here.ip[:64], "request_id": here.request_id}
    if isinstance(actor, AnonymousUser):
        return where | {"actor_type": ActorType.ANONYMOUS.value}
    if actor is None:
        method = "command_line" if here.login else ""
        login = _text(here.login)[:32]
        return where | {
            "actor_type": ActorType.SYSTEM.value,
            "actor_id": login,
            "auth_method": method,
        }
    if isinstance(actor, Principal) and actor.kind == "service_account":
        return where | {
            "actor_type": ActorType.SERVICE_ACCOUNT.value,
            "actor_id": actor.id,
            "key_id": actor.key_id or "",
            "auth_method": "api_key",
        }
    person = actor.id if isinstance(actor, Principal) else str(actor.pk)
    return where | {
        "actor_type": ActorType.USER.value,
        "actor_id": person,
        "session": here.session,
        "auth_method": "session",
    }


def _changed(old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    same = {name for name in old.keys() & new.keys() if old[name] == new[name]}
    return (
        {name: value for name, value in old.items() if name not in same},
        {name: value for name, value in new.items() if name not in same},
    )


def _plain(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """Values that every database gives back as they were: a float in PostgreSQL's JSON is not."""
    if forbidden := NEVER & set(fields or ()):
        raise NotForTheLog(f"No audit record may hold {', '.join(sorted(forbidden))}.")
    return {name: _value(value) for name, value in (fields or {}).items()}


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return {_text(str(key)): _inner(str(key), each) for key, each in value.items()}
    return _text(str(value))


def _inner(name: str, value: Any) -> Any:
    """Of a field that is itself a tree, such as an engine's arguments."""
    return NOT_KEPT if name in NEVER or SECRET.search(name) else _value(value)


def _text(text: str) -> str:
    """Bounded, and nothing that PostgreSQL refuses: no NUL, no half of a surrogate pair."""
    short = text[:TEXT_CHARACTERS].replace("\0", "\ufffd")
    return short.encode("utf-8", "replace").decode()
