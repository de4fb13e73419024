"""Signing in with a code, and with a passkey of Chromium's own authenticator."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.chat import Chat
from tests.browser.marks import BROWSER
from tests.browser.people import People
from tests.ground.install import Install
from tests.tenants.signing_in import code_of

pytestmark = BROWSER


async def give_password(page: Page, login: dict[str, str]) -> None:
    await page.get_by_label("User name").fill(login["username"])
    await page.get_by_label("Password").fill(login["password"])
    await page.get_by_role("button", name="Sign in").click()


async def test_an_app_is_set_up_and_asked_for(people: People, fake_install: Install) -> None:
    login = fake_install.tenant("globex")["admin"]
    page = await people.page(fake_install)
    await page.goto("/account/second-factor/totp/activate/")
    await give_password(page, login)
    await page.get_by_label("Password").fill(login["password"])
    await page.get_by_role("button", name="Go on").click()
    secret = await page.get_by_test_id("totp-secret").inner_text()
    await page.get_by_label("Code", exact=True).fill(code_of(secret))
    await page.get_by_role("button", name="Set up").click()
    codes = page.get_by_test_id("recovery-codes").get_by_role("listitem")
    await expect(codes).to_have_count(10)
    recovery = await codes.first.inner_text()

    other = await people.page(fake_install)
    await other.goto("/chat/")
    await give_password(other, login)
    await expect(other.get_by_role("heading", name="Second factor")).to_be_visible()
    await other.get_by_label("Code", exact=True).fill(recovery)
    await other.get_by_role("button", name="Sign in").first.click()
    await expect(other).to_have_url(f"{fake_install.url}/chat/")


async def test_a_passkey_signs_in_alone(people: People, fake_install: Install) -> None:
    login = fake_install.tenant("globex")["user"]
    # A passkey belongs to a name, not to an address.
    url = fake_install.url.replace("127.0.0.1", "localhost")
    page = await people.page(fake_install, base_url=url)
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("WebAuthn.enable")
    key = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": key})
    await page.goto("/account/second-factor/keys/add/")
    await give_password(page, login)
    await page.get_by_label("Password").fill(login["password"])
    await page.get_by_role("button", name="Go on").click()
    await page.get_by_label("Sign in with this key alone").check()
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_test_id("recovery-codes")).to_be_visible()
    await page.goto("/account/sessions/")
    await page.context.clear_cookies()
    await page.goto("/login/?next=/account/sessions/")
    await page.get_by_role("button", name="Use a passkey").click()
    await expect(page).to_have_url(f"{url}/account/sessions/")


async def test_a_session_that_is_ended_loses_the_other_browsers_chat(
    people: People, fake_install: Install
) -> None:
    login = fake_install.tenant("acme")["admin"]
    pages = [await people.page(fake_install) for _ in range(2)]
    for page in pages:
        await page.goto("/chat/")
        await give_password(page, login)
    there, here = pages
    await Chat(there).connected()
    await here.goto("/account/sessions/")
    await here.get_by_role("button", name="End all others").click()
    await expect(there).to_have_url(f"{fake_install.url}/login/?next=%2Fchat%2F")
    await expect(here.get_by_test_id("session")).to_have_count(1)


async def test_who_guesses_is_told_to_wait(people: People, fake_install: Install) -> None:
    page = await people.page(fake_install)
    await page.goto("/login/")
    for _ in range(6):
        await give_password(page, {"username": "nobody-here", "password": "guess"})
    told = page.get_by_role("alert")
    await expect(told).to_have_text("Too many failed attempts. Try again in five minutes.")
    people.errors[:] = [each for each in people.errors if "429" not in each]
