"""What a chat socket offers to clients whose sockets don't last."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.chatting import Socket, chatting


async def tell(socket: Socket, kind: str, **fields: Any) -> None:
    await socket.connection.send(json.dumps({"type": kind} | fields))


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "tokens")


async def test_a_socket_can_be_asked_whether_it_leads_anywhere(stack: Stack) -> None:
    async with chatting(stack) as socket:
        await tell(socket, "ping", ref="p-1")
        assert (await socket.until("pong"))[-1] == {"type": "pong", "ref": "p-1"}


async def test_a_message_sent_again_with_its_key_is_the_same(stack: Stack) -> None:
    async with chatting(stack) as first:
        accepted = await first.accepted("Where does it end?", key="k-1")
    async with chatting(stack) as second:
        again = await second.accepted("Where does it end?", key="k-1", ref="r-2")
        assert again == accepted | {"ref": "r-2"}
        events = await second.until("finished")
    assert len(text_of(events).split()) == 256
    query = "SELECT COUNT(*) AS said FROM streaming_message WHERE conversation_id = :conversation"
    stack.settled(accepted["generation"])
    found = stack.store.rows(query, conversation=accepted["conversation"]["id"])
    assert found == [{"said": 2}]


async def test_a_key_belongs_to_its_message(stack: Stack) -> None:
    async with chatting(stack) as socket:
        await socket.accepted("Where does it end?", key="k-2")
        await socket.say("Something else", key="k-2", ref="other")
        (*_, refused) = await socket.until("error")
        assert (refused["ref"], refused["error"]["code"]) == ("other", "idempotency_conflict")
        assert refused["conversation"] is None
    async with chatting(stack, stack.globex.session) as stranger:
        theirs = await stranger.accepted("Something else", key="k-2")
        assert theirs["conversation"]["title"] == "Something else"


async def test_an_answer_is_stopped_from_any_socket_of_its_owner(stack: Stack) -> None:
    async with chatting(stack) as reader, chatting(stack) as other:
        accepted = await reader.accepted("Tell me all")
        await other.stop(accepted["generation"])
        (*_, finished) = await reader.until("finished")
        assert finished["finish_reason"] == "cancelled"
        await other.stop(accepted["generation"])
        await tell(other, "ping", ref="still-there")
        await other.until("pong")


async def test_nobody_stops_a_strangers_answer(stack: Stack) -> None:
    async with chatting(stack) as owner, chatting(stack, stack.globex.session) as stranger:
        accepted = await owner.accepted("Tell me all")
        await stranger.stop(accepted["generation"])
        (*_, refused) = await stranger.until("error")
        assert refused["error"]["code"] == "generation_not_found"
        (*_, finished) = await owner.until("finished")
        assert finished["finish_reason"] == "stop"


async def test_a_suspended_answer_is_stopped_without_being_read(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_DETACH_GRACE_S="1")
    async with chatting(stack) as socket:
        accepted = await socket.accepted("Tell me all")
        await socket.until("tokens")
    generation = accepted["generation"]
    wait_until(lambda: stack.generation(generation)["state"] == "suspended", what="it is suspended")
    async with chatting(stack) as socket:
        await socket.say("Next", conversation=accepted["conversation"]["id"])
        (*_, busy) = await socket.until("error")
        assert busy["error"]["code"] == "conversation_busy"
        await socket.stop(generation)
        wait_until(
            lambda: stack.generation(generation)["state"] == "cancelled", what="it is cancelled"
        )
        await socket.accepted("Next", conversation=accepted["conversation"]["id"])
        made = stack.generation(generation)
        assert 0 < made["output_tokens"] < 256


async def test_a_waiting_answer_is_stopped_without_being_read(own_stack: OwnStack) -> None:
    stack = own_stack(engine=False)
    async with chatting(stack) as socket:
        accepted = await socket.accepted("Tell me all")
    async with chatting(stack) as socket:
        await socket.stop(accepted["generation"])
        wait_until(lambda: stack.waiting() == 0, what="nothing waits")
        assert stack.settled(accepted["generation"])["state"] == "cancelled"
