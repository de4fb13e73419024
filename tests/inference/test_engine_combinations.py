"""Engine arguments that can't be served say so before vLLM is imported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from inference.engine.factory import vllm_engine
from inference.engine.protocol import EngineDead
from inference.engine.vllm.combinations import REFUSALS, refusal

REFUSED: list[tuple[str, Any]] = [
    ("scheduler_cls", "another.Scheduler"),
    ("scheduler_cls", None),
    ("worker_extension_cls", "another.Extension"),
    ("scheduling_policy", "fcfs"),
    ("enable_lora", True),
    ("structured_outputs_config", {"backend": "xgrammar"}),
    ("structured_outputs_config", "guidance"),
]


@pytest.mark.parametrize(("argument", "value"), REFUSED)
def test_what_does_not_go_together_is_refused_in_one_sentence(argument: str, value: Any) -> None:
    reason = refusal({"dtype": "float32", argument: value})
    assert reason is not None
    assert argument in reason
    assert repr(value) in reason
    assert reason.count(". ") == 0
    assert reason.endswith(".")
    loaded = "vllm" in sys.modules
    with pytest.raises(EngineDead, match=argument):
        vllm_engine(
            Path("nowhere"),
            context_tokens=64,
            arguments={argument: value},
            kv_cache_gib=1,
            slots=8,
            class_floor=0,
        )
    assert ("vllm" in sys.modules) == loaded


def test_each_row_has_its_case() -> None:
    assert {row.argument for row in REFUSALS} == {argument for argument, _ in REFUSED}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"enable_prefix_caching": True, "enable_chunked_prefill": True},
        {"enable_prefix_caching": False, "enable_chunked_prefill": False},
        {"scheduling_policy": "priority", "enable_lora": False},
        {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "data_parallel_size": 2},
        {"structured_outputs_config": {"enable_in_reasoning": True}},
        {"structured_outputs_config": {"backend": "guidance"}},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    ],
)
def test_the_rest_is_vllms_own_affair(arguments: dict[str, Any]) -> None:
    assert refusal(arguments) is None
