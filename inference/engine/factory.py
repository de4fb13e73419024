"""An engine for a release's fields."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from inference.engine.fake import FakeEngine
from inference.engine.protocol import Engine, EngineDead
from inference.engine.vllm.combinations import refusal

# Read by vLLM when it is imported. Nothing is reported to anybody, and nothing is fetched from a
# hub at run time.
VLLM_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def fake_engine(*, ttft_ms: float, itl_ms: float, slots: int, class_floor: float) -> Engine:
    return FakeEngine(
        ttft_s=ttft_ms / 1000, itl_s=itl_ms / 1000, slots=slots, class_floor=class_floor
    )


def vllm_engine(
    model: Path,
    *,
    context_tokens: int,
    arguments: dict[str, Any],
    kv_cache_gib: int,
    slots: int,
    class_floor: float,
) -> Engine:
    """vLLM on whatever hardware there is. Importing it takes about ten seconds, so only engine
    hosts do. Raises EngineDead with the reason for arguments that don't go together with Nehir's.

    slots: requests in a step at most, unless the arguments say so themselves (`max_num_seqs`)
    """
    if reason := refusal(arguments):
        raise EngineDead(reason)
    for name, value in VLLM_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(kv_cache_gib))

    from inference.engine.vllm.engine import VllmEngine

    # vLLM refuses more requests in a step than tokens.
    slots = min(slots, arguments.get("max_num_batched_tokens") or slots)
    return VllmEngine(
        model,
        context_tokens=context_tokens,
        arguments={"max_num_seqs": slots} | arguments,
        class_floor=class_floor,
    )
