"""An accumulator that delivers the rows of tasks to the driver, task by task.

Spark applies the update of an action's task once, however often the task was tried, and it does so when the task ends,
not when the job ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import AccumulatorParam

Keep = Callable[[bytes], object]


class Inbox(AccumulatorParam[Any]):
    """Rows in transit: in a task, the task's own list; on the driver, the function that stores the rows."""

    def __init__(self, keep: Keep | None = None) -> None:
        self._keep = keep

    def __reduce__(self) -> tuple[type[Inbox], tuple[()]]:
        return Inbox, ()

    def zero(self, value: list[bytes]) -> list[bytes]:
        """Return the empty value."""
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        """Add rows."""
        if self._keep is None:
            return [*value1, *value2]
        for line in value2:
            self._keep(line)
        return value1
