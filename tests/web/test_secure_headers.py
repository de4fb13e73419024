from __future__ import annotations

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from config.web_security import HEADERS
from web.secure_headers import SecureHeaders

HSTS = b"strict-transport-security"


async def answered(
    scope: dict[str, Any] | None = None, *given: tuple[bytes, bytes]
) -> dict[bytes, bytes]:
    """The headers of an application's answer once they have come through; none twice."""
    sent: list[dict[str, Any]] = []

    async def app(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": given})
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asked = {"type": "http", "scheme": "http", "headers": []} | (scope or {})
    await SecureHeaders(app, headers=HEADERS)(asked, None, send)
    assert sent[1] == {"type": "http.response.body", "body": b"ok"}
    headers = sent[0]["headers"]
    assert len(dict(headers)) == len(headers)
    return dict(headers)


async def test_an_answer_without_any_has_them_all() -> None:
    headers = await answered()
    assert {name.decode(): value.decode() for name, value in headers.items()} == HEADERS


async def test_an_answers_own_word_counts() -> None:
    headers = await answered(None, (b"Cache-Control", b"max-age=60"), (b"X-Other", b"1"))
    assert headers[b"Cache-Control"] == b"max-age=60"
    assert b"cache-control" not in headers
    assert headers[b"X-Other"] == b"1"


@pytest.mark.parametrize(
    ("scheme", "forwarded", "secure"),
    [
        ("http", None, False),
        ("https", None, True),
        ("http", b"https", True),
        ("https", b"http", False),
        ("http", b"https, http", False),
    ],
)
async def test_hsts_is_said_over_tls_alone(
    settings: Settings, scheme: str, forwarded: bytes | None, secure: bool
) -> None:
    settings.SECURE_HSTS_SECONDS = 60
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SECURE_HSTS_PRELOAD = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    told = [] if forwarded is None else [(b"x-forwarded-proto", forwarded)]
    headers = await answered({"scheme": scheme, "headers": told})
    expected = b"max-age=60; includeSubDomains; preload" if secure else None
    assert headers.get(HSTS) == expected


async def test_outside_production_no_browser_is_bound_to_tls(settings: Settings) -> None:
    settings.SECURE_HSTS_SECONDS = 0
    assert HSTS not in await answered({"scheme": "https"})
