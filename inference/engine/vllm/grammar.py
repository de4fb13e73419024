"""Grammars that fail while an answer is made, inside EngineCore's process."""

from __future__ import annotations

from vllm.v1.structured_output import backend_guidance


class FailingGrammar(backend_guidance.GuidanceGrammar):  # type: ignore[misc]
    """vLLM's, but for one thing: when the compiler gives up, over a pattern with too many states
    for example, it allows nothing but the end of the answer, and vLLM's takes that for one that is
    whole. This one refuses it, so that the scheduler ends the request with an error.
    """

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        return not self.ll_matcher.is_error() and bool(super().accept_tokens(request_id, tokens))


def fail_instead_of_ending() -> None:
    backend_guidance.GuidanceGrammar = FailingGrammar
