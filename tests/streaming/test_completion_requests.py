"""What may be asked for over the API, field by field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kernel.errors import BadRequest
from streaming.openai import requests
from tests.environment import ROOT

SAY = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "null"}}}
HUGE = "9" * 5000


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "fake", "messages": SAY} | fields).encode()


def by_schema(min_tokens: int = 0, **fields: Any) -> bytes:
    named = {"name": "river", "schema": SCHEMA} | fields
    asked = {"type": "json_schema", "json_schema": named}
    return body(response_format=asked, min_tokens=min_tokens)


def with_raw(field: str, value: str) -> bytes:
    return body()[:-1] + f', "{field}": {value}}}'.encode()


def checked(raw: bytes) -> requests.ChatCompletionRequest:
    """Everything that a view asks of a request before it admits it."""
    asked = requests.parse(raw)
    asked.sampling()
    asked.template_messages()
    return asked


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"model": "fake"} {}',
        b'{"model": "\xff"}',
        b"[" * 100_000,
        body()[:-1] + b', "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        body(messages=[{"role": "user", "content": "\ud800"}]),
        with_raw("temperature", "NaN"),
    ],
    ids=["empty", "cut", "trailing", "utf-8", "deep", "deep inside", "surrogate", "NaN"],
)
def test_what_is_not_json(raw: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        checked(raw)
    assert (refused.value.code, refused.value.http_status) == ("invalid_json", 400)


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"[]", None),
        (b"null", None),
        (b'"text"', None),
        (b'{"model": "fake"}', "messages"),
        (b'{"messages": [{"role": "user", "content": "hi"}]}', "model"),
        (body(model=""), "model"),
        (body(model=5), "model"),
        (body(messages=[]), "messages"),
        (body(messages="hi"), "messages"),
        (body(messages=[{"role": "user", "content": "a"}] * 2049), "messages"),
        (body(messages=[{"role": "pirate", "content": "a"}]), "messages[0].role"),
        (body(messages=[*SAY, {"role": "user"}]), "messages[1].content"),
        (body(messages=[{"role": "user", "content": 5}]), "messages[0].content"),
        (body(messages=[{"role": "assistant", "content": None}]), "messages[0].content"),
        (body(temperature=2.1), "temperature"),
        (body(temperature="warm"), "temperature"),
        (with_raw("temperature", "1e999"), None),
        (body(top_p=0), "top_p"),
        (body(presence_penalty=-3), "presence_penalty"),
        (body(frequency_penalty=3), "frequency_penalty"),
        (body(max_tokens=0), "max_tokens"),
        (body(min_tokens=-1), "min_tokens"),
        (body(max_tokens=True), "max_tokens"),
        (body(max_tokens=1.5), "max_tokens"),
        (body(max_completion_tokens=-1), "max_completion_tokens"),
        (with_raw("max_tokens", "9" * 400), "max_tokens"),
        (with_raw("seed", HUGE), None),
        (with_raw("unknown", HUGE), None),
        (body(seed=2**63), "seed"),
        (body(stream="yes"), "stream"),
        (body(stream_options=[]), "stream_options"),
        (body(stop=["a"] * 5), "stop"),
        (body(stop=[""]), "stop[0]"),
        (body(stop="x" * 257), "stop"),
        (body(response_format="json"), "response_format"),
        (body(response_format={}), "response_format.type"),
        (body(response_format={"type": "grammar"}), "response_format.type"),
        (body(response_format={"type": "json_schema"}), "response_format.json_schema"),
        (by_schema(schema="{}"), "response_format.json_schema.schema"),
        (by_schema(name="two words"), "response_format.json_schema.name"),
        (by_schema(name="x" * 65), "response_format.json_schema.name"),
        (by_schema(strict="yes"), "response_format.json_schema.strict"),
        (by_schema(min_tokens=5), "min_tokens"),
    ],
)
def test_what_has_the_wrong_form_names_the_field(raw: bytes, param: str | None) -> None:
    with pytest.raises(BadRequest) as refused:
        checked(raw)
    assert refused.value.code == "invalid_request"
    assert refused.value.param == param
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("functions", [{}]),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("logit_bias", {"5": 1}),
        ("n", 2),
        ("n", True),
        ("n", "1"),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "x"}),
        ("web_search_options", {}),
    ],
)
def test_what_would_change_the_answer_and_is_not_offered_is_refused(
    field: str, value: object
) -> None:
    with pytest.raises(BadRequest) as refused:
        checked(body(**{field: value}))
    assert (refused.value.code, refused.value.param) == ("unsupported_value", field)


def test_values_that_mean_not_used_are_taken() -> None:
    for name, unused in requests.NOT_OFFERED.items():
        for value in unused:
            checked(body(**{name: value}))


def test_a_schema_reaches_the_engine_as_it_was_written() -> None:
    """Its order of properties is the answer's."""
    for strict in (True, False, None):
        schema = checked(by_schema(strict=strict, description="a river")).sampling().json_schema
        assert schema == json.dumps(SCHEMA, separators=(",", ":"))


def test_json_without_a_schema_is_any_object() -> None:
    asked = checked(body(response_format={"type": "json_object"}))
    assert asked.sampling().json_schema == '{"type":"object"}'
    for free in (None, {"type": "text"}):
        assert checked(body(response_format=free)).sampling().json_schema is None


def test_a_schema_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(BadRequest) as refused:
        checked(by_schema(schema={"enum": ["x" * 70_000]}))
    assert (refused.value.code, refused.value.param) == ("invalid_schema", "response_format")


def test_content_of_other_types_than_text_is_refused() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
    with pytest.raises(BadRequest) as refused:
        checked(body(messages=[*SAY, {"role": "user", "content": parts}]))
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "messages[1].content")


def test_messages_reach_the_template_as_role_and_text() -> None:
    asked = checked(
        body(
            messages=[
                {"role": "developer", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "a"}] * 2, "name": "ada"},
                {"role": "assistant", "content": "\u0000 {{ x }}"},
            ]
        )
    )
    assert asked.template_messages() == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "aa"},
        {"role": "assistant", "content": "\u0000 {{ x }}"},
    ]


def test_how_to_sample_is_taken_over() -> None:
    asked = checked(
        body(
            temperature=0,
            top_p=0.5,
            presence_penalty=1,
            frequency_penalty=-1,
            seed=7,
            stop="end",
            max_tokens=5,
            max_completion_tokens=6,
            min_tokens=3,
            user="someone",
            unknown={"deep": [1]},
        )
    )
    sampling = asked.sampling()
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0, 0.5, 7)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (1, -1)
    assert sampling.stop == ("end",)
    assert (asked.answer_tokens, sampling.min_tokens) == (6, 3)


# What vLLM's own server takes beside OpenAI's fields.
VLLMS_OWN = (
    *("cache_salt", "priority", "request_id", "kv_transfer_params", "vllm_xargs", "extra_args"),
    *("structured_outputs", "guided_json", "json_schema", "logits_processors", "bad_words"),
    *("top_k", "min_p", "repetition_penalty", "length_penalty", "use_beam_search"),
    *("ignore_eos", "stop_token_ids", "allowed_token_ids", "include_stop_str_in_output"),
    *("skip_special_tokens", "spaces_between_special_tokens", "truncate_prompt_tokens"),
    *("prompt_logprobs", "return_token_ids", "prompt_token_ids", "prompt_embeds", "echo"),
    *("add_generation_prompt", "continue_final_message", "add_special_tokens", "documents"),
    *("chat_template", "chat_template_kwargs", "mm_processor_kwargs", "data_parallel_rank"),
)


def test_nothing_of_vllms_own_reaches_an_engine() -> None:
    """A salt of the client's choosing would let it probe another tenant's prefix cache, a priority
    would let it overtake: neither is a field here, and what is no field has no effect.
    """
    own = {name: f"own-{name}" for name in VLLMS_OWN}
    asked = checked(body(**own))
    assert asked == checked(body())
    assert asked.sampling() == checked(body()).sampling()
    assert b"own-" not in msgspec.msgpack.encode((asked, asked.sampling()))


NO_EFFECT = {
    "user": "ada",
    "safety_identifier": "ada",
    "metadata": {"case": "7"},
    "store": True,
    "prompt_cache_key": "shared",
    "prompt_cache_retention": "24h",
    "parallel_tool_calls": True,
    "reasoning_effort": "high",
    "verbosity": "low",
}


def test_labels_and_hints_have_no_effect() -> None:
    asked = checked(body(**NO_EFFECT))
    assert asked == checked(body())


def test_every_field_has_its_answer_in_the_documentation() -> None:
    described = (ROOT / "docs" / "api.md").read_text().partition("### Response format")[0]
    known = (*requests.ChatCompletionRequest.__struct_fields__, *requests.NOT_OFFERED, *NO_EFFECT)
    assert [name for name in known if f"`{name}`" not in described] == []


def test_what_is_not_said_has_openais_defaults() -> None:
    asked = checked(body(stop="", temperature=None, max_tokens=None))
    sampling = asked.sampling()
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (1.0, 1.0, None)
    assert sampling.stop == ()
    assert asked.answer_tokens is None
    assert not asked.stream


@pytest.mark.parametrize(
    ("tier", "priority"),
    [
        (None, None),
        ("auto", None),
        ("default", "standard"),
        ("flex", "batch"),
        ("priority", "interactive"),
    ],
)
def test_service_tiers_are_priority_classes(tier: str | None, priority: str | None) -> None:
    assert checked(body(service_tier=tier)).priority == priority


@pytest.mark.parametrize("tier", ["scale", "", "PRIORITY", 1, ["flex"]])
def test_a_service_tier_that_is_not_offered_is_refused(tier: Any) -> None:
    with pytest.raises(BadRequest) as refused:
        checked(body(service_tier=tier))
    assert refused.value.param == "service_tier"
