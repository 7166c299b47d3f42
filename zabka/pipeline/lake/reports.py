"""The `replica_progressed` lines that a stream keeps. Brokers write several a second, and tables need few of them.

A table needs the highest high watermark of a replica in a role, and whether a report was higher than the previous
report. So if the high watermark does not decrease in three successive reports of one role, the second report is not
needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zabka.pipeline.entries import check_line
from zabka.pipeline.ranges import ARROW_SCHEMA

REPORTS = "replica_progressed"
_TAKEN = ("leadership_taken", "followership_taken")


class _Replica(NamedTuple):
    run: str
    node: str
    topic: str
    partition: int


class _Report(NamedTuple):
    high_watermark: int
    line: tuple[str, str, int]


class Reports:
    """The replica reports of all nodes that the tables need, in order of arrival."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, int], dict[str, Any]] = {}
        self._users: dict[tuple[str, str, int], int] = {}
        """For each line, the number of replicas whose report in it is needed."""
        self._last: dict[_Replica, list[_Report]] = {}
        """The last two needed reports of each replica in its current role."""

    def add(self, rows: pa.Table) -> None:
        """Add the reports in these rows.

        A row of `leadership_taken` or `followership_taken` begins a new role of its replica.
        """
        chosen = rows.filter(pc.is_in(rows["type"], pa.array([REPORTS, *_TAKEN])))
        for row in sorted(chosen.to_pylist(), key=lambda row: (row["run"], row["node"], row["node_seq"])):
            entry = check_line(row["body"].encode())
            if row["type"] != REPORTS:
                self._last.pop(_Replica(row["run"], row["node"], entry.topic, entry.partition), None)
                continue
            line = (row["run"], row["node"], row["node_seq"])
            self._rows[line], self._users[line] = row, 0
            for topic, partition, high_watermark, _ in entry.replicas:
                replica = _Replica(row["run"], row["node"], topic, partition)
                self._note(self._last.setdefault(replica, []), _Report(high_watermark, line))
            self._drop_unused(line)

    def _note(self, last: list[_Report], report: _Report) -> None:
        self._users[report.line] += 1
        if len(last) == 2:
            if last[0].high_watermark <= last[1].high_watermark <= report.high_watermark:
                line = last.pop().line
                self._users[line] -= 1
                self._drop_unused(line)
            else:
                # Keep this line, because its report may be the highest of the role.
                del last[0]
        last.append(report)

    def _drop_unused(self, line: tuple[str, str, int]) -> None:
        if not self._users[line]:
            del self._users[line], self._rows[line]

    def rows(self) -> pa.Table:
        """Return the lines whose reports are needed, as a table with the columns of `zabka-journal`."""
        return pa.Table.from_pylist(list(self._rows.values()), schema=ARROW_SCHEMA)
