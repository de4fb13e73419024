"""What the machine has to offer, looked at before anything is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from launcher.layout import ROOT, CannotStart

# MiB that a lock takes while it is installed: what it leaves in .venv and the wheels it comes in,
# measured and rounded up. The engine's share holds the prepared model too.
NEEDED_MIB = {"web": 700, "engine-cpu": 5000, "engine-gpu": 20000, "dev": 500}


def has_nvidia_gpu() -> bool:
    """Whether an NVIDIA GPU and its driver answer."""
    program = shutil.which("nvidia-smi")
    if program is None or sys.platform != "linux":
        return False
    listing = subprocess.run([program, "-L"], capture_output=True, text=True, check=False)
    return listing.returncode == 0 and "GPU" in listing.stdout


def engine_lock() -> str:
    """The engine's lock for this machine. NEHIR_DEVICE=cpu or gpu overrules what is found."""
    device = os.environ.get("NEHIR_DEVICE") or ("gpu" if has_nvidia_gpu() else "cpu")
    if device not in ("cpu", "gpu"):
        raise CannotStart(f"NEHIR_DEVICE is {device!r}; it must be cpu or gpu.")
    return f"engine-{device}"


def require_checkout_usable() -> None:
    """Raises CannotStart if a virtual environment can't be made in the checkout."""
    if os.pathsep in str(ROOT):
        raise CannotStart(
            f"The path {ROOT} has a {os.pathsep!r} in it, which Python's environments can't have: "
            "rename the folder."
        )
    if not os.access(ROOT, os.W_OK):
        raise CannotStart(f"The folder {ROOT} can't be written to.")
    if find_spec("ensurepip") is None or find_spec("venv") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise CannotStart(
            f"{sys.executable} lacks the venv module. "
            f"On Debian and Ubuntu: apt install python{version}-venv"
        )


def require_state_folder(var: Path) -> None:
    """Raises CannotStart if nothing can be kept in the state folder."""
    try:
        var.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise CannotStart(f"{var} (NEHIR_VAR) can't be made: {fault.strerror}.") from fault
    if not os.access(var, os.W_OK | os.X_OK):
        raise CannotStart(f"{var} (NEHIR_VAR) can't be written to.")


def require_disk(locks: list[str], *, folder: Path = ROOT) -> None:
    """Raises CannotStart if the folder's disk has no room for these locks."""
    needed = sum(NEEDED_MIB[lock] for lock in locks)
    free = shutil.disk_usage(folder).free // 2**20
    if free < needed:
        raise CannotStart(
            f"Not enough disk space: installing {', '.join(locks)} needs about "
            f"{needed / 1000:.1f} GB, and {folder} has {free / 1000:.1f} GB free."
        )
