"""The clients of docs/clients get the whole answer once through a network that cuts them off."""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import quote

import pytest
from playwright.async_api import Error, async_playwright

from tests.browser.chromium import launch
from tests.clients.cutting_proxy import cutting
from tests.environment import ROOT
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of

CLIENTS = ROOT / "docs" / "clients"
QUESTION = "How long is it?"
CUTS = 4
# In the middle of an event, some ten events after the beginning.
AFTER_BYTES = 3_001
IN_A_PAGE = """async ([source, key, question]) => {
    const {pieces} = await import(source);
    let text = "";
    for await (const piece of pieces(location.origin, key, question)) text += piece;
    return text;
}"""


def answer_to(stack: Stack, text: str) -> str:
    with client_of(stack) as client:
        reply = client.post(CHAT, json=asking(text, max_tokens=None))
        assert reply.status_code == 200, reply.text
        return str(reply.json()["choices"][0]["message"]["content"])


def generations(stack: Stack) -> int:
    (found,) = stack.store.rows("SELECT COUNT(*) AS made FROM inference_generation")
    return int(found["made"])


async def run_python(url: str, key: str, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CLIENTS / "resume.py"),
        *arguments,
        env={**os.environ, "NEHIR_URL": url, "NEHIR_KEY": key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_python_client(stack: Stack) -> None:
    expected = answer_to(stack, QUESTION)
    before = generations(stack)
    async with cutting(stack.url, cuts=CUTS, after_bytes=AFTER_BYTES) as proxy:
        status, text, errors = await run_python(proxy.url, stack.acme.key, "fake", QUESTION)
        assert (status, errors) == (0, "")
        assert text == expected
        assert proxy.cuts == 0
    assert generations(stack) == before + 1


async def test_the_python_client_asks_once_though_its_reply_is_lost(stack: Stack) -> None:
    expected = answer_to(stack, QUESTION)
    before = generations(stack)
    # Not a byte of the first replies comes through.
    async with cutting(stack.url, cuts=2, after_bytes=0) as proxy:
        status, text, errors = await run_python(proxy.url, stack.acme.key, "fake", QUESTION)
        assert (status, text, errors) == (0, expected, "")
        assert proxy.cuts == 0
    assert generations(stack) == before + 1


async def test_the_python_client_says_what_is_refused(stack: Stack) -> None:
    status, text, errors = await run_python(stack.url, stack.acme.key, "unknown", QUESTION)
    assert (status, text) == (1, "")
    assert "model_not_found" in errors


@pytest.mark.browser
async def test_the_javascript_client(stack: Stack) -> None:
    expected = answer_to(stack, QUESTION)
    before = generations(stack)
    source = "data:text/javascript," + quote((CLIENTS / "resume.js").read_text())
    question = {"model": "fake", "messages": [{"role": "user", "content": QUESTION}]}
    async with (
        async_playwright() as playwright,
        cutting(stack.url, cuts=CUTS, after_bytes=AFTER_BYTES) as proxy,
    ):
        browser = await launch(playwright)
        # The program comes from elsewhere; our own pages take in nothing that does.
        page = await browser.new_page(bypass_csp=True)
        await page.goto(f"{proxy.url}/login/")
        text = await page.evaluate(IN_A_PAGE, [source, stack.acme.key, question])
        assert text == expected
        assert proxy.cuts == 0
        unknown = question | {"model": "unknown"}
        with pytest.raises(Error, match="model_not_found"):
            await page.evaluate(IN_A_PAGE, [source, stack.acme.key, unknown])
        await browser.close()
    assert generations(stack) == before + 1
