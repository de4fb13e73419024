"""Who is asking: the outcome of authentication, which everything after it is decided by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from tenants.key_scopes import DEFAULT, KeyScope
from tenants.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class Principal:
    """kind and id name the person or application: `user:<pk>` or `service_account:<id>`.

    tenant_id: the one tenant it acts in
    key_id: the API key used, None for a session
    high_water_tokens: how far answers may be ahead of its readers; None for the platform's default
    weight: how large its tenant's fair share is beside that of one with weight 1
    default_priority, highest_priority: of requests that ask for none; what they may ask for
    scopes: what it may do
    models: public names of the models it may ask; None for all

    Rights are checked by `tenants.authorization` alone.
    """

    tenant_id: str
    kind: Literal["user", "service_account"]
    id: str
    key_id: str | None = None
    high_water_tokens: int | None = None
    weight: float = 1.0
    default_priority: PriorityClass = "standard"
    highest_priority: PriorityClass = "interactive"
    scopes: frozenset[KeyScope] = DEFAULT
    models: frozenset[str] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.id}"


# Who does something to the platform's state; None is the platform itself (the demo's seed, a task).
Actor = Principal | AbstractBaseUser | None
# What Django's middleware calls a user.
Visitor = AbstractBaseUser | AnonymousUser


def actor_name(actor: Actor) -> str:
    """An actor's name in logs and audit: `user:<pk>`, `service_account:<id>`, `system`."""
    if actor is None:
        return "system"
    return actor.name if isinstance(actor, Principal) else f"user:{actor.pk}"
