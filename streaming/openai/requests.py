"""What a chat completion request may hold, checked before anything is done with it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from django.http import HttpRequest
from msgspec import Meta, Struct

from inference.engine import grammar
from inference.engine.chat_template import Message
from inference.engine.protocol import Sampling
from kernel.errors import BadRequest
from tenants.priority import PriorityClass

MAX_POSITION_DIGITS = 12
MAX_MESSAGES = 2048
MAX_STOP_CHARACTERS = 256
# Would change the answer if it were ignored, so it is refused: field -> values that mean "not
# used".
NOT_OFFERED: dict[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "n": (None, 1),
    "best_of": (None, 1),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
}

Text = Annotated[str, Meta(min_length=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


# OpenAI's words for priority classes; none or `auto` is the tenant's default.
SERVICE_TIERS: dict[str, PriorityClass] = {
    "priority": "interactive",
    "default": "standard",
    "flex": "batch",
}


class TextPart(Struct, frozen=True):
    type: str
    text: str = ""


class ChatMessage(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None


class StreamOptions(Struct, frozen=True):
    """include_queue: tell the place in the queue in events named `queued`
    high_water_tokens: how many tokens may be on their way to this client
    """

    include_usage: bool = False
    include_queue: bool = False
    high_water_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None


class JsonSchema(Struct, frozen=True):
    """strict has no effect: every answer is kept to its schema."""

    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Struct, frozen=True):
    """json_schema: of that type alone"""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def schema(self) -> str | None:
        """What the answer has to be a value of, as JSON text. Raises BadRequest."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return grammar.ANY_OBJECT
        if self.json_schema is None:
            raise BadRequest(
                "This type needs response_format.json_schema.", param="response_format.json_schema"
            )
        try:
            return grammar.encoded(self.json_schema.schema)
        except grammar.GrammarRefused as error:
            raise BadRequest(str(error), param="response_format", code="invalid_schema") from error


class ChatCompletionRequest(Struct, frozen=True):
    """The fields that Nehir acts on; NOT_OFFERED lists those that it refuses, others have no
    effect.
    """

    model: Text
    messages: Annotated[list[ChatMessage], Meta(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: str | Annotated[list[Text], Meta(max_length=4)] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    response_format: ResponseFormat | None = None

    @property
    def priority(self) -> PriorityClass | None:
        """The priority class asked for; None for the tenant's default."""
        return SERVICE_TIERS.get(self.service_tier or "auto")

    @property
    def answer_tokens(self) -> int | None:
        """The most tokens to answer with, by the newer of the two names; None if not said."""
        return self.max_completion_tokens or self.max_tokens

    def sampling(self) -> Sampling:
        """How to sample; `max_tokens` is settled at admission. Raises BadRequest."""
        schema = self.response_format.schema() if self.response_format else None
        if schema is not None and self.min_tokens:
            # Where the value ends, the schema allows the end alone, and min_tokens forbids it.
            raise BadRequest("min_tokens can't be had with a JSON answer.", param="min_tokens")
        return Sampling(
            max_tokens=self.answer_tokens or 1,
            min_tokens=self.min_tokens or 0,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            seed=self.seed,
            stop=_stop(self.stop),
            json_schema=schema,
        )

    def template_messages(self) -> list[Message]:
        """Messages for the chat template. Raises BadRequest for parts that are not text."""
        return [
            # The newer name of the same role; templates know the older one.
            {
                "role": "system" if message.role == "developer" else message.role,
                "content": _text(message.content, f"messages[{index}].content"),
            }
            for index, message in enumerate(self.messages)
        ]


_decoder = msgspec.json.Decoder(ChatCompletionRequest)


def parse(body: bytes) -> ChatCompletionRequest:
    """A request from its JSON. Raises BadRequest with the field at fault."""
    try:
        fields = msgspec.json.decode(body)
        if isinstance(fields, dict):
            _refuse_not_offered(fields)
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(
            "We could not parse the JSON body of your request. It has to be one JSON object.",
            code="invalid_json",
        ) from error


def _invalid(error: msgspec.ValidationError) -> BadRequest:
    what, _, where = str(error).partition(" - at `$")
    param = where.rstrip("`").lstrip(".") or None
    if param == "[...]":  # msgspec's word for "somewhere", in fields that are not ours
        param = None
    if missing := re.search(r"missing required field `(\w+)`", what):
        param = f"{param}.{missing.group(1)}" if param else missing.group(1)
    return BadRequest(f"{what}{f' ({param})' if param else ''}.", param=param)


def _refuse_not_offered(fields: dict[str, Any]) -> None:
    for name, unused in NOT_OFFERED.items():
        # `1 == True` in Python: compare types as well.
        value = fields.get(name)
        if not any(value == word and type(value) is type(word) for word in unused):
            raise BadRequest(
                f"{name} is not supported with this value.", param=name, code="unsupported_value"
            )


def _text(content: str | list[TextPart], param: str) -> str:
    if isinstance(content, str):
        return content
    for part in content:
        if part.type != "text":
            raise BadRequest(
                f"Content of type {part.type[:50]!r} is not supported; only text is.",
                param=param,
                code="unsupported_value",
            )
    return "".join(part.text for part in content)


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    strings = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if any(len(string) > MAX_STOP_CHARACTERS for string in strings):
        raise BadRequest(
            f"A stop string has at most {MAX_STOP_CHARACTERS} characters.", param="stop"
        )
    return tuple(string for string in strings if string)


def position(request: HttpRequest) -> int:
    """Where a reader goes on: `Last-Event-ID`, else `?after=`, else the beginning. Raises
    BadRequest.
    """
    given = request.headers.get("Last-Event-ID") or request.GET.get("after") or "0"
    if not (given.isascii() and given.isdigit() and len(given) <= MAX_POSITION_DIGITS):
        raise BadRequest("A position is a whole number of tokens.", param="after")
    return int(given)
