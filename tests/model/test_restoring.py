"""An answer that was begun in another engine goes on in real vLLM as if it had been begun there."""

from __future__ import annotations

import json

import pytest

from inference.engine.protocol import Engine, EngineRequest
from tests.model.streams import SCHEMA, Stream, request, whole

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

GREEDY = {"temperature": 0.0}
CASES: dict[str, dict[str, object]] = {
    "greedy": GREEDY,
    "penalties": GREEDY | {"frequency_penalty": 0.9, "presence_penalty": 0.6},
    # It would end earlier.
    "min_tokens": GREEDY | {"prompt": "Say hi.", "min_tokens": 40},
    "grammar": GREEDY | {"prompt": "Describe a river as JSON.", "json_schema": json.dumps(SCHEMA)},
    "seed": {"temperature": 0.8, "top_p": 0.9, "seed": 7, "frequency_penalty": 0.3},
    "letters": GREEDY | {"prompt": "Repeat: İstanbul'da çağlayan 🌊🏞️ göğün altında 漢字"},
}


async def begun(engine: Engine, asked: EngineRequest) -> list[tuple[int, str]]:
    """After each delta of the whole answer: its tokens and text so far."""
    places, tokens, text = [], 0, ""
    async for delta in engine.submit(asked):
        tokens, text = tokens + len(delta.token_ids), text + delta.text
        places.append((tokens, text))
    return places


def asking(name: str, case: dict[str, object]) -> EngineRequest:
    fields = {"prompt": "Explain rain.", "max_tokens": 48} | case
    return request(name, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
async def test_it_goes_on_the_same_from_anywhere(engine: Engine, case: str) -> None:
    first = await whole(engine, asking(f"{case}-whole", CASES[case]))
    places = await begun(engine, asking(f"{case}-again", CASES[case]))
    assert places[-1] == (len(first.token_ids), first.text), "the same twice, without a seam"
    for at in sorted({1, len(places) // 3, len(places) // 2, len(places) - 2, len(places)}):
        count, told = places[at - 1]
        made = first.token_ids[:count]
        rest = Stream(engine, asking(f"{case}-{at}", CASES[case]), made=made, told=told)
        await rest.task
        assert made + rest.token_ids == first.token_ids, at
        assert told + rest.text == first.text, at
        assert rest.finish_reason == first.finish_reason, at
    if case == "grammar":
        assert json.loads(first.text).keys() == {"river", "length", "towns"}


async def test_a_stop_string_across_the_seam_is_found(engine: Engine) -> None:
    free = await whole(engine, request("free", "Explain rain.", **GREEDY))
    # From the middle of one token into the next but one.
    stop = free.text[40:52]
    asked = GREEDY | {"stop": (stop,)}
    first = await whole(engine, request("stopped", "Explain rain.", **asked))  # type: ignore[arg-type]
    assert first.finish_reason == "stop"
    assert first.text == free.text[: free.text.index(stop)]
    places = await begun(engine, request("stopped-again", "Explain rain.", **asked))  # type: ignore[arg-type]
    for count, told in places[-6:]:
        made = first.token_ids[:count]
        again = request(f"stopped-{count}", "Explain rain.", **asked)  # type: ignore[arg-type]
        rest = Stream(engine, again, made=made, told=told)
        await rest.task
        assert (told + rest.text, rest.finish_reason) == (first.text, "stop")
        assert made + rest.token_ids == first.token_ids


async def test_one_that_had_made_its_last_token_ends_at_once(engine: Engine) -> None:
    asked = GREEDY | {"max_tokens": 100}
    first = await whole(engine, request("ends", "Say hi.", **asked))  # type: ignore[arg-type]
    assert first.finish_reason == "stop"
    rest = Stream(engine, request("over", "Say hi.", **asked), made=first.token_ids, told="")  # type: ignore[arg-type]
    await rest.task
    assert (rest.text, rest.token_ids, rest.finish_reason) == (first.text, [], "stop")


async def test_a_prompt_in_chunks_with_a_seed_ends_nothing(engine: Engine) -> None:
    """vLLM takes back what it draws for a chunk, which a CPU's generator refuses."""
    long = "Tell me what this says. " + "Rain falls on the hills and runs to the river. " * 50
    sampled = {"temperature": 0.8, "seed": 7, "max_tokens": 12}
    first = await whole(engine, request("chunks", long, **sampled))  # type: ignore[arg-type]
    again = await whole(engine, request("chunks-again", long, **sampled))  # type: ignore[arg-type]
    assert len(first.token_ids) == 12
    assert first.token_ids == again.token_ids
    made, told = first.token_ids[:5], ""
    rest = Stream(engine, request("chunks-rest", long, **sampled), made=made, told=told)  # type: ignore[arg-type]
    await rest.task
    assert made + rest.token_ids == first.token_ids
    assert rest.text == first.text
