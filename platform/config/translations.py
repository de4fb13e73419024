"""Whether every text that people read is translated, without GNU gettext on the machine.

Texts are found in the source by Babel, and in templates by Django's own rewriting of a template
into calls of gettext. The compiled catalogues are committed beside their sources, so that an
install needs no compiler; this module writes them and tells when they are behind.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po
from django.conf import settings
from django.utils.translation.template import templatize

SOURCES = ("platform", "tenants", "inference", "streaming", "templates")
DOMAIN = "django"
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}
# A text's key in a catalogue: its context, if any, and its singular.
Key = tuple[str | None, str]


@dataclass(frozen=True)
class Source:
    """A text and the first place it was found in."""

    key: Key
    place: str


def sources(root: Path) -> Iterator[Source]:
    """Every marked text in the source below `root`."""
    for folder in SOURCES:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix == ".py" and "migrations" not in file.parts:
                yield from _texts(file.read_text(), file, root)
            elif file.suffix in (".html", ".txt") and "templates" in file.parts:
                yield from _texts(_as_calls(file.read_text()), file, root)


def _as_calls(template: str) -> str:
    """A template with everything blanked out but its texts, as calls of gettext in Python."""
    lines = templatize(template).splitlines()
    return "\n".join(line.lstrip() for line in lines)


def _texts(code: str, file: Path, root: Path) -> Iterator[Source]:
    found = extract("python", io.BytesIO(code.encode()), keywords=KEYWORDS)
    for line, text, _comments, context in found:
        singular = text if isinstance(text, str) else text[0]
        yield Source((context, singular), f"{file.relative_to(root)}:{line}")


def catalog_path(language: str) -> Path:
    return Path(settings.LOCALE_PATHS[0]) / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def problems(language: str, *, root: Path) -> list[str]:
    """What is missing in a language's catalogue, a line each."""
    path = catalog_path(language)
    if not path.exists():
        return [f"{path} is missing"]
    catalog = _read(path)
    return [
        *_missing(catalog, sources(root)),
        *_unfinished(catalog),
        *([] if _is_compiled(path, catalog) else [f"{path.with_suffix('.mo')} is behind"]),
    ]


def write_compiled(language: str) -> Path:
    """Write the catalogue that Django reads. Its path."""
    path = catalog_path(language).with_suffix(".mo")
    with path.open("wb") as out:
        write_mo(out, _read(catalog_path(language)))
    return path


def _read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file)


def _missing(catalog: Catalog, texts: Iterable[Source]) -> list[str]:
    known = {_key(message) for message in catalog if message.id}
    unknown = {text.key: text for text in texts if text.key[1] and text.key not in known}
    return [f"{text.place}: not in the catalogue: {text.key[1]!r}" for text in unknown.values()]


def _unfinished(catalog: Catalog) -> list[str]:
    found = []
    for message in catalog:
        if not message.id:
            continue
        strings = _strings(message)
        if message.fuzzy:
            found.append(f"fuzzy: {message.id!r}")
        elif not strings or not all(strings):
            found.append(f"not translated: {message.id!r}")
    return found


def _key(message: Message) -> Key:
    return (message.context, message.id if isinstance(message.id, str) else message.id[0])


def _is_compiled(path: Path, catalog: Catalog) -> bool:
    compiled = path.with_suffix(".mo")
    if not compiled.exists():
        return False
    with compiled.open("rb") as file:
        return _texts_of(read_mo(file)) == _texts_of(catalog)


def _texts_of(catalog: Catalog) -> dict[Key, tuple[str, ...]]:
    """Translations by key; only the singular's key, as compiled catalogues hold it."""
    return {_key(message): _strings(message) for message in catalog if message.id}


def _strings(message: Message) -> tuple[str, ...]:
    string = message.string
    return (string,) if isinstance(string, str) else tuple(string or ())
