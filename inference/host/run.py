"""One generation in the hands of an engine host."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from inference.engine.protocol import FinishReason
from inference.host.flow import Flow
from inference.host.writer import Tail
from inference.messages import (
    Failed,
    Finished,
    Progress,
    QueuedRequest,
    Restored,
    Suspended,
    SuspendReason,
    Usage,
)
from tenants.priority import RANKS


@dataclass(slots=True)
class Run:
    """taken_at: when the host took it, in seconds of its monotonic clock
    in_engine: the engine has been asked for it
    decoding: the engine has given something
    token_at: when its last tokens came, None after a pause; held_at: when it was last held; both by
    the same clock
    dropped: another has it
    charged: how many of its tokens its tenant is charged for
    go_on: set whenever a run that an engine can't hold, and so waits unread, has to look again
    """

    request: QueuedRequest
    tail: Tail
    flow: Flow
    taken_at: float
    restores_exactly: bool = True
    cached_tokens: int = 0
    charged: int = 0
    cancelled: bool = False
    suspending: SuspendReason | None = None
    ending: bool = False
    in_engine: bool = False
    decoding: bool = False
    token_at: float | None = None
    held_at: float = 0.0
    dropped: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, request: QueuedRequest, *, now: float, restores_exactly: bool = True) -> Run:
        """A run at its request's beginning, or where its progress left off."""
        tail = Tail(request.tenant_id, request.generation_id, request.turn)
        flow = Flow(request.high_water_tokens, request.detached, seen_at=now)
        run = cls(request, tail, flow, now, restores_exactly)
        if progress := request.progress:
            tail.seq, flow.consumed = len(progress.token_ids), progress.consumed
            tail.text.append(progress.text)
            tail.pending_text.append(progress.pending)
            tail.token_ids.extend(progress.token_ids)
            run.cached_tokens = progress.cached_tokens
            run.charged = tail.seq
        return run

    @property
    def id(self) -> str:
        return self.request.generation_id

    @property
    def rank(self) -> int:
        return RANKS[self.request.priority_class]

    @property
    def shares_steps(self) -> bool:
        return not (self.flow.held or self.ending)

    @property
    def waits_for_engine(self) -> bool:
        return self.in_engine and self.shares_steps

    @property
    def is_held_in_engine(self) -> bool:
        return self.in_engine and self.flow.held and not self.ending and self.suspending is None

    @property
    def text(self) -> str:
        return "".join(self.tail.text)

    def enter_engine(self) -> None:
        """What no entry of the log has yet, the engine says again."""
        self.in_engine = True
        if self.tail.pending_text:
            self.tail.text = [self.request.logged_text]
            self.tail.pending_text.clear()

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.engine_request.prompt_token_ids)

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt_tokens, self.tail.seq, self.cached_tokens)

    def resumable(self) -> QueuedRequest:
        """The request that goes on from here."""
        progress = Progress(
            token_ids=list(self.tail.token_ids),
            text=self.text,
            cached_tokens=self.cached_tokens,
            pending="".join(self.tail.pending_text),
            consumed=self.flow.consumed,
        )
        return msgspec.structs.replace(self.request, progress=progress)

    def finished(self, reason: FinishReason) -> Finished:
        return Finished(self.tail.seq, "", reason, self.usage, self._restored)

    @property
    def _restored(self) -> Restored | None:
        if not (self.in_engine and self.request.seq):
            return None
        return "exact" if self.restores_exactly else "inexact"

    def failed(self, code: str, message: str, *, retryable: bool) -> Failed:
        return Failed(self.tail.seq, code, message, retryable, self.usage)

    def suspended(self, reason: SuspendReason) -> Suspended:
        return Suspended(self.tail.seq, "", reason, self.usage)
