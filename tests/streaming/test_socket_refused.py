from __future__ import annotations

import json

import pytest
from channels.testing import WebsocketCommunicator
from pytest_django.fixtures import Settings

from kernel.redis import Client
from streaming.connections import connections
from streaming.consumer import ChatConsumer
from tenants.principal import Principal

MEMBER = Principal("ten_a", "user", "7")


# Channels looks after old connections of the database around every message.
@pytest.mark.django_db(transaction=True)
async def test_a_socket_beyond_the_queue_is_told_why_and_to_try_again_later(
    redis: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WS_LIMIT, settings.CONNECTION_QUEUE = 1, 0

    async def principal(_self: ChatConsumer) -> Principal:
        return MEMBER

    monkeypatch.setattr(ChatConsumer, "_principal", principal)
    holder = await connections().take("websocket", MEMBER)
    socket = WebsocketCommunicator(ChatConsumer.as_asgi(), "/ws/chat/")
    socket.scope["user"] = MEMBER
    accepted, _ = await socket.connect()
    assert accepted
    told = json.loads(await socket.receive_from())
    assert (told["type"], told["error"]["code"]) == ("error", "too_many_connections")
    assert await socket.receive_output() == {"type": "websocket.close", "code": 1013}
    await socket.disconnect()
    holder.close()
