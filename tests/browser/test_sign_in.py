from __future__ import annotations

from playwright.async_api import expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.browser.screenshots import Screenshots
from tests.ground.install import Install

pytestmark = BROWSER


async def test_a_wrong_password_is_told_and_a_right_one_goes_where_one_wanted(
    people: People, fake_install: Install, screenshots: Screenshots
) -> None:
    page = await people.page(fake_install)
    await page.goto("/chat/?from=bookmark")
    await screenshots.take(page, "login")
    login = fake_install.tenant("acme")["user"]
    await page.get_by_label("User name").fill(login["username"])
    await page.get_by_label("Password").fill("not " + login["password"])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_have_text(
        "The user name or the password is not right. Check both and try again."
    )
    # The name is kept, the password is not.
    await expect(page.get_by_label("User name")).to_have_value(login["username"])
    await expect(page.get_by_label("Password")).to_have_value("")
    await page.get_by_label("Password").fill(login["password"])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{fake_install.url}/chat/?from=bookmark")


async def test_signing_out_ends_the_page_and_its_socket(
    people: People, fake_install: Install
) -> None:
    # A session of its own: the others go on with theirs.
    login = fake_install.tenant("acme")["user"]
    page = await people.page(fake_install)
    cookie = {"name": "sessionid", "value": fake_install.session(login), "url": fake_install.url}
    await page.context.add_cookies([cookie])  # type: ignore[list-item]
    chat = await Chat(page).open()
    other_tab = await Chat(await page.context.new_page()).open()

    await page.get_by_test_id("account").click()
    await page.get_by_test_id("sign-out").click()
    await expect(page).to_have_url(f"{fake_install.url}/login/")
    await page.go_back()
    await expect(page).to_have_url(f"{fake_install.url}/login/?next=/chat/")
    # A tab that is still open has nothing more to say, and finds out by itself.
    await expect(other_tab.page).to_have_url(f"{fake_install.url}/login/?next=%2Fchat%2F")
    await expect(chat.messages).to_have_count(0)
