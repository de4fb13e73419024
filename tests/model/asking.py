"""How these tests ask the model, and what they hear."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import openai

from inference.weights import bundled

MODEL = bundled.NAME


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@dataclass
class Heard:
    """A streamed answer.

    pieces: the text of each chunk that had any; usage: as the API reports it
    """

    generation_id: str = ""
    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Any = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def valid(text: str | None, schema: dict[str, Any]) -> Any:
    """The value that the text is, which the schema allows."""
    found = json.loads(text or "")
    jsonschema.validate(found, schema, jsonschema.Draft202012Validator)
    return found


def ask(client: openai.OpenAI, *messages: dict[str, str], **options: Any) -> Any:
    """A whole answer, greedy unless `options` say otherwise."""
    asked: Any = {"temperature": 0} | options
    return client.chat.completions.create(model=MODEL, messages=list(messages), **asked)  # type: ignore[arg-type]


def listen(client: openai.OpenAI, *messages: dict[str, str], **options: Any) -> Heard:
    """A streamed answer to its end."""
    heard = Heard()
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in ask(client, *messages, **usage, **options):
        heard.generation_id = chunk.id
        heard.usage = chunk.usage or heard.usage
        for choice in chunk.choices:
            heard.finish_reason = choice.finish_reason or heard.finish_reason
            if choice.delta.content:
                heard.pieces.append(choice.delta.content)
    return heard
