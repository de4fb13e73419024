"""Wire shapes of the chat socket: JSON text frames, protocol version 1. docs/api.md describes them
for clients.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from inference.messages import Finished, SuspendReason
from inference.services.catalog import ModelState
from kernel.errors import BadRequest, PlatformError
from streaming.answer import Frame
from streaming.waiting import Queued

PROTOCOL = 1
MAX_TEXT = 200_000
HighWater = Annotated[int, Meta(ge=1, le=10_000_000)]
# The client's own mark, given back as it came.
Ref = Annotated[str, Meta(min_length=1, max_length=64)]
# An id of ours. PostgreSQL cannot even look for some characters.
Id = Annotated[str, Meta(max_length=64, pattern="^[0-9a-z_]+$")]


class Send(Struct, frozen=True, tag="send", tag_field="type"):
    """Say something: in a conversation, or, with none named, in a new one.

    key: the same message sent again with it is the same message, not another
    """

    ref: Ref
    model: Annotated[str, Meta(max_length=100)]
    text: Annotated[str, Meta(max_length=MAX_TEXT)]
    conversation: Id | None = None
    high_water_tokens: HighWater | None = None
    key: Ref | None = None


class Stop(Struct, frozen=True, tag="stop", tag_field="type"):
    """End an answer of one's own, wherever it is."""

    generation: Id


class Ack(Struct, frozen=True, tag="ack", tag_field="type"):
    """The answer has arrived up to `seq`."""

    generation: Id
    seq: Annotated[int, Meta(ge=0, le=2**53)]


class Resume(Struct, frozen=True, tag="resume", tag_field="type"):
    """Go on with an answer behind `after_seq`."""

    ref: Ref
    generation: Id
    after_seq: Annotated[int, Meta(ge=0, le=2**53)] = 0
    high_water_tokens: HighWater | None = None


class Ping(Struct, frozen=True, tag="ping", tag_field="type"):
    """Say something, so that the client knows that this socket still leads somewhere."""

    ref: Ref


Message = Send | Stop | Ack | Resume | Ping
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def parse(frame: str) -> Message:
    """A client's message. Raises BadRequest."""
    try:
        return _decoder.decode(frame)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"Not a message of protocol {PROTOCOL}: {error}.") from error


def ref_of(frame: str) -> str | None:
    """The `ref` of a message that may be malformed otherwise, so that its sender can tell which was
    refused.
    """
    try:
        fields = msgspec.json.decode(frame)
    except (msgspec.MsgspecError, RecursionError):
        return None
    ref = fields.get("ref") if isinstance(fields, dict) else None
    return ref if isinstance(ref, str) and len(ref) <= 64 else None


Event = dict[str, Any]


def encode(event: Event) -> str:
    return msgspec.json.encode(event).decode()


def hello(models: list[ModelState]) -> Event:
    return {"type": "hello", "protocol": PROTOCOL, "models": _models(models)}


def connection_queued(position: int) -> Event:
    """Before `hello`: the socket waits for its turn, 1 being next."""
    return {"type": "connection_queued", "position": position}


def models_changed(models: list[ModelState]) -> Event:
    return {"type": "models", "models": _models(models)}


def _models(models: list[ModelState]) -> list[dict[str, str]]:
    return [{"name": model.name, "state": model.state} for model in models]


def accepted(ref: str, *, conversation: dict[str, str], generation: str, model: str) -> Event:
    return {
        "type": "accepted",
        "ref": ref,
        "conversation": conversation,
        "generation": generation,
        "model": model,
    }


def resumed(ref: str, *, generation: str, seq: int, model: str) -> Event:
    return {
        "type": "resumed",
        "ref": ref,
        "generation": generation,
        "seq": seq,
        "model": model,
    }


def pong(ref: str) -> Event:
    return {"type": "pong", "ref": ref}


def queued(generation: str, queued: Queued) -> Event:
    return {"type": "queued", "generation": generation, **queued.as_json()}


def gap(generation: str, missed: int) -> Event:
    """So many tokens, before the text that follows, are no longer kept."""
    return {"type": "gap", "generation": generation, "missed": missed}


def interrupted(generation: str, reason: SuspendReason) -> Event:
    """It has no engine just now, and goes on in another by itself."""
    return {"type": "interrupted", "generation": generation, "reason": reason}


def tokens(generation: str, seq: int, text: str) -> Event:
    return {"type": "tokens", "generation": generation, "seq": seq, "text": text}


def finished(generation: str, final: Finished) -> Event:
    usage = final.usage
    return {
        "type": "finished",
        "generation": generation,
        "seq": final.seq,
        "finish_reason": final.finish_reason,
        "restored": final.restored,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.prompt_tokens + usage.output_tokens,
        },
    }


def failed(
    error: PlatformError,
    *,
    ref: str | None = None,
    generation: str | None = None,
    conversation: dict[str, str] | None = None,
) -> Event:
    """conversation: where the question was kept, so that asking again doesn't begin another."""
    return {
        "type": "error",
        "ref": ref,
        "generation": generation,
        "conversation": conversation,
        "error": {"code": error.code, "message": error.message, "retryable": error.retryable},
    }


def of_frame(generation: str, frame: Frame) -> list[Event]:
    """What a frame of an answer says, in this order."""
    told = []
    if frame.missed:
        told.append(gap(generation, frame.missed))
    if frame.text:
        told.append(tokens(generation, frame.seq, frame.text))
    if frame.interrupted:
        told.append(interrupted(generation, frame.interrupted))
    if isinstance(frame.final, Finished):
        told.append(finished(generation, frame.final))
    return told
