from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.ground.install import Install
from tests.model.asking import ask, listen, user

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

# The prefix cache works in whole blocks, of 128 tokens on a CPU.
BLOCK = 128


def test_the_prefix_cache_serves_one_tenant_and_never_another(model_install: Install) -> None:
    acme, globex = model_install.openai("acme"), model_install.openai("globex")
    rules = f"Case {uuid.uuid4()}. " + "Answer in one short sentence, politely. " * 40
    system = {"role": "system", "content": rules}

    def cached(client: object, question: str) -> int:
        whole = ask(client, system, user(question), max_tokens=2)  # type: ignore[arg-type]
        assert whole.usage.prompt_tokens > 2 * BLOCK
        return int(whole.usage.prompt_tokens_details.cached_tokens)

    assert cached(acme, "Who are you?") == 0
    hit = cached(acme, "What is a river?")
    assert hit >= 2 * BLOCK
    assert hit % BLOCK == 0
    assert cached(globex, "What is a river?") == 0
    assert cached(globex, "Who are you?") == hit


def test_two_tenants_are_answered_at_once_and_apart(model_install: Install) -> None:
    order: list[str] = []
    ids: dict[str, str] = {}

    def stream(slug: str) -> None:
        client = model_install.openai(slug)
        asked = ask(client, user("Tell me a story."), max_tokens=60, stream=True)
        for chunk in asked:
            ids[slug] = chunk.id
            if chunk.choices and chunk.choices[0].delta.content:
                order.append(slug)

    with ThreadPoolExecutor() as threads:
        list(threads.map(stream, ("acme", "globex")))
    changes = sum(one != other for one, other in pairwise(order))
    assert changes > 10, order
    tenants = {
        row["slug"]: row["id"] for row in model_install.rows("SELECT id, slug FROM tenants_tenant")
    }
    for slug in ("acme", "globex"):
        assert model_install.settled(ids[slug])["tenant_id"] == tenants[slug]


def test_answers_in_one_batch_do_not_mix(model_install: Install) -> None:
    capitals = {"France": "Paris", "Germany": "Berlin", "Italy": "Rome"}

    def stream(country: str, slug: str) -> str:
        question = user(f"What is the capital of {country}?")
        return listen(model_install.openai(slug), question, max_tokens=40).text

    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(stream, capitals, ("acme", "globex", "acme")))
    for (country, capital), answer in zip(capitals.items(), answers, strict=True):
        assert capital in answer
        assert country in answer
