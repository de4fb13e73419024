from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from config import web_security
from config.checks import check_web_security

SAFE: dict[str, Any] = {
    "CONTENT_SECURITY_POLICY": web_security.pages(production=True),
    "SESSION_COOKIE_NAME": "__Host-sessionid",
    "CSRF_COOKIE_NAME": "__Host-csrftoken",
    "ALLOWED_HOSTS": ["nehir.example"],
    "CSRF_TRUSTED_ORIGINS": ["https://nehir.example"],
}
LOOSE = {"script-src": ["'self'", "'unsafe-inline'"]}


def told(**settings: Any) -> list[str | None]:
    with override_settings(**SAFE | settings):
        return [message.id for message in check_web_security(None)]


def test_safe_settings_are_accepted() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        pytest.param({"MIDDLEWARE": []}, "nehir.E001", id="no policy"),
        pytest.param(
            {"CONTENT_SECURITY_POLICY": {"DIRECTIVES": LOOSE}}, "nehir.E002", id="inline scripts"
        ),
        pytest.param(
            {"CONTENT_POLICY_MORE": {"/chat/": LOOSE}}, "nehir.E002", id="inline scripts somewhere"
        ),
        pytest.param(
            {"CONTENT_SECURITY_POLICY": {"DIRECTIVES": {"script-src": ["'unsafe-eval'"]}}},
            "nehir.E003",
            id="eval everywhere",
        ),
        pytest.param({"SESSION_COOKIE_NAME": "sessionid"}, "nehir.W004", id="a plain cookie"),
        pytest.param(
            {"SESSION_COOKIE_SAMESITE": "None"}, "nehir.E005", id="a cookie for all sites"
        ),
    ],
)
def test_what_is_unsafe_is_named(settings: dict[str, Any], named: str) -> None:
    assert told(**settings) == [named]
