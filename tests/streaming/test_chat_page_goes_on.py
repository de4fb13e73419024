"""What the page does when the way to its answer is lost, slow, or leads to less than all of it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.streaming.chat_page import READY, Chat

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOST = "Connection lost, going on as soon as it is back"
NOBODY_LOOKS = """() => {
    Object.defineProperty(document, "hidden", {get: () => true});
    window.requestAnimationFrame = () => 0;
}"""
NO_FRAMES = "() => { window.requestAnimationFrame = () => 0; }"
COUNTED = """async (steps) => {
    const {Countdown} = await import("/static/chat/countdown.js");
    let now = 0, tick = null, shown = null;
    performance.now = () => now;
    window.setInterval = (callback) => { tick = callback; return 1; };
    const countdown = new Countdown((words) => { shown = words; });
    return steps.map(([passed_s, set]) => {
        now += passed_s * 1000;
        if (set) countdown.set(...set);
        else tick();
        return shown;
    });
}"""


def in_mid_answer(chat: Chat) -> None:
    chat.accept(chat.ask("What is a delta?"))
    chat.tokens("Where a", 3)
    expect(chat.answer).to_contain_text("Where a")


def text_of(chat: Chat) -> Any:
    return chat.answer.locator("> [data-text]")


def refuse(chat: Chat, message: dict[str, Any], code: str) -> None:
    error = {"code": code, "message": "The server's own words.", "retryable": False}
    chat.send(type="error", ref=message["ref"], generation="gen_1", error=error)


@pytest.mark.parametrize("code", [1012, 3000])
def test_the_answer_goes_on_where_it_was(chat: Chat, code: int) -> None:
    in_mid_answer(chat)
    chat.lose(code)
    chat.expect_answer("resuming")
    expect(chat.answer).to_contain_text(LOST)
    expect(text_of(chat)).to_have_text("Where a")
    expect(chat.page.get_by_test_id("stop")).to_be_visible()
    resume = chat.next_message("resume", generation="gen_1", after_seq=3)
    chat.resumed(resume)
    chat.expect_answer("streaming")
    expect(chat.answer.locator("[data-progress]")).to_be_hidden()
    chat.tokens("twice", 3)
    chat.tokens(" **river** ends", 6)
    chat.finish()
    chat.expect_answer("finished")
    expect(text_of(chat)).to_have_text("Where a river ends")
    # Its pace can't be told from what came in bursts.
    expect(chat.answer.locator(".usage")).to_have_text("9 tokens")
    expect(chat.page.get_by_test_id("message")).to_have_count(2)
    assert len(chat.sockets) == 2


def test_the_header_says_that_it_goes_on(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.greets = False
    chat.lose()
    expect(chat.page.get_by_test_id("connection")).to_have_text(LOST)
    chat.wait_until(lambda: len(chat.sockets) == 2)
    chat.send(type="hello", protocol=1, models=READY)
    expect(chat.page.get_by_test_id("connection")).to_have_text("Connected")
    chat.next_message("resume", generation="gen_1", after_seq=3)


def test_a_question_on_its_way_is_sent_again_and_is_the_same(chat: Chat) -> None:
    message = chat.ask("What is a delta?")
    chat.lose()
    chat.expect_answer("resuming")
    again = chat.asked("What is a delta?")
    assert again == message
    assert again["key"]
    chat.accept(again)
    chat.tokens("Where a river ends", 4)
    chat.finish()
    chat.expect_answer("finished")
    expect(chat.page.get_by_test_id("message")).to_have_count(2)


def test_stopping_while_the_connection_is_lost(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.lose()
    chat.expect_answer("resuming")
    chat.page.keyboard.press("Escape")
    resume = chat.next_message("resume", generation="gen_1")
    chat.resumed(resume)
    chat.next_message("stop", generation="gen_1")
    chat.finish("cancelled")
    chat.expect_answer("stopped")


def test_what_is_shown_is_acknowledged(chat: Chat) -> None:
    chat.accept(chat.ask("What is a delta?"))
    for seq in range(1, 51):
        chat.tokens("word ", seq)
    chat.wait_until(lambda: chat.acks and chat.acks[-1] == ("gen_1", 50))
    assert chat.acks == sorted(set(chat.acks))
    # Frames that come together are acknowledged together.
    assert len(chat.acks) < 25
    chat.tokens("more", 51)
    chat.wait_until(lambda: chat.acks[-1] == ("gen_1", 51))


@pytest.mark.parametrize("script", [NOBODY_LOOKS, NO_FRAMES])
def test_a_page_that_is_not_drawn_reads_on(chat: Chat, script: str) -> None:
    chat.accept(chat.ask("What is a delta?"))
    chat.page.evaluate(script)
    chat.tokens("Where ", 1)
    chat.wait_until(lambda: chat.acks and chat.acks[-1] == ("gen_1", 1))
    chat.tokens("it ends", 3)
    chat.wait_until(lambda: chat.acks[-1] == ("gen_1", 3))
    expect(text_of(chat)).to_have_text("Where it ends")


def test_a_socket_that_only_looks_open_is_replaced(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.page.evaluate("dispatchEvent(new Event('online'))")
    ping = chat.next_message("ping")
    chat.send(type="pong", ref=ping["ref"])
    chat.page.evaluate("dispatchEvent(new Event('online'))")
    chat.next_message("ping")
    # No answer to that one.
    chat.wait_until(lambda: len(chat.sockets) == 2)
    chat.resumed(chat.next_message("resume", generation="gen_1", after_seq=3))
    # What the abandoned one still brings is of the past.
    chat.sockets[0].send('{"type":"tokens","generation":"gen_1","seq":9,"text":"stale"}')
    chat.tokens(" river ends", 6)
    chat.finish()
    chat.expect_answer("finished")
    expect(text_of(chat)).to_have_text("Where a river ends")


def test_a_gap_is_seen_where_it_is(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.lose()
    chat.resumed(chat.next_message("resume", generation="gen_1", after_seq=3))
    chat.send(type="gap", generation="gen_1", missed=40)
    chat.tokens("it meets the *sea*.", 50)
    words = "Where a… part of this answer is no longer kept …it meets the sea."
    expect(chat.answer.locator(".gap")).to_be_visible()
    chat.finish()
    chat.expect_answer("finished")
    expect(text_of(chat)).to_have_text(words)
    expect(text_of(chat).locator("em")).to_have_text("sea")


def test_what_is_no_longer_kept_can_be_asked_again(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.page.route("**/chat/cnv_1/", lambda route: route.fulfill(body="<p>no answer</p>"))
    chat.lose()
    refuse(chat, chat.next_message("resume"), "log_expired")
    chat.expect_answer("failed")
    expect(text_of(chat)).to_have_text("Where a")
    expect(chat.answer).to_contain_text("The rest of this answer is no longer kept. Try again.")
    chat.answer.get_by_role("button", name="Try again").click()
    assert chat.asked("What is a delta?")["conversation"] == "cnv_1"


def test_an_answer_that_ended_meanwhile_is_shown_as_it_is_kept(chat: Chat) -> None:
    in_mid_answer(chat)
    kept = (
        '<article data-generation="gen_1" data-state="finished" data-finish="length">'
        "<div data-text>Where a **river** meets the sea</div></article>"
    )

    def page_of(route: Route) -> None:
        route.fulfill(body=kept, content_type="text/html")

    chat.page.route("**/chat/cnv_1/", page_of)
    chat.lose()
    refuse(chat, chat.next_message("resume"), "log_expired")
    chat.expect_answer("finished")
    expect(text_of(chat)).to_have_text("Where a river meets the sea")
    expect(chat.answer).to_contain_text("Cut off: the answer reached its length limit.")


def test_an_outage_behind_the_server_is_waited_out(chat: Chat) -> None:
    in_mid_answer(chat)
    error = {"code": "service_unavailable", "message": "Redis is away.", "retryable": True}
    chat.send(type="error", ref=None, generation="gen_1", error=error)
    chat.expect_answer("resuming")
    refuse(chat, chat.next_message("resume", after_seq=3), "service_unavailable")
    chat.resumed(chat.next_message("resume", after_seq=3))
    chat.expect_answer("streaming")
    assert len(chat.sockets) == 1


def test_a_position_that_never_was_begins_anew(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.lose()
    refuse(chat, chat.next_message("resume", after_seq=3), "invalid_position")
    chat.resumed(chat.next_message("resume", after_seq=0))
    chat.tokens("Where it ends", 4)
    chat.finish()
    chat.expect_answer("finished")
    expect(text_of(chat)).to_have_text("Where it ends")


def test_an_answer_of_the_engine_that_failed_stays_failed(chat: Chat) -> None:
    in_mid_answer(chat)
    chat.lose()
    refuse(chat, chat.next_message("resume"), "engine_lost")
    chat.expect_answer("failed")
    expect(text_of(chat)).to_have_text("Where a")
    expect(chat.page.get_by_test_id("send")).to_be_visible()


def test_the_wait_in_the_queue_is_counted_down(chat: Chat) -> None:
    chat.accept(chat.ask("What is a delta?"))
    for position, place in ((1, "Next"), (2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st")):
        chat.send(type="queued", generation="gen_1", position=position, eta_p50_s=20, eta_p90_s=45)
        words = f"{place} in the queue, about 20 s (at most 45 s)"
        expect(chat.answer.locator("[data-progress]")).to_have_text(words)
    expect(chat.answer.locator("[data-progress]")).to_have_text(
        "21st in the queue, about 19 s (at most 45 s)"
    )
    chat.tokens("Where", 1)
    expect(chat.answer.locator("[data-progress]")).to_be_hidden()


def test_the_countdown_never_goes_up_by_itself(chat: Chat) -> None:
    steps = [
        (0, [20, 40]),
        (3, None),
        # A little more than it said: it stands still until that has passed.
        (2, [18, 36]),
        (1, None),
        # Less: it follows.
        (1, [5, 8]),
        # Much more: it says so.
        (1, [100, 100]),
        (200, None),
        (1, [None, None]),
    ]
    assert chat.page.evaluate(COUNTED, steps) == [
        ", about 20 s (at most 40 s)",
        ", about 17 s (at most 40 s)",
        ", about 15 s (at most 35 s)",
        ", about 14 s (at most 35 s)",
        ", about 5 s (at most 8 s)",
        ", about 2 min",
        ", any moment now",
        "",
    ]


def test_waiting_for_a_connection_is_told(chat: Chat) -> None:
    chat.greets = False
    chat.lose(1013)
    connection = chat.page.get_by_test_id("connection")
    expect(connection).to_have_text("Too many connections just now. Trying again…")
    chat.wait_until(lambda: len(chat.sockets) == 2)
    chat.send(type="connection_queued", position=2)
    expect(connection).to_have_text("Waiting for a free connection (2nd in line)")
    chat.send(type="connection_queued", position=1)
    expect(connection).to_have_text("Waiting for a free connection (1st in line)")
    expect(chat.page.get_by_test_id("send")).to_be_disabled()
    chat.send(type="hello", protocol=1, models=READY)
    expect(connection).to_have_text("Connected")


def test_the_sidebar_shows_what_is_being_answered(chat: Chat) -> None:
    chat.accept(chat.ask("What is a delta?"))
    item = chat.page.locator('[data-conversation="cnv_1"]')
    expect(item).to_have_attribute("data-answer", "open")
    expect(item.locator("[data-mark]")).to_have_attribute("title", "Being answered")
    chat.finish()
    expect(item).to_have_attribute("data-answer", "")
    expect(item.locator("[data-mark]")).to_be_hidden()


def test_answers_of_other_conversations_end_in_the_sidebar_too(chat: Chat) -> None:
    chat.accept(chat.ask("What is a delta?"))
    item = chat.page.locator('[data-conversation="cnv_1"]')
    expect(item).to_have_attribute("data-answer", "open")
    chat.page.route(
        "**/chat/running/", lambda route: route.fulfill(json={"running": {"cnv_1": "suspended"}})
    )
    chat.page.evaluate("document.querySelector('[aria-current]').removeAttribute('aria-current')")
    expect(item).to_have_attribute("data-answer", "suspended", timeout=30_000)
    words = "The answer goes on when you open it"
    expect(item.locator("[data-mark]")).to_have_attribute("title", words)
