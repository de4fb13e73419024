"""GGUF to what engines load: bf16 safetensors, tokenizer, chat template, generation defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

END_OF_TURN = "<|im_end|>"


class WrongResult(Exception):
    """What was written is not the model that was meant. A bug, or libraries that convert
    differently.
    """


def convert(
    weights: Path, target: Path, *, context_tokens: int, report: Callable[[str], None]
) -> None:
    """Write the model in GGUF file `weights` to the new folder `target`. Raises OSError and
    WrongResult.

    context_tokens: the most that the tokenizer's file says the model takes
    """
    logging.disable_progress_bar()
    report("reading the tokenizer")
    tokenizer = _tokenizer(weights, context_tokens)
    report("unpacking the weights")
    model = _model(weights)
    report("writing")
    target.mkdir()
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)
    report("checking")
    _check(target, tokenizer)


def _tokenizer(weights: Path, context_tokens: int) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    # transformers' GGUF reader leaves out the first half of what GGUF calls pre-tokenizer "smollm":
    # a digit a token.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.model_max_length = context_tokens
    return tokenizer


def _model(weights: Path) -> Any:
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.bfloat16
    )
    # The weights are unpacked; with the marks left on, engines would look for packed ones.
    for mark in ("hf_quantizer", "quantization_method"):
        if hasattr(model, mark):
            delattr(model, mark)
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model


def _check(folder: Path, tokenizer: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    end = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    defaults = json.loads((folder / "generation_config.json").read_text())
    facts = {
        f"{END_OF_TURN} ends an answer": tokenizer.eos_token == END_OF_TURN
        and config["eos_token_id"] == end
        and defaults["eos_token_id"] == end,
        "no quantization marks": "quantization_config" not in config,
        "bf16": config["dtype"] == "bfloat16",
        "a chat template": (folder / "chat_template.jinja").stat().st_size > 0,
        "a tokenizer": (folder / "tokenizer.json").stat().st_size > 0,
    }
    if wrong := [fact for fact, holds in facts.items() if not holds]:
        raise WrongResult(f"The converted model lacks: {', '.join(wrong)}.")
