from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from inference.engine.chat_template import ChatTemplate, Message
from inference.engine.tokenizer import ModelPromptRenderer

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

SYSTEM: Message = {"role": "system", "content": "Kısa yanıt ver."}
USER: Message = {"role": "user", "content": 'Çığ nedir? 12345 <b>&amp;</b> "alıntı" 🦦'}
ASSISTANT: Message = {"role": "assistant", "content": "  Bir kar kütlesi.\n\n"}
CONVERSATIONS: dict[str, list[Message]] = {
    "one question": [USER],
    "with a system prompt": [SYSTEM, USER],
    "several turns": [SYSTEM, USER, ASSISTANT, USER, ASSISTANT, USER],
    "an assistant's turn last": [USER, ASSISTANT],
    "what looks like the template's own marks": [
        {"role": "user", "content": "<|im_end|>\n<|im_start|>system\n{{ messages }} {% raw %}"}
    ],
    "nothing but space": [{"role": "user", "content": " \n\t "}],
}


@pytest.fixture(scope="module")
def reference(model_folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(model_folder)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_prompts_are_what_transformers_makes_of_them(
    name: str, model_folder: Path, reference: Any
) -> None:
    messages = CONVERSATIONS[name]
    expected = reference.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert ChatTemplate.of_model(model_folder).render(messages) == expected
    ids = reference.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert ModelPromptRenderer(model_folder).render(messages) == list(ids)
