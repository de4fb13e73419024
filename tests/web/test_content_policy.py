from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from pytest_django.fixtures import Settings

from tests.environment import ROOT
from web.content_policy import ContentPolicyMiddleware, policy_of

PLACES = ("/login/", "/admin/login/", "/nothing/", "/chat/")


@pytest.mark.django_db
@pytest.mark.parametrize("place", PLACES)
def test_a_page_runs_no_script_but_the_servers_own(place: str) -> None:
    policy = policy_of(Client().get(place))
    assert policy["default-src"] == policy["object-src"] == policy["base-uri"] == ["'none'"]
    assert policy["frame-ancestors"] == policy["script-src-attr"] == ["'none'"]
    assert policy["script-src"][0] == "'self'"
    assert "'unsafe-inline'" not in policy["script-src"] + policy["style-src"]
    assert ("'unsafe-eval'" in policy["script-src"]) == place.startswith("/admin/")


@pytest.mark.parametrize(
    ("secure", "socket"), [(False, "ws://chat.example"), (True, "wss://chat.example")]
)
def test_a_page_connects_to_its_own_host_alone(
    settings: Settings, secure: bool, socket: str
) -> None:
    settings.ALLOWED_HOSTS = ["chat.example"]
    request = RequestFactory(SERVER_NAME="chat.example").get("/chat/", secure=secure)
    response = ContentPolicyMiddleware(lambda _: HttpResponse())(request)
    assert policy_of(response)["connect-src"] == ["'self'", socket]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "host", ["evil.example", "chat.example, evil.example", "chat.example;script-src *", "a b"]
)
def test_a_made_up_host_gets_into_no_policy(settings: Settings, host: str) -> None:
    settings.ALLOWED_HOSTS = ["chat.example"]
    answer = Client().get("/login/", HTTP_HOST=host)
    assert answer.status_code == 400
    assert policy_of(answer)["connect-src"] == ["'self'"]
    assert b"evil" not in answer.content


def test_a_nonce_is_in_the_policy_once_a_template_has_asked_for_it() -> None:
    nonces: list[str] = []

    def view(request: object) -> HttpResponse:
        nonces.append(str(request.csp_nonce))  # type: ignore[attr-defined]
        return HttpResponse()

    for _ in range(2):
        response = ContentPolicyMiddleware(view)(RequestFactory().get("/login/"))
        assert f"'nonce-{nonces[-1]}'" in policy_of(response)["script-src"]
    assert nonces[0] != nonces[1]


# What a policy without inline scripts and styles forbids in a page.
INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>|<style\b|\sstyle=|\son[a-z]+=|javascript:", re.I)


@pytest.mark.parametrize(
    "template",
    sorted((ROOT / "templates").rglob("*.html")),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_no_page_of_ours_needs_what_the_policy_forbids(template: Path) -> None:
    """Those too that no walk comes by: 400, 403, 500."""
    assert INLINE.findall(template.read_text()) == []
