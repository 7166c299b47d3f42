"""The link faults that an earlier life of a host's agent left standing in its journal: it ended, and they with it."""

from __future__ import annotations

from pathlib import Path

from zabka.journal.events import FaultInjected, FaultRemoved
from zabka.journal.reader import node_files, read_file


def faults_left(directory: Path, host: str) -> list[str]:
    """The ids of faults that the host's journal tells of and does not end, oldest first."""
    left: dict[str, None] = {}
    for path in node_files(directory, host):
        for entry in read_file(path):
            if isinstance(entry.event, FaultInjected):
                left[entry.event.fault_id] = None
            elif isinstance(entry.event, FaultRemoved):
                left.pop(entry.event.fault_id, None)
    return list(left)
