from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.test import override_settings

pytestmark = pytest.mark.filterwarnings("ignore:No directory at")


def test_modules_import_each_other_by_their_hashed_names(tmp_path: Path) -> None:
    storage = {"BACKEND": "web.static_files.HashedStaticFiles"}
    with override_settings(STATIC_ROOT=tmp_path, STORAGES={"staticfiles": storage}):
        call_command("collectstatic", interactive=False, verbosity=0)
        entry = Path(staticfiles_storage.path(staticfiles_storage.stored_name("chat/chat.js")))

        seen: set[str] = set()
        waiting = [entry]
        while waiting:
            module = waiting.pop()
            for name in re.findall(r'^import [^"]*"\./([^"]+)"', module.read_text(), re.MULTILINE):
                assert re.fullmatch(r"[a-z]+\.[0-9a-f]{12}\.js", name), (module, name)
                if name not in seen:
                    seen.add(name)
                    waiting.append(entry.parent / name)

    assert len(seen) >= 13
