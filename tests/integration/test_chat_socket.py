from __future__ import annotations

import asyncio
from typing import Any

from tests.conftest import OwnStack
from tests.ground.seed import SERVED
from tests.ground.stack import Stack
from tests.integration.asking import client_of
from tests.integration.chatting import Event, chatting


def messages_of(stack: Stack, conversation: str) -> list[dict[str, Any]]:
    query = "SELECT * FROM streaming_message WHERE conversation_id = :id ORDER BY id"
    return stack.store.rows(query, id=conversation)


def text_of(events: list[Event]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "tokens")


async def test_it_begins_with_the_models_and_their_states(stack: Stack) -> None:
    async with chatting(stack) as socket:
        assert await socket.next() == {
            "type": "hello",
            "protocol": 1,
            "models": [
                *({"name": name, "state": "ready"} for name in SERVED),
                {"name": "unserved", "state": "down"},
            ],
        }


async def test_an_answer_arrives_in_order_and_is_kept(stack: Stack) -> None:
    async with chatting(stack) as socket:
        # 256 tokens, as nobody limits a chat's answer.
        accepted = await socket.accepted("What is a river?", ref="my-1")
        assert (accepted["ref"], accepted["model"]) == ("my-1", "fake")
        assert accepted["conversation"]["title"] == "What is a river?"
        events = await socket.until("finished")
    frames = [event for event in events if event["type"] == "tokens"]
    seqs = [frame["seq"] for frame in frames]
    assert seqs == sorted(set(seqs))
    assert len(frames) > 3
    assert {event["generation"] for event in events} == {accepted["generation"]}
    finished = events[-1]
    assert (finished["seq"], finished["finish_reason"]) == (256, "stop")
    assert finished["usage"]["completion_tokens"] == seqs[-1] == 256
    stack.settled(accepted["generation"])
    question, answer = messages_of(stack, accepted["conversation"]["id"])
    assert (question["author"], question["text"]) == ("user", "What is a river?")
    assert (answer["author"], answer["text"]) == ("assistant", text_of(frames))
    assert answer["generation_id"] == accepted["generation"]


async def test_a_conversation_goes_on_with_what_was_said(stack: Stack) -> None:
    async with chatting(stack) as socket:
        first = await socket.accepted("one two")
        await socket.until("finished")
        second = await socket.accepted("three", conversation=first["conversation"]["id"])
        await socket.stop(second["generation"])
        await socket.until("finished")
    assert second["conversation"] == first["conversation"]
    # The second prompt holds the first question and its whole answer.
    prompts = [stack.settled(each["generation"])["prompt_tokens"] for each in (first, second)]
    assert prompts[0] == 3
    assert prompts[1] > 256


async def test_stop_ends_an_answer_and_keeps_what_came(stack: Stack) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted()
        events = await socket.until("tokens")
        await socket.stop("gen_of_somebody_else")
        await socket.stop(accepted["generation"])
        events += await socket.until("finished")
        assert events[-1]["finish_reason"] == "cancelled"
        assert events[-1]["seq"] < 256
    found = stack.settled(accepted["generation"])
    assert (found["state"], found["output_tokens"]) == ("cancelled", events[-1]["seq"])
    answer = messages_of(stack, accepted["conversation"]["id"])[-1]
    assert (answer["text"], answer["finish_reason"]) == (text_of(events), "cancelled")


async def test_two_answers_at_once_on_one_socket(stack: Stack) -> None:
    async with chatting(stack) as socket:
        await socket.say("one", ref="a")
        await socket.say("two", ref="b")
        generations: dict[str, list[Event]] = {}
        ended = 0
        while ended < 2:
            event = await socket.next()
            if event["type"] in ("accepted", "tokens", "finished", "error"):
                generations.setdefault(event["generation"], []).append(event)
                ended += event["type"] in ("finished", "error")
    assert sorted(events[0]["ref"] for events in generations.values()) == ["a", "b"]
    for events in generations.values():
        assert events[-1]["type"] == "finished"
        seqs = [event["seq"] for event in events[1:-1]]
        assert seqs == sorted(seqs)
    texts = {text_of(events) for events in generations.values()}
    assert len(texts) == 2


async def test_leaving_in_mid_answer_suspends_it_until_somebody_comes_back(stack: Stack) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted()
        before = await socket.until("tokens")
    generation = accepted["generation"]
    checkpoint = await asyncio.to_thread(stack.suspended, generation)
    assert before[-1]["seq"] <= checkpoint["seq"] < 256
    await asyncio.to_thread(stack.wait_until_idle)
    async with chatting(stack) as socket:
        await socket.resume(generation, before[-1]["seq"])
        after = await socket.until("finished")
    assert (after[0]["type"], after[0]["seq"]) == ("resumed", before[-1]["seq"])
    found = await asyncio.to_thread(stack.settled, generation)
    assert (found["state"], found["output_tokens"]) == ("finished", 256)
    answer = messages_of(stack, accepted["conversation"]["id"])[-1]
    assert (answer["author"], answer["text"]) == ("assistant", text_of(before + after))


async def test_any_web_process_serves_a_conversation(stack: Stack) -> None:
    second, url = await asyncio.to_thread(stack.start_web)
    async with chatting(stack) as here, chatting(stack, url=url) as there:
        first = await here.accepted()
        await here.stop(first["generation"])
        await here.until("finished")
        again = await there.accepted("more", conversation=first["conversation"]["id"])
        await there.stop(again["generation"])
        assert (await there.until("finished"))[-1]["generation"] == again["generation"]
    second.end()


async def test_waiting_says_the_place_and_the_models_state_changes(own_stack: OwnStack) -> None:
    stack = own_stack(engine=False)
    async with chatting(stack) as socket:
        assert (await socket.next())["models"][0] == {"name": "fake", "state": "down"}
        first = await socket.accepted("one", ref="a")
        assert (await socket.until("queued"))[-1]["position"] == 1
        second = await socket.accepted("two", ref="b")
        places = await socket.until("queued", generation=second["generation"])
        assert places[-1]["position"] == 2
        await socket.stop(first["generation"])
        ended = await socket.until("finished", generation=first["generation"])
        assert ended[-1]["finish_reason"] == "cancelled"
        moved = [e for e in ended if e["type"] == "queued"] or await socket.until("queued")
        assert moved[-1] == {
            "type": "queued",
            "generation": second["generation"],
            "position": 1,
            "eta_p50_s": None,
            "eta_p90_s": None,
        }
        await asyncio.to_thread(stack.start_engine)
        states = []
        while "ready" not in states:
            states.append(
                (await socket.until("models", "tokens"))[-1].get("models", [{}])[0].get("state")
            )
        await socket.stop(second["generation"])
        await socket.until("finished", generation=second["generation"])


async def test_a_killed_engine_is_a_gap(own_stack: OwnStack) -> None:
    stack = own_stack()
    assert stack.engine is not None
    async with chatting(stack) as socket:
        accepted = await socket.accepted()
        events = await socket.until("tokens")
        await asyncio.to_thread(stack.engine.kill)
        events += await socket.until("interrupted")
        assert events[-1]["reason"] == "engine_lost"
        events += await socket.until("queued")
        assert events[-1]["position"] == 1
        await asyncio.to_thread(stack.start_engine)
        events += await socket.until("tokens")
        await socket.stop(accepted["generation"])
        events += await socket.until("finished")
    assert [event for event in events if event["type"] == "error"] == []
    heard = "".join(event["text"] for event in events if event["type"] == "tokens")
    assert (heard, events[-1]["seq"]) == stack.logged(accepted["generation"])
    stack.settled(accepted["generation"])
    kept = messages_of(stack, accepted["conversation"]["id"])
    assert [(row["author"], row["text"]) for row in kept] == [("user", "hi"), ("assistant", heard)]


def test_what_is_said_over_the_api_is_kept_nowhere(stack: Stack) -> None:
    from tests.integration.asking import CHAT, asking

    before = stack.store.rows("SELECT count(*) AS n FROM streaming_message")
    with client_of(stack) as client:
        assert client.post(CHAT, json=asking()).status_code == 200
    stack.wait_until_idle()
    assert stack.store.rows("SELECT count(*) AS n FROM streaming_message") == before
