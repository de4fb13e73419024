"""Chat messages to prompt text, by the model's own Jinja template, in a sandbox.

The template is a file of the release; messages are data to it and are never rendered as templates
themselves. The environment offers what Hugging Face's chat templates rely on (`raise_exception`,
`strftime_now`, `tojson` without HTML escapes, loop controls).

"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.sandbox

Message = dict[str, str]


class TemplateRefused(Exception):
    """The template doesn't accept these messages. `args[0]` is a sentence for the user."""


class ChatTemplate:
    def __init__(self, source: str, special_tokens: dict[str, str]) -> None:
        """special_tokens: `bos_token`, `eos_token`… as the template names them."""
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: (
            datetime.now().astimezone().strftime(form)
        )
        self._template = environment.from_string(source)
        self._special_tokens = special_tokens

    @classmethod
    def of_model(cls, folder: Path) -> ChatTemplate:
        """Read from a model folder: `chat_template.jinja`, or the one inside
        `tokenizer_config.json`.
        """
        config = json.loads((folder / "tokenizer_config.json").read_text())
        file = folder / "chat_template.jinja"
        source = file.read_text() if file.exists() else config["chat_template"]
        return cls(source, _special_tokens(config))

    def render(self, messages: list[Message]) -> str:
        """The prompt text, ending where the assistant's answer begins. Raises TemplateRefused."""
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=True, **self._special_tokens
            )
        except jinja2.TemplateError as error:
            raise TemplateRefused(str(error)) from error
        except Exception as error:
            # A template is a program of its own: it may add a number to a text like any other.
            raise TemplateRefused(f"{type(error).__name__}: {error}") from error


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
