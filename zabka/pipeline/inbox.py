"""An accumulator that passes the rows of each task to the driver when the task ends.

Spark applies the update of an action's task once, however often the task was tried, and it does so when the task ends,
not when the job ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import AccumulatorParam

Keep = Callable[[bytes], object]


class Inbox(AccumulatorParam[Any]):
    """Accumulator for rows. In a task its value is the task's list; on the driver it is the function that stores
    rows.
    """

    def __init__(self, keep: Keep | None = None) -> None:
        self._keep = keep

    def __reduce__(self) -> tuple[type[Inbox], tuple[()]]:
        return Inbox, ()

    def zero(self, value: list[bytes]) -> list[bytes]:
        """Return the initial value of a task: no rows."""
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        """Add the rows of a task to the list, or pass them to the driver's function."""
        if self._keep is None:
            return [*value1, *value2]
        for line in value2:
            self._keep(line)
        return value1
