"""The page's JavaScript in a real browser, against a socket that the test speaks for."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.streaming.chat_page import READY, Chat

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_answer_waits_streams_and_finishes(chat: Chat) -> None:
    page = chat.page
    page.evaluate(
        """() => {
            window.seen = [];
            const list = document.querySelector("[data-messages]");
            const look = () => window.seen.push(list.lastElementChild?.innerText ?? "");
            new MutationObserver(look).observe(
                list, {subtree: true, childList: true, characterData: true});
        }"""
    )
    message = chat.ask("What is a delta?")
    assert (message["conversation"], message["model"]) == (None, "small")
    chat.expect_answer("waiting")
    chat.accept(message)
    chat.send(type="queued", generation="gen_1", position=3, eta_p50_s=None, eta_p90_s=None)
    expect(chat.answer).to_contain_text("3rd in the queue")
    assert page.url.endswith("/chat/cnv_1/")
    expect(page.locator('#sidebar [aria-current="page"]')).to_have_text("What is a delta?")
    for seq, word in enumerate(("Where ", "a **river** ", "meets ", "the sea."), 1):
        chat.tokens(word, seq)
        expect(chat.answer).to_contain_text(word.strip())
        chat.expect_answer("streaming")
    chat.tokens("twice", 4)
    chat.finish()
    chat.expect_answer("finished")
    expect(chat.answer.locator("strong")).to_have_text("river")
    expect(chat.answer).to_contain_text("9 tokens")
    expect(chat.answer).not_to_contain_text("twice")
    growing = [text for text in page.evaluate("window.seen") if "Where" in text]
    assert len(set(growing)) >= 4
    assert chat.ask("And an estuary?")["conversation"] == "cnv_1"


def test_text_of_models_is_never_markup(chat: Chat) -> None:
    attack = (
        "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\n\n"
        "[a](javascript:window.pwned=1) [b](data:text/html,x) [c](https://example.org/?q=<b>) "
        "**<b>bold</b>** `<i>code</i>`\n\n- <svg onload=window.pwned=1>\n\n"
        "```html\n<script>window.pwned=1</script>\n```"
    )
    message = chat.ask(attack)
    chat.accept(message)
    chat.tokens(attack, 1)
    expect(chat.answer).to_contain_text("<svg onload=window.pwned=1>")
    chat.finish()
    chat.expect_answer("finished")
    assert chat.page.evaluate("window.pwned") is None
    made = ", ".join(
        f".message-text {tag}" for tag in ("script", "img", "svg:not(.icon)", "b", "i")
    )
    expect(chat.page.locator(made)).to_have_count(0)
    links = chat.answer.locator(".message-text a")
    expect(links).to_have_count(1)
    expect(links).to_have_attribute("href", "https://example.org/?q=%3Cb%3E")
    assert "noopener" in str(links.get_attribute("rel"))
    expect(chat.answer).to_contain_text("[a](javascript:window.pwned=1)")
    expect(chat.page.locator('[data-author="user"] .message-text')).to_have_text(attack)


def test_stopping_before_the_answer_has_a_name_and_after(chat: Chat) -> None:
    message = chat.ask("Tell me all")
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_test_id("stop")).to_be_disabled()
    assert chat.received == []
    chat.accept(message)
    chat.next_message("stop", generation="gen_1")
    chat.finish("cancelled")
    chat.expect_answer("stopped")

    chat.accept(chat.ask("Tell me more"), "gen_2")
    chat.tokens("Once", 1, "gen_2")
    chat.page.get_by_test_id("stop").click()
    chat.next_message("stop", generation="gen_2")
    chat.finish("cancelled", "gen_2")
    chat.expect_answer("stopped")
    expect(chat.page.get_by_test_id("send")).to_be_visible()


def test_an_error_is_told_and_what_cannot_be_asked_again_is_given_back(chat: Chat) -> None:
    message = chat.ask("x" * 50)
    error = {"code": "context_length_exceeded", "message": "raw", "retryable": False}
    kept = {"id": "cnv_1", "title": "xxx"}
    chat.send(type="error", ref=message["ref"], generation=None, error=error, conversation=kept)
    chat.expect_answer("failed")
    expect(chat.answer).to_contain_text("The conversation is too long for this model.")
    expect(chat.answer.get_by_role("button", name="Try again")).to_be_hidden()
    expect(chat.page.get_by_test_id("composer")).to_have_value("x" * 50)
    assert chat.page.url.endswith("/chat/cnv_1/")

    message = chat.ask("again")
    error = {"code": "something_new", "message": "The server's own words.", "retryable": True}
    chat.send(type="error", ref=message["ref"], generation=None, error=error)
    expect(chat.answer).to_contain_text("The server's own words.")
    expect(chat.answer.get_by_role("button", name="Try again")).to_be_visible()


def test_the_page_says_how_the_model_is(chat: Chat) -> None:
    banner = chat.page.get_by_test_id("banner")
    expect(banner).to_be_hidden()
    for state, words in (
        ("loading", "The model is loading; your message waits in the queue."),
        ("down", "The model is not running; your message waits in the queue until it is back."),
    ):
        chat.send(type="models", models=[{"name": "small", "state": state}])
        expect(banner).to_have_text(words)
    chat.send(type="models", models=[])
    chat.page.get_by_test_id("composer").fill("hello")
    expect(chat.page.get_by_test_id("send")).to_be_disabled()
    chat.send(type="models", models=READY)
    expect(banner).to_be_hidden()
    expect(chat.page.get_by_test_id("send")).to_be_enabled()


def test_the_language_is_switched_and_the_scripts_follow(chat: Chat) -> None:
    chat.page.get_by_test_id("language-tr").click()
    expect(chat.page.get_by_test_id("composer")).to_have_attribute("placeholder", "Bir mesaj yazın")
    expect(chat.page.get_by_test_id("connection")).to_have_text("Bağlı")
    message = chat.ask("Delta nedir?")
    chat.accept(message)
    chat.send(type="queued", generation="gen_1", position=2, eta_p50_s=200, eta_p90_s=400)
    expect(chat.answer).to_contain_text("Kuyrukta 2. sıradasınız, yaklaşık 4 dk (en çok 7 dk)")


def test_who_is_signed_out_goes_to_the_login(chat: Chat) -> None:
    chat.page.context.clear_cookies()
    chat.sockets[-1].close(code=4401)
    chat.page.wait_for_url("**/login/?next=%2Fchat%2F")
