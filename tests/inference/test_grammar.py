"""Which schemas an answer can be kept to: what is taken is kept to, the rest is refused in time."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import jsonschema
import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine import grammar
from inference.engine.grammar import GrammarRefused

PRIMES = (997, 991, 983, 977, 971, 967, 953, 947)
TEXT = {"type": "string"}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = TEXT
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


def check(schema: dict[str, Any]) -> None:
    grammar.check(grammar.encoded(schema))


TAKEN: dict[str, dict[str, Any]] = {
    "anything": {},
    "any object": json.loads(grammar.ANY_OBJECT),
    "recursive": {
        "type": "object",
        "properties": {"n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["n"],
        "additionalProperties": False,
    },
    "tagged": {
        "oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
        "discriminator": {"propertyName": "k", "mapping": {"a": "#/$defs/A", "b": "#/$defs/B"}},
        "$defs": {
            name: {"type": "object", "properties": {"k": {"const": k}}, "required": ["k"]}
            for name, k in (("A", "a"), ("B", "b"))
        },
    },
    "nested quantifiers": TEXT | {"pattern": "^((a+)+|(b*)*)+$"},
    "repeated a million times": TEXT | {"pattern": "^([a-z]{1,1000}){1,1000}$"},
    "a long text": TEXT | {"minLength": 1, "maxLength": 10**6},
    "pattern and length": TEXT | {"pattern": "^[a-z]+$", "maxLength": 9},
    "as deep as may be": nested(23),
    "property names of keywords": {
        "properties": {"pattern": TEXT, "$ref": TEXT, "allOf": TEXT, "maxItems": TEXT}
    },
}


@pytest.mark.parametrize("schema", TAKEN.values(), ids=TAKEN)
def test_it_is_taken(schema: dict[str, Any]) -> None:
    check(schema)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    # Beyond a bound.
    "bytes": ({"enum": ["x" * 70_000]}, "65536 bytes"),
    "values": ({"enum": list(range(3_000))}, "2500 values"),
    "depth": (nested(24), "48 levels"),
    "far deeper": (nested(1_200), "48 levels"),
    "patterns": ({"properties": {str(n): TEXT | {"pattern": "a"} for n in range(33)}}, "32 patt"),
    "pattern properties": ({"patternProperties": {"a" * n: TEXT for n in range(33)}}, "32 patt"),
    "pattern": (TEXT | {"pattern": "a" * 513}, "512 characters"),
    "repetitions": (
        {"prefixItems": [{"items": TEXT, "maxItems": 2_600}] * 2},
        "more than 5000 together",
    ),
    "intersected": ({"allOf": [TEXT] * 9}, "8 schemas"),
    "multiple": ({"type": "integer", "multipleOf": 999_999_937}, "at most 1000"),
    # Reaches out, or chooses how it is compiled.
    "remote": ({"$ref": "https://example.com/schema.json"}, "into the schema itself"),
    "file": ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "into the schema itself"),
    "options": (TEXT | {"x-guidance": {"lenient": True}}, "x-guidance"),
    # Does not compile. CVE-2025-48944 is one of these.
    "pattern of nothing": (TEXT | {"pattern": "{invalid}"}, "repetition operator"),
    "open group": (TEXT | {"pattern": "(("}, "unclosed group"),
    "look-ahead": (TEXT | {"pattern": "(?=a)b"}, "look-around"),
    "back reference": (TEXT | {"pattern": r"(a)\1"}, "backreferences"),
    "type": ({"type": "strin"}, "Invalid type: strin"),
    "missing": ({"$ref": "#/$defs/a"}, "does not exist"),
    "unique": ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    "not": ({"not": TEXT}, "not"),
    "format": (TEXT | {"format": "path"}, "Unknown format"),
    # Has no value.
    "to itself": ({"$ref": "#"}, "has no value"),
    "no lengths": (TEXT | {"minLength": 5, "maxLength": 3}, "Unsatisfiable"),
    "no choice": ({"enum": []}, "Unsatisfiable"),
    # Fits the bounds, and is too much together.
    "multiples": (
        {"allOf": [{"type": "integer", "multipleOf": n} for n in PRIMES]},
        "too complex",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_a_reason(case: str) -> None:
    schema, reason = REFUSED[case]
    with pytest.raises(GrammarRefused) as refused:
        check(schema)
    assert reason in refused.value.args[0]
    assert len(refused.value.args[0]) < 400
    assert "\n" not in refused.value.args[0]


# Texts short enough for a random walk to find their ends.
texts = st.builds(
    lambda low, more: TEXT | {"minLength": low, "maxLength": low + more},
    st.integers(0, 2),
    st.integers(0, 6),
)
leaves = st.one_of(
    texts,
    st.builds(
        lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
        st.integers(-50, 50),
        st.integers(0, 500),
    ),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}]),
    st.builds(lambda words: {"enum": words}, st.lists(st.text(max_size=4), min_size=1, max_size=3)),
    st.sampled_from(["^[a-c]{1,3}$", r"^\d{2}-(x|yz)$", "^a?b*c$"]).map(
        lambda pattern: TEXT | {"pattern": pattern, "maxLength": 6}
    ),
)
names = st.text(min_size=1, max_size=4)


def objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def made(properties: dict[str, Any], needed: int) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties)[:needed],
            "additionalProperties": False,
        }

    return st.builds(made, st.dictionaries(names, inner, max_size=3), st.integers(0, 3))


schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        objects(inner),
        st.builds(
            lambda items, most: {"type": "array", "items": items, "maxItems": most},
            inner,
            st.integers(0, 3),
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda several: {"anyOf": several}),
    ),
    max_leaves=6,
)


def walked(schema: dict[str, Any], chance: random.Random) -> str | None:
    """A text that the grammar allows, byte by byte; None if it has not ended after many."""
    tokens = llguidance.LLTokenizer("byte")
    text = grammar.encoded(schema)
    compiled = llguidance.LLMatcher.grammar_from_json_schema(
        text, defaults={"whitespace_flexible": False}
    )
    matcher = llguidance.LLMatcher(tokens, compiled)
    made: list[int] = []
    for _ in range(400):
        mask = matcher.compute_bitmask()
        assert not matcher.is_error(), matcher.get_error()
        allowed = [n for n in range(tokens.vocab_size) if mask[n // 8] >> (n % 8) & 1]
        if tokens.eos_token in allowed:
            return tokens.decode_bytes(made).decode()
        made.append(chance.choice(allowed))
        assert matcher.consume_token(made[-1])
    return None


@settings(max_examples=80, deadline=None)
@given(schemas, st.randoms(use_true_random=False))
def test_whatever_the_grammar_allows_is_a_value_of_its_schema(
    schema: dict[str, Any], chance: random.Random
) -> None:
    check(schema)
    answer = walked(schema, chance)
    if answer is not None:
        jsonschema.validate(json.loads(answer), schema, jsonschema.Draft202012Validator)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "pattern",
                    "$ref",
                    "$defs",
                    "enum",
                    "allOf",
                    "anyOf",
                    "oneOf",
                    "maxItems",
                    "minLength",
                    "multipleOf",
                    "required",
                    "format",
                    "const",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["type", "properties", "allOf", "items", "x"]), json_values))
def test_nothing_but_a_refusal_comes_of_what_is_no_schema(schema: dict[str, Any]) -> None:
    with contextlib.suppress(GrammarRefused):
        check(schema)
