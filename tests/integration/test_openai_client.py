"""The official client, which knows OpenAI's wire format better than we do."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.ground.seed import SERVED
from tests.ground.stack import Stack

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def test_a_whole_answer(api: openai.OpenAI, stack: Stack) -> None:
    raw = api.chat.completions.with_raw_response.create(model="fake", messages=HI, max_tokens=7)
    answer = raw.parse()
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert choice.message.role == "assistant"
    assert choice.message.content is not None
    assert len(choice.message.content.split()) == 7
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 7)
    assert answer.usage.total_tokens == 9
    assert answer.object == "chat.completion"
    assert answer.id == raw.headers["X-Generation-Id"]
    assert raw.headers["X-Request-Id"]
    found = stack.settled(answer.id)
    assert (found["state"], found["output_tokens"], found["prompt_tokens"]) == ("finished", 7, 2)
    assert found["tenant_id"] == stack.acme.id


def test_a_streamed_answer(api: openai.OpenAI) -> None:
    whole = api.chat.completions.create(model="fake", messages=HI, max_tokens=30)
    chunks = list(
        api.chat.completions.create(model="fake", messages=HI, max_tokens=30, stream=True)
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)
    assert len(chunks) > 3


def test_usage_comes_behind_the_last_chunk_if_it_is_asked_for(api: openai.OpenAI) -> None:
    stream = api.chat.completions.create(
        model="fake",
        messages=HI,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (2, 6)
    assert chunks[-2].choices[0].finish_reason == "length"


def test_an_answer_that_ends_by_itself(api: openai.OpenAI) -> None:
    answer = api.chat.completions.create(model="fake", messages=HI)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 256


async def test_the_asynchronous_client(stack: Stack) -> None:
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=stack.acme.key) as api:
        answer = await api.chat.completions.create(model="fake", messages=HI, max_tokens=9)
        stream = await api.chat.completions.create(
            model="fake", messages=HI, max_tokens=9, stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == answer.choices[0].message.content
        assert [model.id async for model in api.models.list()] == [*SERVED, "unserved"]


def test_models(api: openai.OpenAI) -> None:
    listed = api.models.list().data
    assert [model.id for model in listed] == [*SERVED, "unserved"]
    assert api.models.retrieve("fake") == listed[0]
    assert (listed[0].object, listed[0].owned_by) == ("model", "nehir")
    with pytest.raises(openai.NotFoundError) as missing:
        api.models.retrieve("unknown")
    assert missing.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "kind", "code", "param"),
    [
        ({"model": "unknown"}, openai.NotFoundError, "model_not_found", "model"),
        ({"messages": []}, openai.BadRequestError, "invalid_request", "messages"),
        (
            {"messages": [{"role": "pirate", "content": "a"}]},
            openai.BadRequestError,
            "invalid_request",
            "messages[0].role",
        ),
        ({"temperature": 9}, openai.BadRequestError, "invalid_request", "temperature"),
        ({"n": 2}, openai.BadRequestError, "unsupported_value", "n"),
        (
            {"messages": [{"role": "user", "content": "word " * 9000}]},
            openai.BadRequestError,
            "context_length_exceeded",
            "messages",
        ),
        ({"max_tokens": 8192}, openai.BadRequestError, "context_length_exceeded", "max_tokens"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_the_clients_own_exceptions(
    api: openai.OpenAI,
    fields: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str,
    param: str,
    stream: bool,
) -> None:
    asked: dict[str, Any] = {"model": "fake", "messages": HI, "stream": stream} | fields
    with pytest.raises(kind) as refused:
        api.chat.completions.create(**asked)
    assert type(refused.value) is kind
    assert (refused.value.code, refused.value.param) == (code, param)
    assert refused.value.type == "invalid_request_error"


def test_a_wrong_key_is_the_clients_authentication_error(stack: Stack) -> None:
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="nhr_wrong", max_retries=0) as api:
        with pytest.raises(openai.AuthenticationError) as refused:
            api.models.list()
        assert refused.value.code == "invalid_api_key"
