"""The check of translations sees what is marked, and what is not translated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from config import translations

PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

msgid "Send"
msgstr "Gönder"

msgid "%(count)s key"
msgid_plural "%(count)s keys"
msgstr[0] "%(count)s anahtar"
msgstr[1] "%(count)s anahtar"
"""
TEMPLATE = """{% load i18n %}<p title='{% translate "Send" %}'>it's
  {% blocktranslate count count=n %}%(count)s key{% plural %}%(count)s keys{% endblocktranslate %}
"""


@pytest.fixture
def root(tmp_path: Path, settings: Settings) -> Path:
    settings.LOCALE_PATHS = [tmp_path / "locale"]
    files = {
        "locale/tr/LC_MESSAGES/django.po": PO,
        "templates/chat.html": TEMPLATE.replace("%(count)s", "{{ count }}"),
        "tenants/models.py": 'from x import gettext_lazy as _\n\nNAME = _("Send")\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    translations.write_compiled("tr")
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_complete_catalogue_has_no_problems(root: Path) -> None:
    assert translations.problems("tr", root=root) == []


def test_a_new_text_in_code_is_named_with_its_place(root: Path) -> None:
    edit(root / "tenants/models.py", 'NAME = _("Send")', 'NAME = _("Stop")')
    assert translations.problems("tr", root=root) == [
        "tenants/models.py:3: not in the catalogue: 'Stop'"
    ]


def test_a_new_text_in_a_template_is_named(root: Path) -> None:
    edit(root / "templates/chat.html", '"Send"', '"Stop"')
    assert translations.problems("tr", root=root) == [
        "templates/chat.html:1: not in the catalogue: 'Stop'"
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"Gönder"', '""', "not translated: 'Send'"),
        ('msgstr[1] "%(count)s anahtar"', 'msgstr[1] ""', "not translated: ('%(count)s key'"),
        ('msgid "Send"', '#, fuzzy\nmsgid "Send"', "fuzzy: 'Send'"),
    ],
)
def test_an_unfinished_text_is_named(root: Path, old: str, new: str, problem: str) -> None:
    edit(root / "locale/tr/LC_MESSAGES/django.po", old, new)
    assert any(line.startswith(problem) for line in translations.problems("tr", root=root))


def test_a_stale_compiled_catalogue_is_named_and_written_anew(root: Path) -> None:
    edit(root / "locale/tr/LC_MESSAGES/django.po", "Gönder", "Yolla")
    assert translations.problems("tr", root=root)[0].endswith("django.mo is behind")
    translations.write_compiled("tr")
    assert translations.problems("tr", root=root) == []


def test_a_missing_catalogue_is_named(root: Path) -> None:
    assert translations.problems("de", root=root)[0].endswith("django.po is missing")
