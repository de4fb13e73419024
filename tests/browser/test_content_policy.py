"""Every page keeps to its content policy, and what gets into one as markup does not run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.ground.install import Install

pytestmark = BROWSER

# Collected from the very first script of a page on, whatever the page does afterwards.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
});
"""
# What the admin has to add, that lists don't lead to.
ADDRESSES = (
    "/admin/",
    "/admin/replicas/",
    "/admin/password_change/",
    "/admin/tenants/apikey/add/",
    "/admin/tenants/membership/add/",
    "/admin/tenants/serviceaccount/add/",
    "/admin/tenants/tenant/add/",
    "/admin/auth/user/add/",
    "/admin/inference/release/add/",
    "/admin/inference/route/add/",
)
LINKS = """() => [...document.querySelectorAll("a[href^='/admin/']")]
  .map((link) => link.getAttribute("href"))
  .filter((href) => !/logout|export|[?#]/.test(href))"""


async def watched(people: People, install: Install, login: dict[str, str] | None = None) -> Page:
    page = await people.page(install, login)
    await page.context.add_init_script(WATCH)
    return page


async def visit(page: Page, address: str) -> list[str]:
    """What the page there violated of its policy."""
    answer = await page.goto(address)
    assert answer is not None
    assert "default-src 'none'" in answer.headers["content-security-policy"], address
    await page.wait_for_load_state("networkidle")
    found: list[str] = await page.evaluate("window.violations")
    return [f"{address}: {each}" for each in found]


@asynccontextmanager
async def another_origin() -> AsyncIterator[str]:
    """The address of an empty page, served by somebody else on the same host."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n"
        writer.write(head + b"Connection: close\r\n\r\n<!doctype html>")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}/"


async def test_every_page_of_the_admin_keeps_to_its_policy(
    people: People, fake_install: Install
) -> None:
    """Its lists, a row of each, and the forms."""
    page = await watched(people, fake_install, fake_install.demo["operator"])
    await page.goto("/admin/")
    todo, seen, found = [*ADDRESSES, *await page.evaluate(LINKS)], set[str](), list[str]()
    while todo:
        address = todo.pop(0)
        # One row of a model is as good as the next.
        kind = "/".join(
            "ID" if part.isdigit() or "_" in part else part for part in address.split("/")
        )
        if kind in seen:
            continue
        seen.add(kind)
        found += await visit(page, address)
        if address.count("/") <= 4:  # the index and the lists lead on
            todo += await page.evaluate(LINKS)
    assert found == []
    assert len(seen) > 25, seen


@pytest.mark.parametrize("address", ["/login/", "/admin/login/", "/nothing/here/"])
async def test_pages_for_strangers_keep_to_their_policy(
    people: People, fake_install: Install, address: str
) -> None:
    page = await watched(people, fake_install)
    assert await visit(page, address) == []
    people.errors = [each for each in people.errors if "404 (Not Found)" not in each]


async def test_a_form_that_is_too_large_is_told_by_a_page(
    people: People, fake_install: Install
) -> None:
    page = await watched(people, fake_install)
    await page.goto("/login/")
    await page.evaluate(
        """() => {
          const form = document.querySelector("form[method=post]");
          const field = document.createElement("textarea");
          field.name = "more";
          field.value = "x".repeat(2_000_100);
          form.append(field);
          HTMLFormElement.prototype.submit.call(form);
        }"""
    )
    await expect(page.get_by_role("heading", name="Too large")).to_be_visible()
    assert await page.evaluate("window.violations") == []
    people.errors = [each for each in people.errors if "413" not in each]


async def test_another_origins_page_gets_no_socket(people: People, fake_install: Install) -> None:
    """Cross-site WebSocket hijacking: the person is signed in, and looks at somebody else's page on
    another port of the same machine, to which the browser sends the cookie along.
    """
    page = await watched(people, fake_install, fake_install.tenant("acme")["user"])
    await Chat(page).open()
    foreign = await page.context.new_page()
    async with another_origin() as address:
        await foreign.goto(address)
        closed = await foreign.evaluate(
            """(socket) => new Promise((resolve) => {
              const stolen = new WebSocket(socket), heard = [];
              stolen.onmessage = (event) => heard.push(event.data);
              stolen.onclose = (event) => resolve([event.code, heard]);
            })""",
            fake_install.url.replace("http", "ws") + "/ws/chat/",
        )
    assert closed == [4403, []]


async def test_a_chat_keeps_to_its_policy(people: People, fake_install: Install) -> None:
    page = await watched(people, fake_install, fake_install.tenant("acme")["user"])
    chat = await Chat(page).open()
    await chat.send("# A question\n\n```python\nprint(1)\n```")
    await chat.reaches("finished")
    assert await page.evaluate("window.violations") == []


@pytest.mark.parametrize(
    ("address", "login"), [("/chat/", "user"), ("/admin/", "admin"), ("/login/", None)]
)
async def test_markup_that_gets_into_a_page_does_not_run(
    people: People, fake_install: Install, address: str, login: str | None
) -> None:
    """As if something had let it in: the second line of defence alone."""
    who = None if login is None else fake_install.tenant("acme")[login]
    page = await watched(people, fake_install, who)
    await page.goto(address)
    await page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          const holder = document.createElement("div");
          holder.innerHTML = '<img src="data:," onerror="window.hacked = 2"><style>p{}</style>';
          document.body.append(holder);
          const foreign = document.createElement("script");
          foreign.src = "data:text/javascript,window.hacked=3";
          document.body.append(foreign);
          const frame = document.createElement("iframe");
          frame.srcdoc = "<script>parent.hacked = 4</" + "script>";
          document.body.append(frame);
        }"""
    )
    await page.wait_for_function("window.violations.length >= 4")
    assert await page.evaluate("window.hacked") is None
    assert {each.split(" ")[0] for each in await page.evaluate("window.violations")} >= {
        "script-src-elem",
        "script-src-attr",
        "style-src-elem",
    }
    people.errors = [each for each in people.errors if "Content Security Policy" not in each]


PAYLOAD = '"><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'


async def test_names_and_titles_are_text_everywhere(people: People, fake_install: Install) -> None:
    """A conversation's title, a service account's and a tenant's name."""
    acme = fake_install.tenant("acme")
    page = await watched(people, fake_install, acme["user"])
    chat = await Chat(page).open()
    await chat.send("A title to be.")
    await chat.reaches("finished")
    (tenant,) = fake_install.rows("SELECT id, name FROM tenants_tenant WHERE slug = 'acme'")
    change = "UPDATE tenants_tenant SET name = ? WHERE id = ?"
    fake_install.execute(
        "UPDATE streaming_conversation SET title = ? WHERE id = ?",
        PAYLOAD,
        await chat.conversation_id(),
    )
    fake_install.execute(change, PAYLOAD, tenant["id"])
    try:
        await page.reload()
        await expect(page.get_by_text(PAYLOAD).first).to_be_attached()
        assert await page.evaluate("[window.hacked, window.violations.length]") == [None, 0]
        console = await watched(people, fake_install, fake_install.demo["operator"])
        for address in ("/admin/tenants/tenant/", "/admin/streaming/conversation/"):
            assert await visit(console, address) == []
            await expect(console.get_by_text(PAYLOAD).first).to_be_attached()
            assert await console.evaluate("window.hacked") is None
    finally:
        fake_install.execute(change, tenant["name"], tenant["id"])
