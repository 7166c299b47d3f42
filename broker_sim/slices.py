"""Work that takes long, done a slice at a time so that requests are served in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from ensemble.ports import Runtime

T = TypeVar("T")

SLICE_RECORDS = 100
"""So many records made objects of: a quarter of a millisecond or so."""
PAUSE_MS = 1
"""Between two slices: several times what a request takes, so that it waits for one slice at most."""


async def in_slices(work: Generator[None, None, T], runtime: Runtime, pause_ms: int = PAUSE_MS) -> T:
    """Do the work, with a pause wherever it says so; what came of it.  Without `pause_ms` others have one turn of the
    event loop between two slices: for work that somebody waits for."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result
        await runtime.sleep(pause_ms)
