"""The whole way with the real model: from a person's keyboard through vLLM and back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.async_api import expect

from inference.weights import bundled
from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install
from tests.ground.processes import wait_until

pytestmark = [*BROWSER, pytest.mark.model]

# Enough of an answer for a picture, or all there is.
LONG_ENOUGH = (
    "() => (([state, text]) => text.length > 500 || state !== 'streaming')(window.seen.at(-1))"
)
QUESTION = "Write a short text about how a river shapes its valley."
MESSAGES = "SELECT * FROM streaming_message WHERE conversation_id = ? ORDER BY created_at, id"


async def test_a_person_signs_in_asks_and_watches_the_answer_grow(
    people: People, model_install: Install, screenshots: Screenshots
) -> None:
    page = await people.page(model_install)
    await page.goto("/")
    await expect(page).to_have_url(f"{model_install.url}/login/?next=/chat/")
    login = model_install.tenant("acme")["user"]
    await page.get_by_label("User name").fill(login["username"])
    await page.get_by_label("Password").fill(login["password"])
    await page.get_by_role("button", name="Sign in").click()

    chat = Chat(page)
    await chat.connected()
    await expect(page.get_by_test_id("tenant")).to_have_text("Acme")
    await expect(page.get_by_test_id("model")).to_have_value(bundled.NAME)
    await chat.watch()
    await chat.send(QUESTION)
    await chat.reaches("streaming")
    # Its first words are what the conversation is called, at once and wherever it is listed.
    await expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
    await expect(page.get_by_role("link", name=QUESTION)).to_be_visible()
    await page.wait_for_function(LONG_ENOUGH)
    await screenshots.take(page, "chat")
    await chat.reaches("finished")

    texts = [text for state, text in await chat.seen() if state == "streaming"]
    # One after another, and each goes on where the one before was.
    assert len(texts) > 20
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts[:10]))
    conversation = await chat.conversation_id()
    question, answer = model_install.rows(MESSAGES, conversation)
    assert question["text"] == QUESTION
    assert await chat.source() == answer["text"]

    shown = await chat.text_of(chat.answer).inner_text()
    await page.reload()
    assert await chat.text_of(chat.answer).inner_text() == shown
    assert await chat.source() == answer["text"]


async def test_stop_ends_the_answer_and_keeps_what_came(
    people: People, model_install: Install
) -> None:
    page = await people.page(model_install, model_install.tenant("acme")["user"])
    chat = await Chat(page).open()
    await chat.watch()
    await chat.send("Write a long story about a river and its people, in many chapters.")
    await page.wait_for_function("() => window.seen.at(-1)?.[1].length > 40")
    await chat.stop_button.click()
    await chat.reaches("stopped")
    await expect(chat.answer).to_contain_text("Stopped.")
    await expect(chat.stop_button).to_be_hidden()
    kept = await chat.source()

    conversation = await chat.conversation_id()
    wait_until(lambda: len(model_install.rows(MESSAGES, conversation)) == 2, what="it is settled")
    answer = model_install.rows(MESSAGES, conversation)[1]
    assert (answer["text"], answer["finish_reason"]) == (kept, "cancelled")
    assert model_install.settled(answer["generation_id"])["state"] == "cancelled"
    model_install.wait_until_idle()
    await page.reload()
    await expect(chat.answer).to_have_attribute("data-state", "stopped")
    assert await chat.source() == kept


async def test_a_second_question_knows_the_first(
    people: People, model_install: Install, screenshots: Screenshots
) -> None:
    login = model_install.tenant("acme")["user"]
    page = await people.page(model_install, login, color_scheme="dark")
    chat = await Chat(page).open()
    await chat.send("What is the capital of France?")
    await chat.reaches("finished")
    conversation = await chat.conversation_id()
    await chat.send("And of Germany?")
    await expect(chat.messages).to_have_count(4)
    await chat.reaches("finished")
    assert await chat.conversation_id() == conversation
    await screenshots.take(page, "dark")

    made = model_install.rows(
        "SELECT * FROM inference_generation WHERE conversation_id = ? ORDER BY created_at",
        conversation,
    )
    assert len(made) == 2
    # The second prompt holds the first question and its answer.
    assert made[1]["prompt_tokens"] > made[0]["prompt_tokens"] + made[0]["output_tokens"]
