"""vLLM's preloaded libraries at paths that the dynamic linker can't read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.supervisor import preload

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")


def site(folder: Path) -> Path:
    for name in ("vllm/libs/libtcmalloc_minimal.so.4", "torch/lib/libgomp.so.1"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_a_plain_path_is_left_to_vllm(tmp_path: Path) -> None:
    assert preload.environment(tmp_path, site=site(tmp_path / "plain")) == {}


@pytest.mark.parametrize("name", ["a space", "a:colon"])
def test_other_paths_are_reached_by_links(tmp_path: Path, name: str) -> None:
    packages = site(tmp_path / name)
    for _ in range(2):  # links of an earlier start are replaced
        given = preload.environment(tmp_path, site=packages)
    links = [Path(link) for link in given["LD_PRELOAD"].split(":")]
    assert [link.resolve() for link in links] == [
        packages / "vllm/libs/libtcmalloc_minimal.so.4",
        packages / "torch/lib/libgomp.so.1",
    ]


def test_without_the_cpu_engine_there_is_nothing_to_preload(tmp_path: Path) -> None:
    assert preload.environment(tmp_path, site=tmp_path / "a space") == {}


def test_the_linker_reads_what_is_given(tmp_path: Path) -> None:
    """With empty files for libraries it complains about their content, not about their paths."""
    given = preload.environment(tmp_path, site=site(tmp_path / "a space"))
    done = subprocess.run(
        ["true"], env=os.environ | given, capture_output=True, text=True, check=False
    )
    assert "file too short" in done.stderr
    assert "cannot open shared object file" not in done.stderr
