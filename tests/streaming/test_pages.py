from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from streaming.models import Conversation
from streaming.pages.sidebar import days
from streaming.services import conversations
from tenants import scope
from tenants.models import Membership, Role
from tenants.principal import Principal
from tests.tenants.worlds import NOW, World, person

PASSWORD = "deep-water-runs-still"


def client_of(user: User, *, enforce_csrf_checks: bool = False) -> Client:
    client = Client(enforce_csrf_checks=enforce_csrf_checks)
    client.force_login(user)
    return client


def chat_of(where: World, user: User, text: str = "What is a delta?") -> str:
    who = Principal(where.tenant.pk, "user", str(user.pk))
    return str(conversations.start(principal=who, text=text, now=NOW).pk)


def addresses(chat: str) -> list[tuple[str, str]]:
    return [
        ("get", reverse("chat")),
        ("get", reverse("conversation", args=[chat])),
        ("post", reverse("rename_conversation", args=[chat])),
        ("post", reverse("delete_conversation", args=[chat])),
        ("post", reverse("choose_tenant")),
    ]


def test_the_front_door_leads_to_the_chat(acme: World) -> None:
    response = client_of(acme.member).get("/")
    assert (response.status_code, response["Location"]) == (302, "/chat/")


def test_pages_need_a_login(acme: World) -> None:
    chat = chat_of(acme, acme.member)
    for method, address in addresses(chat):
        response = getattr(Client(), method)(address)
        assert response.status_code == 302, address
        after = address if method == "get" else "/chat/"
        assert response["Location"] == f"/login/?next={after}"
    with scope.tenant(acme.tenant.pk):
        assert Conversation.objects.get().title == "What is a delta?"


def test_signing_in_and_out(acme: World) -> None:
    acme.member.set_password(PASSWORD)
    acme.member.save()
    client = Client()
    wrong = client.post("/login/", {"username": "acme-member", "password": "guess"})
    assert "The user name or the password is not right" in wrong.content.decode()
    right = client.post("/login/", {"username": "acme-member", "password": PASSWORD})
    assert right["Location"] == "/chat/"
    assert "acme and sons" in client.get("/chat/").content.decode()
    assert client.get("/login/").status_code == 302
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/chat/").status_code == 302


def test_the_login_leads_to_no_other_site(acme: World) -> None:
    acme.member.set_password(PASSWORD)
    acme.member.save()
    form = {"username": "acme-member", "password": PASSWORD, "next": "https://evil.example/"}
    assert Client().post("/login/", form)["Location"] == "/chat/"


def test_a_member_sees_their_conversation_and_no_other(acme: World, globex: World) -> None:
    mine = chat_of(acme, acme.member)
    chat_of(acme, acme.owner, "The owner's secret")
    chat_of(globex, globex.member, "The stranger's secret")
    page = client_of(acme.member).get(reverse("conversation", args=[mine])).content.decode()
    assert page.count("What is a delta?") >= 3
    assert 'aria-current="page"' in page
    assert "secret" not in page


def test_conversations_of_others_are_not_found(acme: World, globex: World) -> None:
    chat = chat_of(acme, acme.member)
    for stranger in (acme.owner, globex.member):
        for method, address in addresses(chat)[1:4]:
            response = getattr(client_of(stranger), method)(address, {"title": "mine"})
            assert response.status_code == 404, address
    odd = client_of(acme.member).get("/chat/cnv_%00/")
    assert odd.status_code == 404
    with scope.tenant(acme.tenant.pk):
        assert Conversation.objects.get().title == "What is a delta?"


def test_renaming_and_deleting(acme: World) -> None:
    chat = chat_of(acme, acme.member)
    client = client_of(acme.member)
    rename = reverse("rename_conversation", args=[chat])
    assert client.post(rename, {"title": " Deltas "}).json() == {"id": chat, "title": "Deltas"}
    refused = client.post(rename, {"title": " "})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_request"
    assert client.get(rename).status_code == 405
    delete = reverse("delete_conversation", args=[chat])
    assert client.get(delete).status_code == 405
    assert client.post(delete).status_code == 204
    assert client.post(delete).status_code == 404
    assert client.get(reverse("conversation", args=[chat])).status_code == 404


@pytest.mark.parametrize("address", ["/login/", "/logout/", "/tenant/", "/i18n/setlang/"])
def test_forms_need_their_token(acme: World, address: str) -> None:
    # Someone signed in never sees the login's form again.
    client = Client(enforce_csrf_checks=True)
    if address != "/login/":
        client.force_login(acme.member)
    response = client.post(address, {"tenant": acme.tenant.pk, "language": "tr"})
    assert response.status_code == 403
    assert "The page was open too long" in response.content.decode()


def test_renaming_and_deleting_need_their_token(acme: World) -> None:
    chat = chat_of(acme, acme.member)
    client = client_of(acme.member, enforce_csrf_checks=True)
    for method, address in addresses(chat)[2:4]:
        assert getattr(client, method)(address, {"title": "x"}).status_code == 403
    assert client.get(reverse("conversation", args=[chat])).status_code == 200


def test_going_over_to_another_of_ones_tenants(acme: World, globex: World) -> None:
    with scope.tenant(globex.tenant.pk):
        Membership.objects.create(tenant=globex.tenant, user=acme.member, role=Role.MEMBER)
    here = chat_of(acme, acme.member)
    client = client_of(acme.member)
    client.get("/chat/")
    assert client.session["tenant_id"] == acme.tenant.pk
    assert client.post("/tenant/", {"tenant": globex.tenant.pk})["Location"] == "/chat/"
    assert client.session["tenant_id"] == globex.tenant.pk
    assert 'data-testid="tenant">globex and sons' in client.get("/chat/").content.decode()
    assert client.get(reverse("conversation", args=[here])).status_code == 404


@pytest.mark.parametrize("role", [None, Role.BILLING, Role.AUDITOR])
def test_no_going_over_where_one_may_not_chat(
    acme: World, globex: World, role: Role | None
) -> None:
    if role:
        with scope.tenant(globex.tenant.pk):
            Membership.objects.create(tenant=globex.tenant, user=acme.member, role=role)
    client = client_of(acme.member)
    for tenant in (globex.tenant.pk, "", "ten_nope"):
        assert client.post("/tenant/", {"tenant": tenant}).status_code == 403
    assert client.session["tenant_id"] == acme.tenant.pk
    page = client.get("/chat/").content.decode()
    assert 'data-testid="tenant">acme and sons' in page
    assert "globex" not in page


def test_a_tenant_that_was_left_is_forgotten(acme: World, globex: World) -> None:
    client = client_of(acme.member)
    session = client.session
    session["tenant_id"] = globex.tenant.pk
    session.save()
    assert 'data-testid="tenant">acme and sons' in client.get("/chat/").content.decode()
    assert client.session["tenant_id"] == acme.tenant.pk


def test_who_has_no_tenant_is_told_so(acme: World) -> None:
    nobody = person("nobody")
    acme.tenant.is_active = False
    acme.tenant.save()
    for user, told in ((nobody, "No organisation yet"), (acme.member, "is suspended")):
        response = client_of(user).get("/chat/")
        assert response.status_code == 403
        assert told in response.content.decode()
        assert "Sign out" in response.content.decode()


def test_only_staff_are_shown_the_way_to_the_admin(acme: World) -> None:
    assert 'href="/admin/"' in client_of(acme.admin).get("/chat/").content.decode()
    assert 'href="/admin/"' not in client_of(acme.member).get("/chat/").content.decode()


def test_text_of_people_and_models_is_never_markup(acme: World) -> None:
    attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    chat = chat_of(acme, acme.member, attack)
    conversations.record_answer(
        tenant_id=acme.tenant.pk,
        conversation_id=chat,
        generation_id="gen_1",
        text=attack,
        finish_reason="stop",
        now=NOW,
    )
    page = client_of(acme.member).get(reverse("conversation", args=[chat])).content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


def test_conversations_are_grouped_by_the_readers_own_days() -> None:
    now = datetime(2030, 5, 2, 22, 30, tzinfo=UTC)
    # In Istanbul it is 01:30 of the third of May already.
    chats = [
        Conversation(title=title, updated_at=now - timedelta(hours=hours))
        for title, hours in (("a", 1), ("b", 3), ("c", 24), ("d", 48))
    ]

    def grouped(zone: str) -> dict[str, str]:
        return {
            day.name: "".join(each.conversation.title for each in day.conversations)
            for day in days(chats, zone=ZoneInfo(zone), now=now)
        }

    assert grouped("UTC") == {"today": "ab", "yesterday": "c", "earlier": "d"}
    assert grouped("Europe/Istanbul") == {"today": "a", "yesterday": "bc", "earlier": "d"}
    assert [day.name for day in days([], zone=UTC, now=now)] == ["today"]


@pytest.mark.parametrize(
    "zone", ["Europe/Istanbul", "Nowhere", "", "../../etc/passwd", "Europe", "x" * 5000]
)
def test_any_time_zone_cookie_is_survived(acme: World, zone: str) -> None:
    client = client_of(acme.member)
    client.cookies["nehir_timezone"] = zone
    assert client.get("/chat/").status_code == 200


def test_pages_with_conversations_are_not_kept_by_browsers(acme: World) -> None:
    assert "no-store" in client_of(acme.member).get("/chat/")["Cache-Control"]


def pages_of(acme: World) -> dict[str, tuple[Client, str]]:
    chat = chat_of(acme, acme.member, "?")
    return {
        "login": (Client(), "/login/"),
        "empty chat": (client_of(acme.admin), "/chat/"),
        "conversation": (client_of(acme.member), reverse("conversation", args=[chat])),
        "no membership": (client_of(person("nobody")), "/chat/"),
        "not found": (client_of(acme.member), "/nowhere/"),
        "not allowed": (client_of(acme.member), "/tenant/"),
        "csrf": (client_of(acme.member, enforce_csrf_checks=True), "/logout/"),
    }


PAGES = ["login", "empty chat", "conversation", "no membership", "not found", "not allowed", "csrf"]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_in_both_languages(acme: World, name: str) -> None:
    client, address = pages_of(acme)[name]
    shown = {}
    for language in ("en", "tr"):
        client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
        posts = name in ("not allowed", "csrf")
        response = client.post(address) if posts else client.get(address)
        page = response.content.decode()
        assert f'<html lang="{language}">' in page
        shown[language] = texts_in(page)
    # What both have in common is names, and words that both languages have.
    assert shown["en"] & shown["tr"] <= NAMES, shown["en"] & shown["tr"] - NAMES
    assert shown["tr"] - NAMES


NAMES = {
    "Nehir", "· Nehir", "English", "Türkçe", "nobody", "?", "? · Nehir", "acme-member",
    "acme-admin", "Model",
    "acme and sons", "Enter", "Shift", "Esc", "/", ",", "Ctrl K",
}  # fmt: skip


def texts_in(page: str) -> set[str]:
    """What a reader sees or hears on a page, and the texts handed to its JavaScript."""
    attributes = re.findall(r'(?:title|placeholder|aria-label)="([^"]+)"', page)
    values = re.findall(r': "((?:[^"\\]|\\.)+)"', page)
    texts = [value for value in values if not value.startswith(("/", "cnv_"))]
    between = re.findall(r">([^<>]+)<", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    found = (" ".join(text.split()) for text in [*attributes, *texts, *between])
    return {text for text in found if text}


def test_the_language_is_chosen_and_remembered(acme: World) -> None:
    client = client_of(acme.member)
    response = client.post("/i18n/setlang/", {"language": "tr"}, headers={"referer": "/chat/"})
    assert response["Location"] == "/chat/"
    page = client.get("/chat/").content.decode()
    assert '<html lang="tr">' in page
    assert "Yeni sohbet" in page
    elsewhere = client.post("/i18n/setlang/", {"language": "tr", "next": "https://evil.example/"})
    assert elsewhere["Location"] == "/"


def test_an_error_of_ours_has_a_page_of_its_own(
    acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("a detail that stays inside")

    monkeypatch.setattr("streaming.services.conversations.recent", broken)
    client = client_of(acme.member)
    client.raise_request_exception = False
    response = client.get("/chat/")
    assert response.status_code == 500
    assert "Something went wrong" in response.content.decode()
    assert "detail" not in response.content.decode()


def test_no_template_has_inline_script_or_style() -> None:
    templates = list(Path(settings.BASE_DIR, "templates").rglob("*.html"))
    assert len(templates) > 10
    for template in templates:
        source = template.read_text()
        inline = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son[a-z]+=", source)
        assert inline == [], template
    for module in Path(settings.BASE_DIR, "static", "chat").glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", module.read_text()
        ), module
