"""Wire shapes between web processes, engine hosts and Redis: MessagePack, tagged and versioned.

Sequence numbers count an answer's tokens: an entry's `seq` is the number of tokens in the log up to
and including it, so that positions, credit and bills speak one unit. The entry with seq n lies in
its stream under id `n-0`; entries without tokens of their own follow as `n-1`, `n-2`…

"""

from __future__ import annotations

import msgspec

from inference.engine.protocol import EngineRequest, FinishReason

VERSION = 1


class Usage(msgspec.Struct, frozen=True):
    """prompt_tokens include cached_tokens; output_tokens is the log's own count."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


class QueuedRequest(msgspec.Struct, frozen=True):
    """What a web process hands to whichever engine host pulls it; admitted_at in Unix seconds."""

    tenant_id: str
    release_id: str
    engine_request: EngineRequest
    admitted_at: float
    version: int = VERSION

    @property
    def generation_id(self) -> str:
        return self.engine_request.generation_id


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """First entry: the generation is queued."""

    prompt_tokens: int
    seq: int = 0


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A replica has taken the generation from the queue."""

    incarnation: str
    seq: int = 0


class Tokens(msgspec.Struct, frozen=True, tag="tokens"):
    """The tokens of one or more engine steps. The first of them has number seq - len(token_ids) +
    1.
    """

    seq: int
    text: str
    token_ids: tuple[int, ...]


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """Last entry of an answer that ended as it should. `text` is what had no token of its own."""

    seq: int
    text: str
    finish_reason: FinishReason
    usage: Usage


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Last entry of an answer that broke off; message is English and safe to show."""

    seq: int
    code: str
    message: str
    retryable: bool
    usage: Usage


Entry = Opened | Started | Tokens | Finished | Failed
Final = Finished | Failed


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """To the replica that runs it: end this generation."""

    generation_id: str


class ReplicaRecord(msgspec.Struct, frozen=True):
    """A replica's own account of itself, renewed by heartbeat.

    incarnation: new for every start of the process; replica: the slot's stable name
    state: loading, ready (has made a token) or draining
    """

    replica: str
    incarnation: str
    release_id: str
    release_name: str
    state: str
    running: int = 0
    waiting: int = 0
    output_tokens: int = 0
    version: int = VERSION


_encoder = msgspec.msgpack.Encoder()
_entries: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)
_requests = msgspec.msgpack.Decoder(QueuedRequest)
_controls = msgspec.msgpack.Decoder(Cancel)
_replicas = msgspec.msgpack.Decoder(ReplicaRecord)

encode = _encoder.encode
decode_entry = _entries.decode
decode_request = _requests.decode
decode_control = _controls.decode
decode_replica = _replicas.decode
