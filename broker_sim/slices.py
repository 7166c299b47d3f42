"""Work that takes long, done a slice at a time so that requests are served in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from zabka.ensemble.ports import Runtime

T = TypeVar("T")

SLICE_RECORDS = 100
"""So many records made objects of: a quarter of a millisecond or so."""
PAUSE_MS = 1
"""Between two slices: several times what a request takes, so that it waits for one slice at most."""
_BATCH_COST = 4
"""To read a batch, and to write what is left of it, takes as long as so many of its records."""
_RECORD_COST = 10
"""A record takes as long as so many headers that are passed over."""


class Slices:
    """When to pause among batches: they may be as small as a record, and a log holds millions of them."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_full(self, records: int) -> bool:
        """A batch is read, of which so many records are looked at without a pause: is it time for one?"""
        return self._add((records + _BATCH_COST) * _RECORD_COST)

    def is_full_of_headers(self) -> bool:
        """Only a batch's header is read: is it time for a pause?"""
        return self._add(1)

    def _add(self, cost: int) -> bool:
        self._done += cost
        if self._done < SLICE_RECORDS * _RECORD_COST:
            return False
        self._done = 0
        return True


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
