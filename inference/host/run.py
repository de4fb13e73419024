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
    Suspended,
    SuspendReason,
    Usage,
)


@dataclass(slots=True)
class Run:
    """taken_at: when the host took it, in seconds of its monotonic clock
    charged: how many of its tokens its tenant is charged for
    go_on: set whenever a run that an engine can't hold, and so waits unread, has to look again
    """

    request: QueuedRequest
    tail: Tail
    flow: Flow
    taken_at: float
    cached_tokens: int = 0
    charged: int = 0
    cancelled: bool = False
    suspending: SuspendReason | None = None
    ending: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, request: QueuedRequest, *, now: float) -> Run:
        """A run at its request's beginning, or where its progress left off."""
        tail = Tail(request.tenant_id, request.generation_id)
        flow = Flow(request.high_water_tokens, request.detached, seen_at=now)
        run = cls(request, tail, flow, taken_at=now)
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
    def text(self) -> str:
        return "".join(self.tail.text)

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
        return Finished(seq=self.tail.seq, text="", finish_reason=reason, usage=self.usage)

    def failed(self, code: str, message: str, *, retryable: bool) -> Failed:
        return Failed(self.tail.seq, code, message, retryable, self.usage)

    def suspended(self, reason: SuspendReason) -> Suspended:
        return Suspended(self.tail.seq, "", reason, self.usage)
