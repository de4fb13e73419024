from __future__ import annotations

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from web.origin import REFUSED, ExactOrigin, is_own_origin

OWN = "http://nehir.example:8000"


@pytest.fixture(autouse=True)
def _hosts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["nehir.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://chat.partner.example"]
    settings.SECURE_PROXY_SSL_HEADER = None


def scope(origin: str | None, *, host: str = "nehir.example:8000", **more: str) -> dict[str, Any]:
    headers = {"host": host, **more} | ({} if origin is None else {"origin": origin})
    return {
        "type": "websocket",
        "scheme": "ws",
        "headers": [(name.encode(), value.encode("latin1")) for name, value in headers.items()],
    }


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        (OWN, True),
        ("https://chat.partner.example", True),
        ("https://nehir.example:8000", False),
        ("http://nehir.example", False),
        ("http://nehir.example:8001", False),
        ("http://evil.example:8000", False),
        ("http://nehir.example.evil.example:8000", False),
        ("http://evil.example/nehir.example:8000", False),
        ("http://chat.partner.example", False),
        ("https://chat.partner.example.", False),
        ("HTTP://NEHIR.EXAMPLE:8000", False),
        (f"{OWN} ", False),
        (f"{OWN}/", False),
        ("null", False),
        ("", False),
        (None, False),
        ("http://nehir\xe9.example:8000", False),
    ],
)
def test_the_whole_origin_has_to_match(origin: str | None, own: bool) -> None:
    assert is_own_origin(scope(origin)) is own


def test_a_host_that_is_not_served_is_no_own_host() -> None:
    """As when a page rebinds its own name to this address."""
    assert not is_own_origin(scope("http://evil.example:8000", host="evil.example:8000"))
    assert not is_own_origin(scope("http://", host=""))


def test_behind_a_proxy_the_browsers_scheme_counts(settings: Settings) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    secure = "https://nehir.example:8000"
    assert is_own_origin(scope(secure, **{"x-forwarded-proto": "https"}))
    assert not is_own_origin(scope(OWN, **{"x-forwarded-proto": "https"}))
    assert not is_own_origin(scope(secure, **{"x-forwarded-proto": "http"}))


async def test_a_foreign_socket_is_told_the_code_and_never_reaches_the_app() -> None:
    sent: list[dict[str, Any]] = []

    async def app(*_: object) -> None:
        raise AssertionError("reached")

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await ExactOrigin(app)(scope("http://evil.example"), receive, send)
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.close"]
    assert sent[1]["code"] == REFUSED == 4403
