from __future__ import annotations

from tests.console.api.callers import BASE, Callers


def test_the_page_is_for_who_is_signed_in_and_has_no_inline_script(callers: Callers) -> None:
    page = callers["member"].client.get(f"{BASE}/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    assert text.count("<script") == text.count("<script src=") == 2
    assert "https://" not in text
    assert callers["nobody"].client.get(f"{BASE}/docs/").status_code == 302
