"""Compact copies of a lake, and kill each compaction before a different file operation.

Usage: killed_compactions LAKE OUT. The compaction of the copy `OUT/N` is killed before operation N. The last copy is
compacted completely.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from zabka.pipeline.lake import compaction

OPERATIONS: tuple[tuple[Any, str], ...] = (
    (Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (Path, "write_bytes"), (pq.ParquetWriter, "write_table"),
)  # fmt: skip
FAN_IN = 2


def killing(operation: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """Return a wrapper of `operation` that counts `left` down and, at zero, kills the process before the operation."""

    def perform(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*arguments, **named)

    return perform


def compact(lake: Path, operations: int) -> None:
    """Compact a lake in a child process, which is killed before file operation number `operations`."""
    left = [operations]
    for owner, name in OPERATIONS:
        setattr(owner, name, killing(getattr(owner, name), left))
    compaction.FAN_IN = FAN_IN
    compaction.compact(lake)


def main(lake: Path, out: Path) -> None:
    """Compact one copy of the lake after the other, until a compaction completes without being killed."""
    for number in count(1):
        shutil.copytree(lake, out / str(number))
        child = os.fork()
        if not child:
            compact(out / str(number), number)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
