"""What is asked for, and what the stages make of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from inference.engine.chat_template import Message
from inference.engine.protocol import Sampling
from inference.messages import Detached, QueuedRequest
from inference.services.catalog import Target
from inference.services.replays import Identity
from kernel.ids import new_id
from tenants.principal import Principal
from tenants.priority import PriorityClass


@dataclass(slots=True)
class Admission:
    """model, messages, sampling: what was asked for; max_tokens of None means the default.

    high_water_tokens: how far the answer may be ahead of its reader, if less than it might
    detached: what becomes of it without a reader; None is the route's policy
    priority: which class it is to be served in; None is the tenant's default
    identity: what makes it the same as an earlier request, if that one is to answer it

    target, prompt_token_ids, request: set by the stages, in this order
    queue_place: place in the queue on arrival, 1 being next
    """

    principal: Principal
    model: str
    messages: list[Message]
    sampling: Sampling
    max_tokens: int | None
    now: datetime
    conversation_id: str = ""
    high_water_tokens: int | None = None
    detached: Detached | None = None
    priority: PriorityClass | None = None
    identity: Identity | None = None
    generation_id: str = field(default_factory=lambda: new_id("gen"))
    target: Target | None = None
    prompt_token_ids: list[int] = field(default_factory=list)
    request: QueuedRequest | None = None
    queue_place: int = 0


@dataclass(frozen=True, slots=True)
class Admitted:
    """A generation on its way: where to read it and how to end it.

    new: it has just been queued by this process
    key_id: the API key that it was asked with; None for a person's session
    """

    tenant_id: str
    generation_id: str
    release_id: str
    model: str
    prompt_tokens: int
    created_at: datetime
    high_water_tokens: int
    detached: Detached
    new: bool = False
    key_id: str | None = None
