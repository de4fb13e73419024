from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from tests.chromium import chromium
from tests.inference.conftest import listeners, records
from tests.streaming.chat_page import Chat, complaint, with_policy
from tests.tenants.worlds import World, world

__all__ = ["listeners", "records"]


@pytest.fixture
def acme(db: None) -> World:
    return world("acme")


@pytest.fixture
def globex(db: None) -> World:
    return world("globex")


@pytest.fixture
def signed_in(live_server: LiveServer) -> str:
    client = Client()
    client.force_login(world("acme").member)
    return str(client.cookies["sessionid"].value)


@pytest.fixture
def chat(live_server: LiveServer, signed_in: str) -> Iterator[Chat]:
    with chromium() as browser:
        page = browser.new_page()
        session = {"name": "sessionid", "value": signed_in, "url": live_server.url}
        page.context.add_cookies([session])  # type: ignore[list-item]
        complaints: list[str] = []
        page.on("console", lambda message: complaints.extend(complaint(message)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.route("**/chat/", with_policy)
        chat = Chat(page)
        page.route_web_socket("**/ws/chat/", chat.connected)
        page.goto(f"{live_server.url}/chat/")
        yield chat
        assert complaints == []
