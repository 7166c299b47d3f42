"""Counts of requests affected by request faults, shared by all nodes of a host: "once" means once per host.

A count is the size of a file: each increment appends a byte. An append is atomic, and moves the descriptor to the end
of the appended byte, so that each node gets a different number. The counts also survive the restart of a node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from zabka.ensemble.request_fault_uses import KINDS, SharedCounts


class FaultLedger:
    """Counters of the requests that request faults affected.

    They are stored in files in the host agent's directory, or in memory until that directory is known.
    """

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._own = SharedCounts()

    def move_to(self, directory: str) -> None:
        """Store the counts in this directory from now on, or in memory if it is ""."""
        self._directory = Path(directory) if directory else None

    def count(self, key: str) -> int:
        """Increment the count with this key and return the new value."""
        if self._directory is None:
            return self._own.count(key)
        try:
            return _append(self._directory / key)
        except FileNotFoundError:
            self._directory.mkdir(parents=True, exist_ok=True)
            return _append(self._directory / key)


def forget_counts(directory: Path, fault_ids: Iterable[str]) -> None:
    """Delete the count files of faults that were removed."""
    for fault_id in fault_ids:
        for kind in KINDS:
            (directory / f"{fault_id}.{kind}").unlink(missing_ok=True)


def _append(path: Path) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, b".")
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)
