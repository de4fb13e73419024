"""Conversations with two engine hosts, through the API as applications use it: with every turn they
send all of it.
"""

from __future__ import annotations

from typing import Any

import httpx

from inference.messages import Started
from tests.conftest import OwnStack
from tests.ground.stack import Stack, TenantAccess
from tests.integration.asking import CHAT, client_of

# The machine may do much else: whoever is called comes before that.
SETTINGS = {"NEHIR_PREFIX_WAIT_MS": "1000", "NEHIR_PREFIX_BLOCK_TOKENS": "16"}


def turn(client: httpx.Client, messages: list[dict[str, str]], **fields: Any) -> str:
    """One more turn of a conversation, whose answer it then has; the generation."""
    asked = {"model": "fake", "messages": messages, "max_tokens": 5} | fields
    reply = client.post(CHAT, json=asked)
    assert reply.status_code == 200, reply.text
    messages.append(
        {"role": "assistant", "content": reply.json()["choices"][0]["message"]["content"]}
    )
    messages.append({"role": "user", "content": "And then?"})
    return str(reply.json()["id"])


def beginning(topic: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Tell me all about {topic}: " + f"{topic} and " * 40}]


def replica(stack: Stack, generation_id: str) -> str:
    (started,) = [entry for entry in stack.log(generation_id) if isinstance(entry, Started)]
    return started.incarnation


def talk(stack: Stack, tenant: TenantAccess, topic: str, turns: int, **fields: Any) -> list[str]:
    """Which replica answered each turn."""
    with client_of(stack, tenant) as client:
        messages, found = beginning(topic), []
        for number in range(turns):
            salt = {"cache_salt": f"chosen by the client, {number}"}
            found.append(replica(stack, turn(client, messages, **salt, **fields)))
            stack.wait_until_idle()
    return found


def test_each_conversation_stays_where_it_began_and_survives_its_replica(
    own_stack: OwnStack,
) -> None:
    stack = own_stack(**SETTINGS)
    other = stack.start_engine(replica="other")
    where = {topic: talk(stack, stack.acme, topic, 3) for topic in ("rivers", "mills", "reeds")}
    assert all(len(set(replicas)) == 1 for replicas in where.values()), where
    # The bell wakes whoever has waited longest.
    assert len({replicas[0] for replicas in where.values()}) == 2
    names = {record.replica: record.incarnation for record in stack.replicas()}
    lost = names["other"]
    topic = next(topic for topic, replicas in where.items() if replicas[0] == lost)
    other.kill()
    again = talk(stack, stack.acme, topic, 2)
    assert set(again) == {names["engine"]}
