"""docs/api.md names every message of the chat socket, and none that there isn't."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from django.conf import settings

from streaming import events
from streaming.pages.texts import chat_texts

DOCS = Path(settings.BASE_DIR) / "docs" / "api.md"


@pytest.fixture(scope="module")
def described() -> dict[str, str]:
    """By message, its row of the two tables."""
    text = DOCS.read_text()
    socket = text[text.index("## Chat socket") : text.index("## What happens when")]
    rows = [line for line in socket.splitlines() if line.startswith('| `{"type"')]
    return {row.split('"')[3]: row for row in rows}


def test_every_message_of_a_client_with_all_its_fields(described: dict[str, str]) -> None:
    for message in get_args(events.Message):
        info = msgspec.structs.fields(message)
        row = described[message.__struct_config__.tag]
        shape = row.split("`")[1]
        named = set(re.findall(r'"(\w+)"', shape)) - {"type", message.__struct_config__.tag}
        assert named == {field.name for field in info}


def test_every_event_of_the_server_and_no_other(described: dict[str, str]) -> None:
    emitted = set(re.findall(r'"type": "(\w+)"', inspect.getsource(events)))
    understood = {message.__struct_config__.tag for message in get_args(events.Message)}
    assert emitted | understood == set(described)


def test_every_error_that_the_page_has_words_for() -> None:
    text = DOCS.read_text()
    for code in chat_texts()["errors"]:
        assert f"`{code}`" in text, code
