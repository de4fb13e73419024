"""Python's cycle collector, tuned for processes that serve streams."""

from __future__ import annotations

import gc

# Of what is made for a request nearly everything goes by its reference count; what is left in
# cycles is little, and looking for it 700 allocations apart is most of a collector's work.
YOUNG = 20_000


def freeze_what_is_loaded() -> None:
    """Called once all code is loaded: it is never garbage, and a full collection that looks at all
    of it stops every stream for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
