"""Wire shapes between web processes, engine hosts and Redis: MessagePack, tagged and versioned.

Sequence numbers count an answer's tokens: an entry's `seq` is the number of tokens in the log up to
and including it, so that positions, credit and bills speak one unit. The entry with seq n lies in
its stream under id `n-0`; entries without tokens of their own follow as `n-1`, `n-2`…

"""

from __future__ import annotations

from typing import Literal

import msgspec

from inference.engine.protocol import EngineRequest, FinishReason
from tenants.priority import PriorityClass

VERSION = 1
# What becomes of an answer that nobody reads: it waits, runs to its end, or is ended.
Detached = Literal["hold", "finish", "cancel"]
# As it would have been undisturbed, or, by rounding, perhaps not quite.
Restored = Literal["exact", "inexact"]
SuspendReason = Literal["detached", "held", "drained", "engine_lost"]


class Usage(msgspec.Struct, frozen=True):
    """prompt_tokens include cached_tokens; output_tokens is the log's own count."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


class Progress(msgspec.Struct, frozen=True):
    """What an answer had come to when it was taken out of an engine; it goes on from there.

    pending: the end of `text` that is in no entry of the log yet
    consumed: how far its furthest reader had read
    """

    token_ids: list[int]
    text: str
    cached_tokens: int = 0
    pending: str = ""
    consumed: int = 0


class QueuedRequest(msgspec.Struct, frozen=True):
    """What a web process hands to whichever engine host pulls it; admitted_at in Unix seconds.

    turn: how often it was put back into its queue; with the incarnation it fences its log off
    engines_lost: how many engines were lost while they ran it
    weight: how large the tenant's fair share is beside that of one with weight 1
    """

    tenant_id: str
    release_id: str
    engine_request: EngineRequest
    admitted_at: float
    high_water_tokens: int
    detached: Detached = "hold"
    progress: Progress | None = None
    turn: int = 0
    engines_lost: int = 0
    priority_class: PriorityClass = "standard"
    weight: float = 1.0
    version: int = VERSION

    @property
    def generation_id(self) -> str:
        return self.engine_request.generation_id

    @property
    def seq(self) -> int:
        """Tokens that the answer has already."""
        return len(self.progress.token_ids) if self.progress else 0

    @property
    def text(self) -> str:
        """Text that the answer has already."""
        return self.progress.text if self.progress else ""

    @property
    def pending(self) -> str:
        """The end of that text that is in no entry of the log yet."""
        return self.progress.pending if self.progress else ""

    @property
    def logged_text(self) -> str:
        """The part of that text that is in entries of the log: what readers have."""
        return self.text.removesuffix(self.pending)

    @property
    def usage(self) -> Usage:
        """What it has come to so far."""
        prompt = len(self.engine_request.prompt_token_ids)
        return Usage(prompt, self.seq, self.progress.cached_tokens if self.progress else 0)


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """First entry: the generation is queued."""

    prompt_tokens: int
    seq: int = 0


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A replica has taken the generation from the queue."""

    incarnation: str
    seq: int = 0


class Tokens(msgspec.Struct, frozen=True, tag="tokens", omit_defaults=True):
    """The tokens of one or more engine steps. The first of them has number seq - len(token_ids) +
    1. cached_tokens: of the prompt, told once.
    """

    seq: int
    text: str
    token_ids: tuple[int, ...]
    cached_tokens: int = 0


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """Last entry of an answer that ended as it should. `text` is what had no token of its own;
    restored: it went on in another engine than it began in.
    """

    seq: int
    text: str
    finish_reason: FinishReason
    usage: Usage
    restored: Restored | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Last entry of an answer that broke off; message is English and safe to show."""

    seq: int
    code: str
    message: str
    retryable: bool
    usage: Usage


class Suspended(msgspec.Struct, frozen=True, tag="suspended"):
    """The generation was taken out of its engine, to go on later: its reader was away for too long,
    or so slow that it was held for too long or kept too much of the engine's memory; its replica is
    being drained; or its engine was lost. `text` is what had no token of its own; no other entry
    has it, and the engine that goes on says it again.
    """

    seq: int
    text: str
    reason: SuspendReason
    usage: Usage

    @property
    def waits_for_reader(self) -> bool:
        """It goes on when it is read on, not by itself."""
        return self.reason in ("detached", "held")


Entry = Opened | Started | Tokens | Suspended | Finished | Failed
Final = Finished | Failed


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """To the replica that runs it: end this generation."""

    generation_id: str


class ReplicaRecord(msgspec.Struct, frozen=True):
    """A replica's own account of itself, renewed by heartbeat.

    incarnation: new for every start of the process; replica: the slot's stable name
    state: loading, ready (has made a token) or draining; since: when it began, in Unix seconds
    batch_tokens, longest_prompt: prompts and answers of what it runs, together; of one
    tokens_per_s: made lately
    output_tokens, holds (for credit), yields (of a slot), restores, takeovers: since its start
    kv_used_blocks, kv_total_blocks: of its engine's KV cache; 0 in all if it can't tell
    limit: how many may run of slots; limit_tokens_per_s: what so many make, 0 while not known
    objective_s: of the p95 between tokens, 0 for none; itl_p95_s: lately, 0 while none come
    """

    replica: str
    incarnation: str
    release_id: str
    release_name: str
    state: str
    running: int = 0
    held: int = 0
    waiting: int = 0
    output_tokens: int = 0
    batch_tokens: int = 0
    longest_prompt: int = 0
    since: float = 0.0
    tokens_per_s: float = 0.0
    holds: int = 0
    restores: int = 0
    takeovers: int = 0
    yields: int = 0
    kv_used_blocks: int = 0
    kv_total_blocks: int = 0
    slots: int = 0
    limit: int = 0
    limit_tokens_per_s: float = 0.0
    objective_s: float = 0.0
    itl_p95_s: float = 0.0
    version: int = VERSION


class Reading(msgspec.Struct, frozen=True, tag="reading"):
    """To the replica that runs it: somebody has read the answer up to `seq` and is there for more.

    reader: the web process that has it
    high_water_tokens: how many tokens beyond `seq` may be made before that reader has read on
    """

    generation_id: str
    reader: str
    seq: int
    high_water_tokens: int


class Left(msgspec.Struct, frozen=True, tag="left"):
    """To the replica that runs it: a web process has no reader of it any more."""

    generation_id: str
    reader: str


Control = Cancel | Reading | Left

_encoder = msgspec.msgpack.Encoder()
_entries: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)
_requests = msgspec.msgpack.Decoder(QueuedRequest)
_controls: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)
_replicas = msgspec.msgpack.Decoder(ReplicaRecord)

encode = _encoder.encode
decode_entry = _entries.decode
decode_request = _requests.decode
decode_control = _controls.decode
decode_replica = _replicas.decode
