"""Text across the seam of a restored request (`restoring.py`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vllm import SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

from inference.engine.protocol import Delta, FinishReason
from inference.engine.vllm.restoring import made, told


def prime_detokenizers(llm: AsyncLLM) -> None:
    """Have this engine's detokenizers begin with the tokens that were made before: as each request
    is added, before anything can come back for it.
    """
    processor = llm.output_processor
    add = processor.add_request

    def add_primed(request: Any, *args: Any, **kwargs: Any) -> None:
        add(request, *args, **kwargs)
        if tokens := made(request.sampling_params):
            detokenizer = processor.request_states[request.request_id].detokenizer
            detokenizer.update(tokens, False)
            _go_on_behind(detokenizer, request.sampling_params)

    processor.add_request = add_primed


def end(llm: AsyncLLM, prompt: list[int], params: SamplingParams) -> Delta | None:
    """The last delta of a request that was over when its engine was lost: its last token was made,
    and nobody has said so. None if it goes on.
    """
    tokens = made(params)
    if not tokens:
        return None
    own = params.clone()
    fields = llm.input_processor.generation_config_fields
    own.update_from_generation_config(fields, llm.renderer.get_eos_token_id())
    is_last = tokens[-1] in (own.eos_token_id, *(own.stop_token_ids or ()))
    request = SimpleNamespace(
        request_id="restored", prompt_token_ids=prompt, prompt_embeds=None, sampling_params=own
    )
    detokenizer = IncrementalDetokenizer.from_new_request(llm.output_processor.tokenizer, request)
    found = detokenizer.update(tokens, is_last)
    reason: FinishReason | None = None
    if is_last or found is not None:
        reason = "stop"
    elif len(tokens) >= params.max_tokens:
        reason = "length"
    if reason is None:
        return None
    _go_on_behind(detokenizer, own)
    return Delta(detokenizer.get_next_output_text(True, True), (), reason)


def _go_on_behind(detokenizer: Any, params: SamplingParams) -> None:
    """Of its text, tell what lies behind what was told."""
    detokenizer._last_output_text_offset = told(params)  # noqa: SLF001 - it has no setter
