"""An answer outlives its page, its socket and its web process, and ends as its log has it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install
from tests.ground.processes import wait_until

pytestmark = BROWSER

LOST = "Connection lost, going on as soon as it is back"
HAS_BEGUN = "() => window.seen.at(-1)?.[1].length > 60"
GENERATIONS = "SELECT * FROM inference_generation WHERE conversation_id = ?"
MESSAGES = "SELECT * FROM streaming_message WHERE conversation_id = ? ORDER BY id"


async def in_mid_answer(page: Page, text: str = "Tell me all about rivers.") -> Chat:
    chat = await Chat(page).open()
    await chat.watch()
    await chat.send(text)
    await page.wait_for_function(HAS_BEGUN)
    return chat


async def ends_as_its_log_has_it(chat: Chat, install: Install, *, state: str = "finished") -> None:
    await chat.reaches(state)
    shown = await chat.source()
    conversation = await chat.conversation_id()
    (generation,) = install.rows(GENERATIONS, conversation)
    assert install.settled(generation["id"])["state"] in ("finished", "cancelled")
    assert shown == install.log_text(generation["id"])
    question, answer = install.rows(MESSAGES, conversation)
    assert (question["author"], answer["text"]) == ("user", shown)
    await expect(chat.messages).to_have_count(2)


async def never_took_anything_back(chat: Chat) -> None:
    """What was shown while it came only ever grew."""
    texts = [text for state, text in await chat.seen() if state in ("streaming", "resuming")]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


def forget_lost_connections(people: People) -> None:
    """A browser notes each connection that fails; nothing else may have gone wrong."""
    expected = ("WebSocket connection", "net::ERR_")
    people.errors[:] = [
        error for error in people.errors if not any(words in error for words in expected)
    ]


class Brake:
    """Keeps a page's acknowledgements back, so that its answer stays in the middle."""

    def __init__(self) -> None:
        self.sockets: list[WebSocketRoute] = []
        self._held: list[Callable[[], None]] = []
        self._on = True

    async def put_on(self, page: Page) -> Page:
        await page.route_web_socket("**/ws/chat/", self._connect)
        return page

    def _connect(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            if self._on and '"ack"' in str(message):
                self._held.append(lambda: server.send(message))
            else:
                server.send(message)

        socket.on_message(pass_on)

    def release(self) -> None:
        self._on = False
        for send in self._held:
            send()


async def test_the_web_process_is_killed_in_mid_answer(
    people: People, patient_install: Install, screenshots: Screenshots
) -> None:
    page = await people.page(patient_install, patient_install.tenant("acme")["user"])
    chat = await in_mid_answer(page)
    patient_install.hold_restarts()
    try:
        patient_install.web_process().kill()
        await chat.reaches("resuming")
        await expect(chat.answer).to_contain_text(LOST)
        await expect(chat.connection).to_have_text(LOST)
        await screenshots.take(page, "resuming")
    finally:
        patient_install.allow_restarts()
    await ends_as_its_log_has_it(chat, patient_install)
    await never_took_anything_back(chat)
    await expect(chat.connection).to_have_text("Connected")
    forget_lost_connections(people)


async def test_the_page_is_loaded_again_in_mid_answer(
    people: People, patient_install: Install
) -> None:
    page = await people.page(patient_install, patient_install.tenant("acme")["user"])
    chat = await in_mid_answer(page)
    await page.reload()
    await chat.reaches("streaming")
    await expect(chat.stop_button).to_be_visible()
    await expect(page.locator("[aria-current=page]")).to_have_text("Tell me all about rivers.")
    await ends_as_its_log_has_it(chat, patient_install)
    await page.reload()
    assert await chat.source() == (await chat.text_of(chat.answer).inner_text()) + " "


async def test_two_pages_show_the_same_answer(people: People, patient_install: Install) -> None:
    login, brake = patient_install.tenant("acme")["user"], Brake()
    chat = await in_mid_answer(await brake.put_on(await people.page(patient_install, login)))
    other = Chat(await brake.put_on(await people.page(patient_install, login)))
    await other.open(chat.page.url)
    await other.reaches("streaming")
    await chat.reaches("streaming")
    brake.release()
    await ends_as_its_log_has_it(chat, patient_install)
    await ends_as_its_log_has_it(other, patient_install)


async def test_one_page_stops_what_another_has_asked_for(
    people: People, patient_install: Install
) -> None:
    login, brake = patient_install.tenant("acme")["user"], Brake()
    chat = await in_mid_answer(await brake.put_on(await people.page(patient_install, login)))
    other = Chat(await brake.put_on(await people.page(patient_install, login)))
    await other.open(chat.page.url)
    await other.reaches("streaming")
    await other.stop_button.click()
    brake.release()
    await ends_as_its_log_has_it(chat, patient_install, state="stopped")
    await ends_as_its_log_has_it(other, patient_install, state="stopped")


async def test_a_socket_that_is_cut_again_and_again(
    people: People, patient_install: Install
) -> None:
    login, brake = patient_install.tenant("acme")["user"], Brake()
    page = await brake.put_on(await people.page(patient_install, login))
    chat = await in_mid_answer(page)
    for cut in (1, 2, 3):
        await brake.sockets[-1].close(code=1012)
        await page.wait_for_function("() => window.seen.at(-1)[0] === 'resuming'")
        await chat.reaches("streaming")
        assert len(brake.sockets) == cut + 1
    brake.release()
    await ends_as_its_log_has_it(chat, patient_install)
    await never_took_anything_back(chat)


async def test_a_network_that_is_gone_for_a_while(people: People, patient_install: Install) -> None:
    page = await people.page(patient_install, patient_install.tenant("acme")["user"])
    chat = await in_mid_answer(page)
    await page.context.set_offline(True)
    await chat.reaches("resuming")
    await expect(chat.answer).to_contain_text(LOST)
    await page.context.set_offline(False)
    await ends_as_its_log_has_it(chat, patient_install)
    await never_took_anything_back(chat)
    forget_lost_connections(people)


async def test_a_page_that_is_slow_loses_nothing(people: People, patient_install: Install) -> None:
    page = await people.page(patient_install, patient_install.tenant("acme")["user"])
    chat = await in_mid_answer(page)
    session = await page.context.new_cdp_session(page)
    await session.send("Emulation.setCPUThrottlingRate", {"rate": 20})
    await chat.reaches("finished")
    await session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    await ends_as_its_log_has_it(chat, patient_install)
    await never_took_anything_back(chat)


async def suspended(chat: Chat, install: Install) -> str:
    """Leave the answer until it is taken out of the engine; its conversation's address."""
    conversation = await chat.conversation_id()
    address = chat.page.url
    await chat.page.goto("about:blank")
    wait_until(
        lambda: install.rows(GENERATIONS, conversation)[0]["state"] == "suspended",
        what="the answer is suspended",
    )
    return address


async def test_an_answer_that_was_left_goes_on_when_it_is_opened(
    people: People, patient_install: Install
) -> None:
    page = await people.page(patient_install, patient_install.tenant("acme")["user"])
    chat = await in_mid_answer(page)
    conversation = await chat.conversation_id()
    address = await suspended(chat, patient_install)
    await chat.open()
    mark = page.locator(f'[data-conversation="{conversation}"] [data-mark]')
    await expect(mark).to_have_attribute("title", "The answer goes on when you open it")
    await chat.open(address)
    await chat.reaches("streaming")
    await expect(mark).to_be_visible()
    await ends_as_its_log_has_it(chat, patient_install)
    await expect(mark).to_be_hidden()


async def test_stopping_what_was_suspended(people: People, patient_install: Install) -> None:
    page = await people.page(patient_install, patient_install.tenant("acme")["user"])
    chat = await in_mid_answer(page)
    address = await suspended(chat, patient_install)
    # Nothing makes it go on: only what it has is read.
    patient_install.hold_restarts()
    try:
        patient_install.engine_host().kill()
        await chat.open(address)
        await expect(chat.text_of(chat.answer)).not_to_be_empty()
        await chat.stop_button.click()
        await ends_as_its_log_has_it(chat, patient_install, state="stopped")
    finally:
        patient_install.allow_restarts()
    patient_install.wait_until_ready()


@pytest.mark.parametrize("locale", ["en-GB", "tr-TR"])
async def test_stopping_in_the_queue(people: People, patient_install: Install, locale: str) -> None:
    login = patient_install.tenant("acme")["user"]
    page = await people.page(patient_install, login, locale=locale)
    chat = await Chat(page).open()
    patient_install.hold_restarts()
    try:
        patient_install.engine_host().kill()
        await chat.send("Is anybody there?")
        waits = {"en-GB": "Next in the queue", "tr-TR": "Sırada ilk sizsiniz"}[locale]
        await expect(chat.answer).to_contain_text(waits)
        await page.reload()
        await expect(chat.answer).to_contain_text(waits)
        await chat.stop_button.click()
        await chat.reaches("stopped")
    finally:
        patient_install.allow_restarts()
    patient_install.wait_until_ready()
