"""Libraries that vLLM's CPU build has the dynamic linker load first, in a checkout at any path.

Without PyTorch's libgomp first, threads bound to cores all end on one (vllm #27369). vLLM names the
files by their full path, and the linker splits LD_PRELOAD at spaces and colons. Given paths that it
can read, vLLM leaves the variable alone.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

# Where vLLM looks too, in its order (vllm/platforms/cpu.py).
WANTED = (
    ("vllm/libs", "libtcmalloc*.so*"),
    ("torch.libs", "libgomp*.so*"),
    ("torch/lib", "libgomp*.so*"),
)
UNREADABLE = re.compile(r"[\s:]")


def environment(links: Path, *, site: Path | None = None) -> dict[str, str]:
    """What an engine's environment needs beside the usual; nothing where the path can be read.

    links: a private folder at a plain path; its sub-folder `lib` gets links to the libraries
    site: where packages are installed, this Python's own by default
    """
    packages = site or Path(sysconfig.get_paths()["platlib"])
    if sys.platform != "linux" or not UNREADABLE.search(str(packages)):
        return {}
    found: dict[str, Path] = {}
    for folder, pattern in WANTED:
        for file in sorted((packages / folder).glob(pattern))[:1]:
            found.setdefault(pattern, file)
    paths = [_link(links / "lib" / file.name, file) for file in found.values()]
    return {"LD_PRELOAD": ":".join(paths)} if paths else {}


def _link(link: Path, file: Path) -> str:
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(file)
    return str(link)
