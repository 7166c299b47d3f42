"""A stored run's journal: one file with lines numbered from 1, which can be read starting at any number."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from zabka.api.collector.numbered import Numbered
from zabka.api.http.problems import Problem
from zabka.api.runs.history import Folded
from zabka.journal.cluster_state import ClusterState

MARK_EVERY = 256
"""The file offset of one in every 256 lines is kept in memory, as an index."""


class RunFile:
    """The history of a stored run, read from its file. Raises OSError if the file cannot be read."""

    first_seq = 1

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks: list[int] = []
        self.last_seq = 0
        offset = 0
        with path.open("rb") as file:
            for line in file:
                if self.last_seq % MARK_EVERY == 0:
                    self._marks.append(offset)
                offset += len(line)
                self.last_seq += 1

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Return up to `limit` events starting with `seq`, in order.

        Raises Problem 404 if the run has been removed.
        """
        seq = max(1, seq)
        if seq > self.last_seq:
            return []
        mark = (seq - 1) // MARK_EVERY
        passed_over = seq - 1 - mark * MARK_EVERY
        try:
            file = self._path.open("rb")
        except OSError as reason:
            raise Problem(404, f"this run was removed while it was being read ({reason.strerror})") from None
        with file:
            file.seek(self._marks[mark])
            lines = islice(file, passed_over, passed_over + limit)
            return [Numbered(number, line.rstrip(b"\n")) for number, line in enumerate(lines, seq)]

    def head(self, seq: int) -> Folded:
        """Return the empty state, because an uploaded file contains the run from its first event on."""
        return Folded(ClusterState(), [])

    def head_at(self, at_us: int) -> Folded:
        """Return the empty state before the first event."""
        return Folded(ClusterState(), [])
