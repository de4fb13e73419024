"""vLLM's model runner V1 with one thing more: it takes over requests whose first tokens were made
elsewhere (`restoring.py`).

Loaded by name (`worker_extension_cls`) inside each worker's process, which is when what lies below
takes the place of vLLM's own. Model runner V2 has no such class and needs none.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.worker import gpu_model_runner
from vllm.v1.worker.gpu_input_batch import CachedRequestState

from inference.engine.vllm.restoring import made

# What one draw moves a CUDA generator by, in vLLM's own reckoning.
CUDA_DRAW = 4


class RestoredState(CachedRequestState):  # type: ignore[misc]
    """A request as a worker keeps it. What was made before is output from the beginning, and a
    seeded generator is where it was.
    """

    generator: Any
    output_token_ids: list[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        tokens = made(self.sampling_params)
        self.output_token_ids.extend(tokens)
        if self.generator is None:
            return
        if self.generator.device.type == "cpu":
            self.generator = CpuGenerator.at(self.generator.initial_seed(), self.output_token_ids)
        else:
            self.generator.set_offset(self.generator.get_offset() + CUDA_DRAW * len(tokens))


class CpuGenerator(torch.Generator):  # type: ignore[misc]
    """A request's generator that has drawn once for each of its output tokens.

    The draws of a prompt's chunks are thrown away, and vLLM takes them back by an offset, which a
    CPU's generator has not: with upstream's a long prompt with a seed ends the engine.
    """

    seed_: int
    drawn: list[int]

    @classmethod
    def at(cls, seed: int, output_token_ids: list[int]) -> CpuGenerator:
        generator = cls(device="cpu")
        generator.seed_, generator.drawn = seed, output_token_ids
        generator.set_offset(0)
        return generator

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> None:
        """To where it is after the request's output, whatever `offset` says."""
        self.manual_seed(self.seed_)
        for _ in self.drawn:
            # As vLLM's `TopKTopPSampler.forward_cpu` draws.
            torch.randint(0, 2**31, (1,), generator=self, dtype=torch.long)


class Extension:
    """Adds nothing to vLLM's worker: naming it has this module imported there."""

    def nehir_restores(self) -> bool:
        return True


gpu_model_runner.CachedRequestState = RestoredState
