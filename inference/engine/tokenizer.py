"""Prompts to token ids, in the web process, so that a prompt that is too long is refused before it
is queued.

The `tokenizers` library alone is used: importing transformers takes seconds and hundreds of
megabytes.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Protocol

import tokenizers

from inference.engine.chat_template import ChatTemplate, Message


class PromptRenderer(Protocol):
    def render(self, messages: list[Message]) -> list[int]:
        """Token ids of the prompt. Blocking and, for long prompts, slow: call it in a thread.
        Raises TemplateRefused.
        """
        ...


class ModelPromptRenderer:
    """Chat template and tokenizer of a model folder."""

    def __init__(self, folder: Path) -> None:
        """Raises FileNotFoundError when the folder isn't a prepared model's."""
        if not (folder / "tokenizer.json").is_file():
            raise FileNotFoundError(folder / "tokenizer.json")
        self._template = ChatTemplate.of_model(folder)
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def render(self, messages: list[Message]) -> list[int]:
        text = self._template.render(messages)
        # The template writes the special tokens itself.
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


class FakePromptRenderer:
    """One token a word or mark, for the fake engine."""

    VOCABULARY = 50_000

    def render(self, messages: list[Message]) -> list[int]:
        words = [
            word
            for message in messages
            for word in (message["role"], *re.findall(r"\w+|[^\w\s]", message["content"]))
        ]
        return [zlib.crc32(word.encode()) % self.VOCABULARY for word in words]
