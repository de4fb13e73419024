"""Every way in which the platform answers, over a real socket: what browsers are told, and which
status a request gets that is too much.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from config.web_security import HEADERS
from tests.ground.stack import Stack
from tests.integration.asking import CHAT

# Every page says its own content policy and how long it may be kept.
OWN = {"content-security-policy", "cache-control"}
BIG = 2_000_001
HTML = {"Accept": "text/html,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/login/", 200),
        ("GET", "/", 302),
        ("GET", "/chat/", 302),
        ("GET", "/admin/login/", 302),
        ("GET", "/admin/", 302),
        ("GET", "/nothing/here/", 404),
        ("POST", "/login/", 403),
        ("GET", "/static/style/base.css", 200),
        ("GET", "/static/nothing.css", 404),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/v1/nothing", 404),
        ("GET", CHAT, 405),
    ],
)
def test_every_answer_tells_browsers_what_to_refuse(
    http: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    for name, value in HEADERS.items():
        assert len(answer.headers.get_list(name)) == 1, name
        if name not in OWN:
            assert answer.headers[name] == value, name
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") or "default-src 'none'" in policy
    if path.startswith("/static/style"):
        assert "max-age" in answer.headers["cache-control"]
    else:
        assert "no-store" in answer.headers["cache-control"]
    assert "strict-transport-security" not in answer.headers


@pytest.mark.parametrize("path", ["/login/", "/admin/login/", CHAT])
@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_body_that_is_too_large(http: httpx.Client, path: str, in_chunks: bool) -> None:
    """On pages as in the API; a browser is told by a page."""
    content = (b"x" * 65_536 for _ in range(40)) if in_chunks else b"x" * BIG
    answer = http.post(path, content=content, headers={"Accept": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"
    content = (b"x" * 65_536 for _ in range(40)) if in_chunks else b"x" * BIG
    page = http.post(path, content=content, headers=HTML | {"Accept-Language": "tr"})
    assert page.status_code == 413
    assert "Çok büyük" in page.text
    assert "no-store" in page.headers["cache-control"]


def form(client: httpx.Client) -> dict[str, str]:
    client.get("/login/").raise_for_status()
    return {"csrfmiddlewaretoken": client.cookies["csrftoken"], "username": "a", "password": "b"}


def test_a_form_of_too_many_fields(http: httpx.Client) -> None:
    fields = form(http) | {f"f{number}": "" for number in range(1001)}
    answer = http.post("/login/", data=fields)
    assert answer.status_code == 400
    assert "could not understand" in answer.text


def test_a_form_of_too_many_files(http: httpx.Client) -> None:
    files = {f"f{number}": b"x" for number in range(5)}
    assert http.post("/login/", data=form(http), files=files).status_code == 400


@pytest.mark.parametrize(
    "body", [b"--b\r\n" * 2, b"--b\r\nContent-Disposition: form-data; name=" + b"n" * 99_999]
)
def test_a_multipart_body_that_is_none(http: httpx.Client, body: bytes) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    assert http.post("/login/", content=body, headers=kind).status_code in (400, 403)


def test_a_form_from_another_site_signs_nobody_in(stack: Stack) -> None:
    """Login CSRF: the token is asked for before anybody is signed in."""
    with httpx.Client(base_url=stack.url, timeout=30) as client:
        fields = form(client)
        without = {name: value for name, value in fields.items() if "csrf" not in name}
        assert client.post("/login/", data=without).status_code == 403
        foreign = {"Origin": "https://evil.example"}
        assert client.post("/login/", data=fields, headers=foreign).status_code == 403
        assert client.post("/login/", data=fields, headers={"Origin": "null"}).status_code == 403
        assert client.post("/login/", data=fields).status_code == 200


def over_the_wire(stack: Stack, request: bytes) -> bytes:
    """All that comes back until the server ends the connection."""
    where = urlsplit(stack.url)
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


@pytest.mark.parametrize("path", ["/login/", "/v1/models"])
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        pytest.param([b"X-A: " + b"a" * 17_000], b"431", id="one large header"),
        pytest.param([b"X-A: a"] * 501, b"431", id="many headers"),
        pytest.param([b"Content-Length: 5", b"Transfer-Encoding: chunked"], b"400", id="smuggled"),
    ],
)
def test_heads_that_are_too_much(
    stack: Stack, path: str, lines: list[bytes], status: bytes
) -> None:
    head = [f"GET {path} HTTP/1.1".encode(), b"Host: 127.0.0.1", *lines, b"", b""]
    answer = over_the_wire(stack, b"\r\n".join(head))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"X-Content-Type-Options: nosniff" in answer


@pytest.mark.parametrize("path", [b"/login/?", b"/v1/models?"])
def test_an_address_that_is_too_long(stack: Stack, path: bytes) -> None:
    request = b"GET " + path + b"a" * 17_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert over_the_wire(stack, request).startswith(b"HTTP/1.1 414")


@pytest.mark.parametrize("value", [b"a\rSet-Cookie: x=1", b"good-enough\nSet-Cookie: x=1"])
def test_what_is_given_back_adds_no_header(stack: Stack, value: bytes) -> None:
    head = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Request-Id: "
    assert b"Set-Cookie" not in over_the_wire(stack, head + value + b"\r\n\r\n")
