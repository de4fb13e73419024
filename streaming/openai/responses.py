"""The JSON that chat completions and models answer with."""

from __future__ import annotations

from typing import Any

from inference.messages import Finished, Usage
from inference.pipeline.admission import Admitted
from inference.services.catalog import Target

# Ours for a cancelled answer; OpenAI has no word for it, and clients take `stop` as an end.
FINISH_REASONS = {"stop": "stop", "length": "length", "cancelled": "stop"}


def usage_body(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def chunk(
    admitted: Admitted, delta: dict[str, str], *, finish_reason: str | None = None
) -> dict[str, Any]:
    """One piece of a streamed answer."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _envelope(admitted, "chat.completion.chunk") | {"choices": [choice]}


def usage_chunk(admitted: Admitted, usage: Usage) -> dict[str, Any]:
    """The chunk behind the last one, when usage was asked for: it has no choices."""
    body = _envelope(admitted, "chat.completion.chunk")
    return body | {"choices": [], "usage": usage_body(usage)}


def completion(admitted: Admitted, text: str, final: Finished) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "logprobs": None,
        "finish_reason": FINISH_REASONS[final.finish_reason],
    }
    body = _envelope(admitted, "chat.completion")
    return body | {"choices": [choice], "usage": usage_body(final.usage)}


def model(target: Target) -> dict[str, Any]:
    return {"id": target.name, "object": "model", "created": target.created, "owned_by": "nehir"}


def _envelope(admitted: Admitted, kind: str) -> dict[str, Any]:
    return {
        "id": admitted.generation_id,
        "object": kind,
        "created": int(admitted.created_at.timestamp()),
        "model": admitted.model,
        "system_fingerprint": admitted.release_id,
    }
