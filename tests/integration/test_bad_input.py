"""What no client should send: an answer in OpenAI's shape, and the next request is served."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.integration.asking import CHAT, asking

LIMIT = 2_000_000


def refused(response: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    error: dict[str, object] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    assert "Traceback" not in response.text
    return error


@pytest.fixture(autouse=True)
def _still_served(http: httpx.Client) -> Iterator[None]:
    yield
    assert http.post(CHAT, json=asking(max_tokens=1)).status_code == 200


def nested(depth: int) -> bytes:
    return b'{"model": "fake", "messages": ' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b"model=fake", "invalid_json"),
        (nested(200_000), "invalid_json"),
        (
            b'{"model": "fake", "messages": [{"role": "user", "content": "\\ud800"}]}',
            "invalid_json",
        ),
        (b'"fake"', "invalid_request"),
        (b'{"model": "fake", "messages": [], "seed": ' + b"9" * 100_000 + b"}", "invalid_request"),
        (json.dumps(asking(max_tokens=10**30)).encode(), "invalid_request"),
        (json.dumps(asking(stream="yes")).encode(), "invalid_request"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_bodies(http: httpx.Client, body: bytes, code: str) -> None:
    headers = {"Content-Type": "application/json"}
    refused(http.post(CHAT, content=body, headers=headers), 400, code)


@pytest.mark.parametrize("text", ["\u0000", "a\u0000b", "\u2028\u202e", "🌊" * 100, "{{ 7 * 7 }}"])
def test_odd_characters_are_only_characters(http: httpx.Client, text: str) -> None:
    answer = http.post(CHAT, json=asking(text))
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_of_a_megabyte_is_refused_unread(http: httpx.Client, stream: bool) -> None:
    body = asking("river " * 170_000, stream=stream)
    error = refused(http.post(CHAT, json=body), 400, "context_length_exceeded")
    assert error["param"] == "messages"


@pytest.mark.parametrize("field", ["n", "best_of"])
@pytest.mark.parametrize("number", [2, 129, 10**12, -1, 0])
def test_several_answers_at_once_are_refused(http: httpx.Client, field: str, number: int) -> None:
    error = refused(http.post(CHAT, json=asking(**{field: number})), 400, "unsupported_value")
    assert error["param"] == field


def test_an_oversized_body_by_its_announced_length(http: httpx.Client) -> None:
    refused(http.post(CHAT, content=b" " * (LIMIT + 1)), 413, "request_too_large")


def test_an_oversized_body_in_chunks(http: httpx.Client) -> None:
    chunks = (b" " * 65_536 for _ in range(LIMIT // 65_536 + 2))
    refused(http.post(CHAT, content=chunks), 413, "request_too_large")


def test_a_body_up_to_the_limit_is_read(http: httpx.Client) -> None:
    body = json.dumps(asking()).encode()
    answer = http.post(CHAT, content=body + b" " * (LIMIT - len(body)))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("PUT", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/fake", "GET"),
        ("OPTIONS", CHAT, "POST"),
    ],
)
def test_wrong_methods(http: httpx.Client, method: str, path: str, allowed: str) -> None:
    response = http.request(method, path)
    refused(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == allowed


@pytest.mark.parametrize("path", ["/v1/", "/v1/completions", "/v1/models/a/b", "/v1/%00", "/v1/é"])
def test_unknown_addresses(http: httpx.Client, path: str) -> None:
    refused(http.get(path), 404, "unknown_url")
    refused(http.post(path, json={}), 404, "unknown_url")


def test_an_unknown_model_in_the_address(http: httpx.Client) -> None:
    refused(http.get("/v1/models/%22%27%3B--"), 404, "model_not_found")


def test_a_request_id_comes_back_if_it_is_well_formed(http: httpx.Client) -> None:
    given = http.get("/v1/models", headers={"X-Request-Id": "my-request.1"})
    assert given.headers["X-Request-Id"] == "my-request.1"
    made = http.get("/v1/models", headers={"X-Request-Id": "a b\tc" * 20})
    assert made.headers["X-Request-Id"].startswith("req_")


def test_a_priority_above_the_keys_own_is_refused_and_others_are_served(http: httpx.Client) -> None:
    error = refused(
        http.post(CHAT, json=asking(service_tier="priority")), 403, "priority_not_allowed"
    )
    assert error["param"] == "service_tier"
    for tier in ("auto", "default", "flex"):
        answered = http.post(CHAT, json=asking(max_tokens=1, service_tier=tier))
        assert answered.status_code == 200, tier
