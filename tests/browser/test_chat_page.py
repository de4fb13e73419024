from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import PHONE, People
from tests.ground.install import Install

pytestmark = BROWSER

ATTACK = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> '
    "[a](javascript:window.hacked=1) <b>bold</b>"
)
WIDE = "w" * 400 + "\n\n```\n" + "code " * 100 + "\n```\n\n- " + "item" * 100
# How far the page, or the messages in it, can be scrolled sideways.
SIDEWAYS = """() => [document.documentElement, document.querySelector("[data-scroll]")]
  .filter((box) => box !== null).map((box) => box.scrollWidth - box.clientWidth)"""


async def answered_with(install: Install, chat: Chat, text: str) -> None:
    """Have the conversation's answer be `text`, as if the model had written it."""
    await chat.reaches("finished")
    conversation = await chat.conversation_id()
    statement = "UPDATE streaming_message SET text = ? WHERE conversation_id = ? AND author = ?"
    install.execute(statement, text, conversation, "assistant")
    await chat.page.reload()
    await chat.connected()


async def test_what_is_written_is_shown_as_text_and_never_run(
    people: People, fake_install: Install
) -> None:
    page = await people.page(fake_install, fake_install.tenant("acme")["user"])
    chat = await Chat(page).open()
    await chat.send(ATTACK)
    question = chat.text_of(chat.messages.first)
    await expect(question).to_have_text(ATTACK)
    await answered_with(fake_install, chat, ATTACK)
    await expect(question).to_have_text(ATTACK)
    answer = chat.text_of(chat.answer)
    await expect(answer).to_contain_text("<b>bold</b>")
    await expect(answer).to_contain_text("onerror")
    assert await answer.locator("img, script, b, a[href^='javascript']").count() == 0
    assert await page.evaluate("window.hacked") is None
    # Whatever can be clicked in it stays harmless as well.
    for link in await answer.locator("a").all():
        await link.click()
    assert await page.evaluate("window.hacked") is None


async def test_a_stranger_finds_nothing_at_a_conversations_address(
    people: People, fake_install: Install
) -> None:
    owner = await people.page(fake_install, fake_install.tenant("acme")["user"])
    chat = await Chat(owner).open()
    await chat.send("What only we know.")
    await chat.reaches("finished")
    address = owner.url
    for slug, role in (("globex", "user"), ("globex", "admin"), ("acme", "admin")):
        stranger = await people.page(fake_install, fake_install.tenant(slug)[role])
        reply = await stranger.goto(address)
        assert reply is not None
        assert reply.status == 404
        await expect(stranger.get_by_role("heading", level=1)).to_have_text("Not found")
        await expect(stranger.get_by_text("What only we know.")).to_have_count(0)
        await stranger.get_by_role("link", name="Back to the chat").click()
        await Chat(stranger).connected()
    # A browser notes each of the three replies; nothing else may have gone wrong.
    assert len(people.errors) == 3
    assert all("404" in error for error in people.errors)
    people.errors.clear()


async def test_everything_works_from_the_keyboard(people: People, fake_install: Install) -> None:
    page = await people.page(fake_install)
    login = fake_install.tenant("acme")["user"]
    keys = page.keyboard
    await page.goto("/chat/")
    await keys.type(login["username"])
    await keys.press("Tab")
    await keys.type(login["password"])
    await keys.press("Enter")
    chat = Chat(page)
    await chat.connected()
    await keys.type("first line")
    await keys.press("Shift+Enter")
    await keys.type("second line")
    await keys.press("Enter")
    await expect(chat.text_of(chat.messages.first)).to_have_text("first line\nsecond line")
    await chat.reaches("streaming")
    await keys.press("Escape")
    await chat.reaches("stopped")

    await expect(chat.composer).to_be_focused()
    await tab_to(page, "Try again", backwards=True)
    await keys.press("Enter")
    await chat.reaches("streaming")
    await chat.reaches("finished")
    await expect(chat.messages).to_have_count(2)

    await page.locator("body").press("Control+k")
    await expect(page.get_by_role("searchbox", name="Find a conversation")).to_be_focused()
    await tab_to(page, "Rename")
    await keys.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await keys.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await keys.press("/")
    await expect(chat.composer).to_be_focused()


async def tab_to(page: Page, name: str, *, backwards: bool = False) -> None:
    """Press Tab until the button of this name has the focus."""
    for _ in range(30):
        await page.keyboard.press("Shift+Tab" if backwards else "Tab")
        focused = await page.evaluate("document.activeElement.innerText?.trim()")
        if focused == name:
            return
    raise AssertionError(f"Tab never reached {name!r}.")


async def test_a_phone_never_scrolls_sideways(people: People, fake_install: Install) -> None:
    visitor = await people.page(fake_install, viewport=PHONE, has_touch=True)
    await visitor.goto("/login/")
    assert await visitor.evaluate(SIDEWAYS) == [0]

    page = await people.page(
        fake_install, fake_install.tenant("acme")["user"], viewport=PHONE, has_touch=True
    )
    chat = await Chat(page).open()
    assert await page.evaluate(SIDEWAYS) == [0, 0]
    await chat.send(WIDE)
    await chat.reaches("streaming")
    assert await page.evaluate(SIDEWAYS) == [0, 0]
    await answered_with(fake_install, chat, WIDE)
    assert await page.evaluate(SIDEWAYS) == [0, 0]
    # It is in sight all the same: wide code scrolls within itself.
    await expect(chat.answer.locator("pre")).to_be_visible()

    await page.get_by_role("button", name="Show conversations").click()
    await expect(page.get_by_test_id("new-chat")).to_be_in_viewport()
    assert await page.evaluate(SIDEWAYS) == [0, 0]
    await page.get_by_test_id("new-chat").click()
    await expect(page).to_have_url(f"{fake_install.url}/chat/")
