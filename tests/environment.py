"""Loaded before Django's settings (see addopts): tests keep their state apart."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("NEHIR_VAR", str(Path(tempfile.mkdtemp(prefix="nehir-tests-"))))
os.environ.setdefault("NEHIR_LOG_LEVEL", "WARNING")
