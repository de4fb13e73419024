"""vLLM's scheduler, ours, without a model: steps are made here, one after the other."""

from __future__ import annotations

import functools
import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

from inference.engine.factory import VLLM_ENVIRONMENT

CONTEXT_TOKENS = 160
BLOCK = 16
# As small as a configuration may be; nothing is ever loaded.
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 1000,
    "max_position_embeddings": CONTEXT_TOKENS,
    "torch_dtype": "float32",
}


def token(request_id: str, position: int) -> int:
    return zlib.crc32(f"{request_id} {position}".encode()) % 1000


@functools.cache
def _config(slots: int, floor: float) -> Any:
    os.environ |= VLLM_ENVIRONMENT
    from vllm.engine.arg_utils import AsyncEngineArgs

    from inference.engine.vllm.scheduler import FLOOR

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(LLAMA))
        return AsyncEngineArgs(
            model=folder,
            skip_tokenizer_init=True,
            block_size=BLOCK,
            max_model_len=CONTEXT_TOKENS,
            max_num_seqs=slots,
            max_num_batched_tokens=64,
            scheduling_policy="priority",
            additional_config={FLOOR: floor},
        ).create_engine_config()


class Steps:
    """A scheduler with `slots` and `blocks` of 16 tokens. Each request's next token depends on its
    name and on how many it has, so whatever is lost, repeated or mixed up shows.

    made: what each request was given, by name; batches: who was in each step
    """

    def __init__(
        self, *, slots: int, blocks: int, floor: float, scheduler: type[Any] | None = None
    ) -> None:
        """scheduler: another than ours"""
        config = _config(slots, floor)
        import torch
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        from inference.engine.vllm.scheduler import HoldScheduler

        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(BLOCK, sha256)
        config.cache_config.num_gpu_blocks = blocks + 1
        spec = FullAttentionSpec(
            block_size=BLOCK, num_kv_heads=1, head_size=64, dtype=torch.float32
        )
        self.scheduler = (scheduler or HoldScheduler)(
            config,
            KVCacheConfig(blocks + 1, [], [KVCacheGroupSpec(["layer"], spec)]),
            StructuredOutputManager(config),
            block_size=BLOCK,
            hash_block_size=BLOCK,
        )
        self.made: dict[str, list[int]] = {}
        self.batches: list[set[str]] = []
        self._arrivals = 0

    def submit(self, name: str, *, rank: int, tokens: int, prompt: int = 10) -> None:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        self._arrivals += 1
        params = SamplingParams(max_tokens=tokens, min_tokens=tokens, ignore_eos=True)
        made = Request(
            name,
            [1] * prompt,
            params,
            None,
            arrival_time=self._arrivals,
            # Nobody's prefix is anybody else's.
            cache_salt=name,
            priority=rank,
            block_hasher=self._hasher,
        )
        self.made[name] = []
        self.scheduler.add_request(made)

    def step(self) -> set[str]:
        """Who was in it."""
        from vllm.v1.outputs import ModelRunnerOutput

        scheduler = self.scheduler
        output = scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        sampled = [self._sampled(scheduler.requests[name]) for name in names]
        place = {name: n for n, name in enumerate(names)}
        told = scheduler.update_from_output(output, ModelRunnerOutput(names, place, sampled))
        for outputs in told.values():
            for each in outputs.outputs:
                self.made[each.request_id] += each.new_token_ids
        self.batches.append(set(names))
        return set(names)

    def _sampled(self, request: Any) -> list[int]:
        """None before the end of what is to be prefilled."""
        if request.num_computed_tokens < request.num_tokens:
            return []
        return [token(request.request_id, request.num_output_tokens)]

    def abort(self, name: str) -> None:
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    @property
    def unfinished(self) -> set[str]:
        return set(self.scheduler.requests)

    @property
    def free_blocks(self) -> int:
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())
