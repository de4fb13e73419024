"""Schemas that an answer has to be a value of: checked in the web process, by the compiler that the
engine uses, so that one that does not compile is refused before it is queued.

The compiler (llguidance) bounds itself: what would take it long fails. It is asked with less than
the engine gives it, and only for schemas within the bounds below, so that none holds a web process
or an engine up for long. What shows while an answer is made, such as a pattern with too many
states, ends that answer alone (`vllm/grammar.py`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import llguidance
import msgspec

MAX_BYTES = 65_536
MAX_VALUES = 2_500
# Objects and arrays inside one another, in the schema's own JSON. vLLM's own limit is 64.
MAX_NESTING = 48
MAX_PATTERNS = 32
MAX_PATTERN_CHARACTERS = 512
# Of all minItems, maxItems and the like together: each may become as many rules.
MAX_REPETITIONS = 5_000
# The time to intersect schemas grows exponentially with their number.
MAX_INTERSECTED = 8
MAX_MULTIPLE = 1_000
MAX_REASON_CHARACTERS = 300

TOO_DEEP = f"The schema is nested more than {MAX_NESTING} levels deep."
REPEATING = ("minItems", "maxItems", "minProperties", "maxProperties")
# Any JSON object: what OpenAI calls `json_object`.
ANY_OBJECT = '{"type":"object"}'


class GrammarRefused(Exception):
    """`args[0]` says why, in a sentence for whoever wrote the schema."""


def encoded(schema: dict[str, Any]) -> str:
    """The schema as the engine gets it. Raises GrammarRefused if it is too large."""
    try:
        text = msgspec.json.encode(schema).decode()
    except RecursionError:
        raise GrammarRefused(TOO_DEEP) from None
    if len(text) > MAX_BYTES:
        raise GrammarRefused(f"The schema has more than {MAX_BYTES} bytes.")
    return text


@functools.lru_cache(maxsize=256)
def check(schema: str) -> None:
    """Raises GrammarRefused for what can't be compiled or exceeds a bound. Takes 1 ms for usual
    schemas, some 300 for the worst; known ones are remembered.

    schema: as JSON text
    """
    decoded = msgspec.json.decode(schema)
    if not isinstance(decoded, dict):
        raise GrammarRefused("A schema has to be an object.")
    if "x-guidance" in decoded:
        raise GrammarRefused("x-guidance is the platform's own to set.")
    _check_bounds(decoded)
    _compile(schema)


def _check_bounds(schema: dict[str, Any]) -> None:
    values = patterns = intersected = 0
    repetitions = 0.0
    for value, nesting in _values(schema):
        values += 1
        if nesting > MAX_NESTING:
            raise GrammarRefused(TOO_DEEP)
        if values > MAX_VALUES:
            raise GrammarRefused(f"The schema has more than {MAX_VALUES} values.")
        if not isinstance(value, dict):
            continue
        _check_reference(value)
        _check_multiple(value)
        patterns += sum(map(_checked_length, _patterns(value)))
        repetitions += sum(_number(value.get(name)) for name in REPEATING)
        intersected += len(value["allOf"]) if isinstance(value.get("allOf"), list) else 0
    if patterns > MAX_PATTERNS:
        raise GrammarRefused(f"The schema has more than {MAX_PATTERNS} patterns.")
    if repetitions > MAX_REPETITIONS:
        raise GrammarRefused(
            f"{', '.join(REPEATING)} come to more than {MAX_REPETITIONS} together."
        )
    if intersected > MAX_INTERSECTED:
        raise GrammarRefused(f"allOf has more than {MAX_INTERSECTED} schemas altogether.")


def _values(root: Any) -> Iterator[tuple[Any, int]]:
    """Every value in it, with how deep it lies; without recursion, whatever the depth."""
    left = [(root, 1)]
    while left:
        value, nesting = left.pop()
        yield value, nesting
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            left.extend((each, nesting + 1) for each in inner)


def _check_reference(schema: dict[str, Any]) -> None:
    reference = schema.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise GrammarRefused("A $ref may only point into the schema itself, as in #/$defs/name.")


def _check_multiple(schema: dict[str, Any]) -> None:
    if _number(schema.get("multipleOf")) > MAX_MULTIPLE:
        raise GrammarRefused(f"multipleOf is at most {MAX_MULTIPLE}.")


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    if isinstance(by_pattern := schema.get("patternProperties"), dict):
        yield from by_pattern


def _checked_length(pattern: str) -> int:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise GrammarRefused(f"A pattern has more than {MAX_PATTERN_CHARACTERS} characters.")
    return 1


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


@functools.cache
def _bytes() -> llguidance.LLTokenizer:
    """A token a byte: whether a grammar compiles hardly depends on the model's own."""
    return llguidance.LLTokenizer("byte")


def _compile(schema: str) -> None:
    """The whole grammar, and its first step: some are found out only there."""
    try:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
    except ValueError as error:
        raise GrammarRefused(_reason(str(error))) from error
    limits = llguidance.LLParserLimits(
        initial_lexer_fuel=500_000,
        max_grammar_size=250_000,
        step_lexer_fuel=100_000,
        step_max_items=25_000,
        verbose_errors=False,
    )
    if why := llguidance.LLMatcher.validate_grammar(grammar, limits=limits):
        raise GrammarRefused(_reason(why))
    matcher = llguidance.LLMatcher(_bytes(), grammar, log_level=0, limits=limits)
    matcher.compute_bitmask()
    if matcher.is_error():
        raise GrammarRefused("The schema has no value, or is too complex.")


def _reason(error: str) -> str:
    """The compiler's words on one line: a regular expression's error points at it over several."""
    said = re.sub(r"\s+", " ", error).strip()[:MAX_REASON_CHARACTERS]
    return f"The schema can't be kept to: {said}"
