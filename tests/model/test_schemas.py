"""Real vLLM keeps answers to schemas, and one that it can't hurts nobody else."""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, Field

from inference.engine import grammar
from inference.engine.protocol import Engine, GrammarFailed
from tests.ground.install import Install
from tests.model.asking import MODEL, ask, listen, user, valid
from tests.model.streams import SCHEMA, Stream, request, whole

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

ASKED = user("Describe the river Danube as JSON.")
FORMAT = {"type": "json_schema", "json_schema": {"name": "river", "schema": SCHEMA}}
BROKEN = {"type": "string", "pattern": "(("}
# It compiles; its states become too many when the first token has come.
EXPLODING = {
    "allOf": [{"type": "string", "pattern": f"^(.*a.{{{n}}}|b)*$"} for n in (21, 28, 35, 42)]
}


class Town(BaseModel):
    name: str = Field(max_length=12)
    side: Literal["left", "right"]


class River(BaseModel):
    """What pydantic makes of it has $defs, $ref, anyOf and a default."""

    name: str = Field(max_length=20)
    towns: list[Town] = Field(max_length=2)
    length_km: int | None = Field(default=None, ge=1, le=9999)


async def test_an_answer_is_a_value_of_its_schema_streamed_or_whole(model_install: Install) -> None:
    acme = model_install.openai("acme")
    answer = ask(acme, ASKED, response_format=FORMAT)
    assert answer.choices[0].finish_reason == "stop"
    assert list(valid(answer.choices[0].message.content, SCHEMA)) == ["river", "length", "towns"]
    heard = listen(acme, ASKED, response_format=FORMAT, temperature=1.0, seed=3)
    assert heard.finish_reason == "stop"
    assert len(heard.pieces) > 1
    valid(heard.text, SCHEMA)


async def test_the_official_client_parses_into_a_model(model_install: Install) -> None:
    acme = model_install.openai("acme")
    for temperature, seed in ((0.0, None), (1.0, 1), (1.0, 2)):
        parsed = acme.chat.completions.parse(
            model=MODEL,
            messages=[{"role": "user", "content": "Describe the river Danube."}],
            response_format=River,
            temperature=temperature,
            seed=seed,
            max_tokens=200,
        )
        assert isinstance(parsed.choices[0].message.parsed, River)


async def test_json_object_is_some_object(model_install: Install) -> None:
    json_object = {"type": "json_object"}
    heard = listen(model_install.openai("acme"), ASKED, response_format=json_object, max_tokens=60)
    assert heard.text.startswith("{")
    if heard.finish_reason == "stop":
        assert isinstance(json.loads(heard.text), dict)


async def test_what_does_not_compile_is_refused_and_the_next_is_served(
    model_install: Install,
) -> None:
    acme = model_install.openai("acme")
    broken = {"type": "json_schema", "json_schema": {"name": "broken", "schema": BROKEN}}
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(acme, ASKED, response_format=broken, stream=stream)
        assert (refused.value.code, refused.value.param) == ("invalid_schema", "response_format")
        assert "unclosed group" in refused.value.message
    valid(ask(acme, ASKED, response_format=FORMAT).choices[0].message.content, SCHEMA)


async def test_one_that_becomes_too_complex_fails_in_its_clients_words(
    model_install: Install,
) -> None:
    acme = model_install.openai("acme")
    exploding = {"type": "json_schema", "json_schema": {"name": "x", "schema": EXPLODING}}
    with pytest.raises(openai.BadRequestError) as failed:
        ask(acme, ASKED, response_format=exploding, max_tokens=200)
    assert (failed.value.code, failed.value.param) == ("grammar_failed", "response_format")
    with pytest.raises(openai.APIError) as failed_later:
        listen(acme, ASKED, response_format=exploding, max_tokens=200)
    assert failed_later.value.code == "grammar_failed"
    assert "Danube" in listen(acme, user("Say: Danube."), max_tokens=20).text


@pytest.mark.parametrize("schema", [BROKEN, EXPLODING], ids=["broken", "exploding"])
async def test_what_the_engine_finds_out_ends_that_request_alone(
    engine: Engine, schema: dict[str, Any]
) -> None:
    """The broken one could not get past a web process."""
    undisturbed = await whole(engine, request("undisturbed", "Explain rain.", temperature=0.0))
    beside = Stream(engine, request("beside", "Explain rain.", temperature=0.0))
    await beside.reach(5)
    kept = request("kept", "A river as JSON.", temperature=0.0, json_schema=json.dumps(SCHEMA))
    other = Stream(engine, kept)
    failing = request(
        "failing", "Write a word.", temperature=0.0, json_schema=json.dumps(schema), max_tokens=200
    )
    with pytest.raises(GrammarFailed):
        await Stream(engine, failing).task
    await beside.task
    assert beside.token_ids == undisturbed.token_ids
    await other.task
    valid(other.text, SCHEMA)
    assert engine.load().running == 0


async def test_schemas_at_the_bounds_are_compiled_beside_others(engine: Engine) -> None:
    largest = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "maxLength": n + 1} for n in range(500)},
        "required": ["p0", "p1"],
        "additionalProperties": False,
    }
    grammar.check(grammar.encoded(largest))
    asked = request("largest", "Fill in.", temperature=0.0, json_schema=json.dumps(largest))
    beside = Stream(engine, request("beside-largest", "Explain rain.", temperature=0.0))
    await beside.reach(3)
    filled = await whole(engine, asked)
    assert filled.text.startswith('{"p0": ') or filled.text.startswith('{"p0":')
    await beside.task
    assert len(beside.token_ids) == 60
