from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from tokenizers import Tokenizer

from inference.weights.bundled import CONTEXT_TOKENS
from tests.ground.install import Install
from tests.model.asking import MODEL, ask, listen, user

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

# One of each is several tokens, none of which is a character by itself.
OTTER = "çığ 🦦"
RIVERS = user("Tell me about rivers.")


@pytest.fixture
def acme(model_install: Install) -> openai.OpenAI:
    return model_install.openai("acme")


@pytest.fixture(scope="module")
def tokenizer(model_folder: Path) -> Any:
    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))


def test_models_names_the_real_one(acme: openai.OpenAI) -> None:
    assert [model.id for model in acme.models.list()] == [MODEL]


def test_a_sensible_answer_streams_and_is_the_same_at_once(acme: openai.OpenAI) -> None:
    question = user("What is the capital of France?")
    streamed = listen(acme, question)
    assert "Paris" in streamed.text
    assert len(streamed.pieces) > 1
    assert streamed.finish_reason == "stop"
    whole = ask(acme, question)
    assert whole.choices[0].message.content == streamed.text
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage == streamed.usage


def test_earlier_turns_are_known(acme: openai.OpenAI) -> None:
    name = [user("My name is Deniz."), {"role": "assistant", "content": "Nice to meet you, Deniz!"}]
    assert "Deniz" in listen(acme, *name, user("What is my name?"), max_tokens=40).text


def test_usage_is_the_tokenizers_count(
    acme: openai.OpenAI, tokenizer: Any, model_install: Install
) -> None:
    heard = listen(acme, {"role": "system", "content": "Be brief."}, user("Merhaba! Nasılsın?"))
    prompt = (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nMerhaba! Nasılsın?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert heard.usage.prompt_tokens == len(tokenizer.encode(prompt, add_special_tokens=False).ids)
    assert heard.finish_reason == "stop"
    # The token that ends the answer is made, and billed, like any other.
    made = len(tokenizer.encode(heard.text, add_special_tokens=False).ids) + 1
    assert heard.usage.completion_tokens == made
    assert heard.usage.total_tokens == heard.usage.prompt_tokens + made
    settled = model_install.settled(heard.generation_id)
    assert settled["prompt_tokens"] == heard.usage.prompt_tokens
    assert settled["output_tokens"] == made


def test_a_stop_string_across_tokens_ends_the_answer(acme: openai.OpenAI) -> None:
    unstopped = listen(acme, RIVERS, max_tokens=30)
    assert {" life", "blood"} <= set(unstopped.pieces)
    stopped = listen(acme, RIVERS, max_tokens=30, stop=["lifeblood"])
    assert stopped.finish_reason == "stop"
    assert stopped.text == unstopped.text.partition("lifeblood")[0]


def test_max_tokens_cuts_the_answer_off(acme: openai.OpenAI) -> None:
    heard = listen(acme, RIVERS, max_tokens=7)
    assert heard.finish_reason == "length"
    assert heard.usage.completion_tokens == 7
    assert listen(acme, RIVERS, max_tokens=30).text.startswith(heard.text)


def test_a_seed_repeats_what_chance_made(acme: openai.OpenAI) -> None:
    by_seed = [
        listen(acme, RIVERS, max_tokens=20, temperature=1.0, seed=seed).text for seed in (7, 7, 8)
    ]
    assert by_seed[0] == by_seed[1] != by_seed[2]


def test_characters_of_several_tokens_arrive_whole(acme: openai.OpenAI, tokenizer: Any) -> None:
    turn = [user(OTTER), {"role": "assistant", "content": OTTER}]
    system = {"role": "system", "content": "You repeat what the user says, and nothing else."}
    heard = listen(acme, system, *turn, *turn, user(OTTER), max_tokens=20)
    assert heard.text == OTTER
    assert len(tokenizer.encode(" 🦦", add_special_tokens=False).ids) > 1
    assert heard.pieces[-1] in {" 🦦", "🦦"}


def test_more_than_the_context_holds_is_refused(acme: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        listen(acme, user("word " * CONTEXT_TOKENS))
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as refused:
        listen(acme, RIVERS, max_tokens=CONTEXT_TOKENS)
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.param == "max_tokens"
