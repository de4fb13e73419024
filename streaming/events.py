"""Wire shapes of the chat socket: JSON text frames, protocol version 1. docs/api.md describes them
for clients.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from inference.messages import Finished
from inference.services.catalog import ModelState
from kernel.errors import BadRequest, PlatformError

PROTOCOL = 1
MAX_TEXT = 200_000
# The client's own mark, given back as it came.
Ref = Annotated[str, Meta(min_length=1, max_length=64)]
# An id of ours. PostgreSQL cannot even look for some characters.
Id = Annotated[str, Meta(max_length=64, pattern="^[0-9a-z_]+$")]


class Send(Struct, frozen=True, tag="send", tag_field="type"):
    """Say something: in a conversation, or, with none named, in a new one."""

    ref: Ref
    model: Annotated[str, Meta(max_length=100)]
    text: Annotated[str, Meta(max_length=MAX_TEXT)]
    conversation: Id | None = None


class Stop(Struct, frozen=True, tag="stop", tag_field="type"):
    """End an answer that this socket receives."""

    generation: Id


_decoder = msgspec.json.Decoder(Send | Stop)


def parse(frame: str) -> Send | Stop:
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


def waiting(generation: str, position: int) -> Event:
    return {"type": "waiting", "generation": generation, "position": position}


def tokens(generation: str, seq: int, text: str) -> Event:
    return {"type": "tokens", "generation": generation, "seq": seq, "text": text}


def finished(generation: str, final: Finished) -> Event:
    usage = final.usage
    return {
        "type": "finished",
        "generation": generation,
        "seq": final.seq,
        "finish_reason": final.finish_reason,
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
