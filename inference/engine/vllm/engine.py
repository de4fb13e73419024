"""vLLM in process: AsyncLLM here, its EngineCore and workers in child processes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from vllm import SamplingParams
from vllm.config import StructuredOutputsConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.inputs import TokensPrompt
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from inference.engine.protocol import (
    LOWEST_RANK,
    Capabilities,
    Delta,
    EngineDead,
    EngineError,
    EngineRequest,
    FinishReason,
    GrammarFailed,
    KVCache,
    Load,
    Sampling,
    Yielded,
)
from inference.engine.vllm.combinations import BACKEND
from inference.engine.vllm.detokenizing import end, prime_detokenizers
from inference.engine.vllm.restoring import extra_args
from inference.engine.vllm.scheduler import FLOOR

log = logging.getLogger(__name__)

SCHEDULER = "inference.engine.vllm.scheduler.HoldScheduler"
WORKER = "inference.engine.vllm.worker.Extension"
FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "abort": "cancelled",
    "repetition": "stop",
}


class VllmEngine:
    """Holds requests, and gives slots to higher classes, by our own scheduler class; restores by
    telling vLLM which tokens were made before.
    """

    def __init__(
        self,
        model: Path,
        *,
        context_tokens: int,
        arguments: dict[str, Any],
        class_floor: float,
    ) -> None:
        """model: folder of weights and tokenizer; arguments: extra engine arguments by vLLM's
        names; class_floor: of the steps of the classes above, what a class that waits gets at least
        """
        self._arguments = {
            "model": str(model),
            "max_model_len": context_tokens,
            "enforce_eager": True,
            "disable_log_stats": True,
            "scheduling_policy": "priority",
            "scheduler_cls": SCHEDULER,
            "worker_extension_cls": WORKER,
            **arguments,
            "structured_outputs_config": _grammars(arguments),
            "additional_config": {FLOOR: class_floor} | arguments.get("additional_config", {}),
        }
        # What a shorter type rounds depends on what else is in a step; a prompt is another step.
        in_full = self._arguments.get("dtype") == "float32"
        by_itself = not self._arguments.get("speculative_config")
        self.capabilities = Capabilities(
            True, True, in_full and by_itself, grammar=True, yields=True, kv_cache=True
        )
        self._context_tokens = context_tokens
        self._llm: AsyncLLM | None = None
        # generation id -> rank, and tokens to prefill, none once it has made one
        self._requests: dict[str, tuple[int, int]] = {}

    async def start(self) -> None:
        try:
            self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments))
        except Exception as error:
            raise EngineDead(f"vLLM did not start: {error}") from error
        prime_detokenizers(self._llm)

    async def stop(self) -> None:
        if self._llm is not None:
            self._llm.shutdown()
            self._llm = None

    def submit(self, request: EngineRequest) -> AsyncGenerator[Delta, None]:
        return self.restore(request, [], "")

    async def restore(
        self, request: EngineRequest, output_token_ids: list[int], text: str
    ) -> AsyncGenerator[Delta, None]:
        params = _sampling_params(request.sampling)
        params.extra_args = extra_args(output_token_ids, text)
        if last := end(self._started, request.prompt_token_ids, params):
            yield last
            return
        prefill = len(request.prompt_token_ids) + len(output_token_ids)
        if prefill >= self._context_tokens:
            # vLLM checks a prompt alone, and its engine would end over the rest.
            raise EngineError(f"{prefill} tokens leave no room in {self._context_tokens}.")
        outputs = self._started.generate(
            TokensPrompt(prompt_token_ids=request.prompt_token_ids, cache_salt=request.cache_salt),
            params,
            request.generation_id,
            priority=request.rank,
        )
        self._requests[request.generation_id] = request.rank, prefill
        cached = 0
        try:
            with _translated(request.sampling):
                async for output in outputs:
                    made = output.outputs[0]
                    if self._requests[request.generation_id][1]:
                        self._requests[request.generation_id] = request.rank, 0
                        cached = output.num_cached_tokens or 0
                    reason = _finish_reason(made.finish_reason, request.sampling)
                    yield Delta(made.text, tuple(made.token_ids), reason, cached)
        finally:
            await outputs.aclose()
            self._requests.pop(request.generation_id, None)

    async def abort(self, generation_id: str) -> None:
        await self._started.abort(generation_id)

    async def hold(self, generation_id: str) -> None:
        await self._tell_scheduler("nehir_hold", generation_id)

    async def release(self, generation_id: str) -> None:
        await self._tell_scheduler("nehir_release", generation_id)

    async def held_shares(self) -> dict[str, float]:
        """By the schedulers' own count of blocks; with data parallelism there are several."""
        answers = await self._ask_schedulers("nehir_held_shares")
        known = self._started.output_processor.request_states
        return {
            known[request_id].external_req_id: share / len(answers)
            for shares in answers
            for request_id, share in shares.items()
            if request_id in known
        }

    async def limit(self, requests: int | None) -> None:
        await self._ask_schedulers("nehir_limit", requests)

    async def yielded(self) -> Yielded:
        answers = await self._ask_schedulers("nehir_yielded")
        known = self._started.output_processor.request_states
        now = [
            known[name].external_req_id for _, names in answers for name in names if name in known
        ]
        return Yielded(sum(times for times, _ in answers), frozenset(now))

    async def kv_cache(self) -> KVCache:
        """Asked for: vLLM's own figures come with its statistics, which cost every step."""
        answers = [KVCache(*each) for each in await self._ask_schedulers("nehir_kv_cache")]
        return KVCache(
            used_blocks=sum(each.used_blocks for each in answers),
            total_blocks=sum(each.total_blocks for each in answers),
            block_tokens=answers[0].block_tokens,
            preemptions=sum(each.preemptions for each in answers),
        )

    async def _ask_schedulers(self, what: str, *args: Any) -> list[Any]:
        """An answer of each."""
        try:
            return list(await self._started.engine_core.call_utility_all_async(what, *args))
        except EngineDeadError as error:
            raise EngineDead(str(error)) from error

    async def _tell_scheduler(self, what: str, generation_id: str) -> None:
        """AsyncLLM gives each request an internal id, by which alone the scheduler knows it."""
        llm = self._started
        for request_id in list(llm.output_processor.external_req_ids.get(generation_id, ())):
            try:
                await llm.engine_core.call_utility_async(what, request_id)
            except EngineDeadError as error:
                raise EngineDead(str(error)) from error

    def load(self, *, lowest_rank: int = LOWEST_RANK) -> Load:
        found = [tokens for rank, tokens in self._requests.values() if rank <= lowest_rank]
        prefilling = [tokens for tokens in found if tokens]
        running = len(found) - len(prefilling)
        return Load(running, waiting=len(prefilling), waiting_tokens=sum(prefilling))

    async def health(self) -> None:
        try:
            await self._started.check_health()
        except EngineDeadError as error:
            raise EngineDead(str(error)) from error

    @property
    def _started(self) -> AsyncLLM:
        if self._llm is None:
            raise EngineDead("vLLM has not been started.")
        return self._llm


@contextlib.contextmanager
def _translated(sampling: Sampling) -> Iterator[None]:
    """vLLM's errors over one request as the contract's."""
    try:
        yield
    except EngineDeadError as error:
        raise EngineDead(str(error)) from error
    except EngineError:
        raise
    except VLLMValidationError as error:
        kind = EngineError if sampling.json_schema is None else GrammarFailed
        raise kind(str(error)) from error
    except Exception as error:
        raise EngineError(str(error)) from error


def _sampling_params(sampling: Sampling) -> SamplingParams:
    return SamplingParams(
        max_tokens=sampling.max_tokens,
        min_tokens=sampling.min_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        seed=sampling.seed,
        stop=list(sampling.stop),
        structured_outputs=_grammar(sampling),
        output_kind=RequestOutputKind.DELTA,
    )


def _grammar(sampling: Sampling) -> StructuredOutputsParams | None:
    if sampling.json_schema is None:
        return None
    return StructuredOutputsParams(json=sampling.json_schema)


def _grammars(arguments: dict[str, Any]) -> StructuredOutputsConfig:
    """One compiler, the one that requests are checked by: left to itself vLLM keeps the one that
    its first request needs. No white space between values, of which a model may make no end.
    """
    given = arguments.get("structured_outputs_config", {})
    ours = {"backend": BACKEND, "disable_any_whitespace": True}
    return StructuredOutputsConfig(**(ours | given))


def _finish_reason(reason: str | None, sampling: Sampling) -> FinishReason | None:
    """Ours for vLLM's. Raises EngineError for its `error` and for words it may add later."""
    if reason is None:
        return None
    if reason == "error" and sampling.json_schema is not None:
        raise GrammarFailed("vLLM ended the request over its grammar.")
    if reason not in FINISH_REASONS:
        raise EngineError(f"vLLM ended the request with {reason!r}.")
    return FINISH_REASONS[reason]
