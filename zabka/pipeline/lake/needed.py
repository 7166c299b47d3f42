"""The rows of a lake that the tables need (about 1 % of the lines), collected as batches arrive.

A line whose type no table needs shows only how long a history lasted, and that a process was running. Of these lines,
only the following are kept: for each run, the latest one by wall clock and the latest one by monotonic clock; for each
node, the first one after a simulated pause and the last one before a start. Replica reports are frequent and treated in
the same way, except the few whose content a table needs (`reports`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zabka.pipeline.entries import check_line
from zabka.pipeline.lake.commits import Commit
from zabka.pipeline.lake.reports import REPORTS, Reports
from zabka.pipeline.lake.writer import QUARANTINED
from zabka.pipeline.ranges import ARROW_SCHEMA, is_pause

LATEST = "latest"
"""Type of the rows for the latest entries of a run.

These rows replace all entries that no table needs.
"""
SIGN_OF_LIFE = "word"
"""Type of the rows that show that a node was still running, or running again.

They are its first row after a pause, and its last row before a start.
"""
BODIES = ("by wall", "by mono")
"""Values of `body` in two rows of a run: its latest entry by wall clock, and by monotonic clock.

The values differ, so that the two rows do not count as the same entry.
"""


class Moment(NamedTuple):
    """Times of an entry on the clocks of its node."""

    wall_us: int
    mono_us: int


_NODE = ["run", "node"]
_ENTRY = [*_NODE, "node_seq", "wall_us", "mono_us"]
_PAUSE = pa.schema([*((name, pa.string()) for name in _NODE), ("since", pa.int64())])


class Needed:
    """The lines of a lake that the tables need, its quarantined lines, and the latest times of every run."""

    def __init__(self, lake: Path, kinds: Sequence[str]) -> None:
        self._lake = lake
        self._kinds = frozenset(kinds)
        self._chosen = ARROW_SCHEMA.empty_table()
        self._reports = Reports()
        self._latest: dict[str, tuple[Moment, Moment]] = {}
        self._pauses = _PAUSE.empty_table()
        """Start of the pause of each paused node, kept until the first line of the node after the pause arrives."""
        self._last = self._chosen.select(_ENTRY)
        """For each node of a run, its last line whose type no table needs."""

    def load_lake(self, entries: pa.Table) -> None:
        """Load the rows of an existing lake (`zabka.pipeline.stream.read_lake`)."""
        stands = _is(entries, LATEST)
        chosen = entries.select(ARROW_SCHEMA.names).filter(pc.invert(stands)).cast(ARROW_SCHEMA)
        self._reports.add(chosen)
        self._chosen = chosen.filter(pc.invert(_is(chosen, REPORTS)))
        self._note(entries.filter(stands))
        self._last = self._chosen.filter(_is(self._chosen, SIGN_OF_LIFE)).select(_ENTRY)
        self._note_pauses(self._chosen)

    def add_commit(self, commit: Commit) -> None:
        """Add the rows of a commit."""
        brought, others = [ARROW_SCHEMA.empty_table()], [self._last]
        for name in commit.files:
            tree, _, place = name.partition("/")
            if tree == "bronze":
                kind = place.split("/")[0].removeprefix("type=")
                file = pq.ParquetFile(self._lake / name)
                if kind in self._kinds or kind == QUARANTINED:
                    rows = file.read()
                    kinds = pa.array([None if kind == QUARANTINED else kind] * rows.num_rows, pa.string())
                    brought.append(rows.append_column("type", kinds).select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA))
                if kind == REPORTS or not (kind in self._kinds or kind == QUARANTINED):
                    others.append(file.read(_ENTRY).cast(self._last.schema))
                    self._note(others[-1])
        chosen = pa.concat_tables(brought)
        self._reports.add(chosen)
        chosen = chosen.filter(pc.invert(_is(chosen, REPORTS)))
        self._note_pauses(chosen)
        signs = self._signs_of_life(pa.concat_tables(others), chosen.filter(_is(chosen, "node_started")))
        # Combine the chunks of the table: each of thousands of batches would otherwise be a separate chunk.
        self._chosen = pa.concat_tables([self._chosen, chosen, signs]).combine_chunks()

    def rows(self) -> pa.Table:
        """Return all rows, in the columns of `zabka-journal`."""
        latest = [
            {"run": run, "wall_us": moment.wall_us, "mono_us": moment.mono_us, "type": LATEST, "body": body}
            for run, moments in self._latest.items()
            for moment, body in zip(moments, BODIES, strict=True)
        ]
        return pa.concat_tables([self._chosen, self._reports.rows(), pa.Table.from_pylist(latest, schema=ARROW_SCHEMA)])

    def _note(self, entries: pa.Table) -> None:
        for run, moment in _moments(entries):
            by_wall, by_mono = self._latest.get(run, (moment, moment))
            self._latest[run] = (max(by_wall, moment), max(by_mono, moment, key=lambda each: each.mono_us))

    def _note_pauses(self, rows: pa.Table) -> None:
        found = []
        for row in rows.filter(_is(rows, "fault_injected")).to_pylist():
            fault = check_line(row["body"].encode())
            if is_pause(fault):
                found.append({"run": row["run"], "node": fault.target, "since": row["mono_us"]})
        self._pauses = pa.concat_tables([self._pauses, pa.Table.from_pylist(found, _PAUSE)])

    def _signs_of_life(self, entries: pa.Table, starts: pa.Table) -> pa.Table:
        """Return the first line of each node after a pause, and its last line before a start.

        Only lines of types that no table needs are considered.
        """
        later = entries.select([*_NODE, "mono_us"]).join(self._pauses, _NODE, join_type="inner")
        later = later.filter(pc.field("mono_us") > pc.field("since"))
        first = _chosen(later, "since", "mono_us", "min")
        before = starts.select([*_NODE, "node_seq"]).rename_columns([*_NODE, "start"])
        earlier = entries.select([*_NODE, "node_seq"]).join(before, _NODE, join_type="inner")
        earlier = earlier.filter(pc.field("node_seq") < pc.field("start"))
        last = _chosen(earlier, "start", "node_seq", "max")
        found = [_lines(entries, first, "mono_us"), _lines(entries, last, "node_seq")]
        self._pauses = self._pauses.join(first, [*_NODE, "since"], join_type="left anti").cast(_PAUSE)
        newest = entries.group_by(_NODE).aggregate([("node_seq", "max")]).rename_columns({"node_seq_max": "node_seq"})
        self._last = _lines(entries, newest, "node_seq")
        signs = pa.concat_tables(found)
        for name in ("type", "body"):
            signs = signs.append_column(name, pa.repeat(pa.scalar(SIGN_OF_LIFE), signs.num_rows))
        return pa.concat_tables([ARROW_SCHEMA.empty_table(), signs], promote_options="default")


def _is(rows: pa.Table, kind: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(rows["type"], kind), False)


def _chosen(entries: pa.Table, within: str, what: str, which: str) -> pa.Table:
    """For each node and value of `within`, return the entry with the lowest or highest `what`."""
    found = entries.group_by([*_NODE, within]).aggregate([(what, which)])
    return found.rename_columns({f"{what}_{which}": what})


def _lines(entries: pa.Table, which: pa.Table, key: str) -> pa.Table:
    """Return the lines whose node and `key` are in `which`."""
    return entries.join(which, [*_NODE, key], join_type="left semi").select(_ENTRY)


def _moments(entries: pa.Table) -> Iterable[tuple[str, Moment]]:
    walls, monos = entries["wall_us"].to_pylist(), entries["mono_us"].to_pylist()
    return zip(entries["run"].to_pylist(), map(Moment, walls, monos), strict=True)
