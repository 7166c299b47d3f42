"""Splits long work into slices, so that requests are processed in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from zabka.ensemble.ports import Runtime

T = TypeVar("T")

SLICE_RECORDS = 100
"""Number of records that are decoded in one slice, which takes about a quarter of a millisecond."""
PAUSE_MS = 1
"""Pause between two slices, in ms. It is several times a request's duration, so that a request waits for at most one
slice.
"""
_BATCH_COST = 4
"""Cost of reading a batch and writing its retained part, expressed as a number of records."""
_RECORD_COST = 10
"""The cost of one record, in the equivalent number of skipped batch headers."""


class Slices:
    """Decides when to pause between the batches of a log.

    A batch may contain only one record, and a log millions of batches.
    """

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_full(self, records: int) -> bool:
        """Count a batch with this many processed records. Return whether it is time to pause."""
        return self._add((records + _BATCH_COST) * _RECORD_COST)

    def is_full_of_headers(self) -> bool:
        """Count a batch of which only the header was read. Return whether it is time to pause."""
        return self._add(1)

    def _add(self, cost: int) -> bool:
        self._done += cost
        if self._done < SLICE_RECORDS * _RECORD_COST:
            return False
        self._done = 0
        return True


async def in_slices(work: Generator[None, None, T], runtime: Runtime, pause_ms: int = PAUSE_MS) -> T:
    """Run the work with a pause after each slice, and return its result.

    If `pause_ms` is 0, other tasks get only one iteration of the event loop between two slices. Use 0 for work that a
    client waits for.
    """
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result
        await runtime.sleep(pause_ms)
