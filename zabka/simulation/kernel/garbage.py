"""How often Python looks for circles of garbage in a process that plays worlds, and when in one that plays many.

A living world makes few, and keeps its whole history: rarer, larger collections save a tenth of the time.  One that has
ended is circles itself, up to 11 MB of them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SEEDS_A_COLLECTION = 8
"""The thresholds alone would let a thousand ended worlds gather."""
_THRESHOLDS = (50_000, 20, 50)


def collect_seldom() -> None:
    """From now on Python's collector runs as seldom as suits a simulated world."""
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """`collect_seldom`, within it alone."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)


def collect_after(seed: int) -> None:
    """This seed has been played: now and then what is left of it and of those before goes."""
    if seed % SEEDS_A_COLLECTION == 0:
        gc.collect()


def keep_what_is_loaded() -> None:
    """Modules stay as long as the process: from the first call on, the collector does not look at what is there by now.

    To be called between worlds, when one has been played: then all that a world needs is loaded.  Where Python is made
    to collect after every world, that takes 15 ms and not 70.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
