"""Where things are in a checkout, and what the environment says about this install.

The same defaults as `config.settings`, which cannot be imported before Django is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
LOCKS = ROOT / "deploy" / "lock"


class CannotStart(Exception):
    """Why this machine or checkout can't be used as it is: one sentence for the person at the
    terminal.
    """


@dataclass(frozen=True)
class Install:
    """What the environment chose: state folder, address and engine."""

    var: Path
    host: str
    port: int
    engine: str

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Install:
        """Raises CannotStart naming the variable that is wrong."""
        engine = environ.get("ENGINE", "vllm")
        if engine not in ("vllm", "fake"):
            raise CannotStart(f"ENGINE is {engine!r}; it must be vllm or fake.")
        port = environ.get("NEHIR_PORT", "8000")
        if not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise CannotStart(f"NEHIR_PORT is {port!r}; it must be a port number from 1 to 65535.")
        return cls(
            var=Path(environ.get("NEHIR_VAR") or ROOT / "var").expanduser().absolute(),
            host=environ.get("NEHIR_HOST", "127.0.0.1"),
            port=int(port),
            engine=engine,
        )
