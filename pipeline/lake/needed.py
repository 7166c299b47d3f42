"""The rows of a lake that the tables need: one line in a hundred, kept as batches bring them.

Lines of types that no table needs show how long a history goes on: of each run the latest entry by either clock stands
for them all.  They show as well that a simulated process goes on that was paused: its first line afterwards stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.entries import check_line
from pipeline.lake.commits import Commit
from pipeline.lake.writer import SET_ASIDE
from pipeline.ranges import ARROW_SCHEMA, is_pause

LATEST = "latest"
"""The type of rows that stand for others."""
WORD = "word"
"""The type of rows that stand for a node's first line after it was paused."""
BODIES = ("by wall", "by mono")
"""Theirs keep them from counting as one."""


class Moment(NamedTuple):
    """An entry's readings of its node's clocks."""

    wall_us: int
    mono_us: int


_TOLD = ["run", "node", "node_seq", "wall_us", "mono_us"]


class Needed:
    """The lines of some types, those that were set aside, and of every run the latest moments."""

    def __init__(self, lake: Path, kinds: Sequence[str]) -> None:
        self._lake = lake
        self._kinds = frozenset(kinds)
        self._chosen = ARROW_SCHEMA.empty_table()
        self._latest: dict[str, tuple[Moment, Moment]] = {}
        self._pauses: dict[tuple[str, str], list[int]] = {}
        """Of each node of a run: when pauses of it began, as far as no word of it after them is known."""

    def begin(self, told: pa.Table) -> None:
        """Take what a lake held before (`pipeline.stream.read_lake`)."""
        stands = pc.fill_null(pc.equal(told["type"], LATEST), False)
        self._chosen = told.select(ARROW_SCHEMA.names).filter(pc.invert(stands)).cast(ARROW_SCHEMA)
        self._note(told.filter(stands))
        self._note_pauses(self._chosen)

    def take(self, commit: Commit) -> None:
        """Take what came with a commit."""
        brought, others = [], []
        for name in commit.files:
            tree, _, place = name.partition("/")
            if tree == "bronze":
                kind = place.split("/")[0].removeprefix("type=")
                file = pq.ParquetFile(self._lake / name)
                if kind in self._kinds or kind == SET_ASIDE:
                    rows = file.read()
                    kinds = pa.array([None if kind == SET_ASIDE else kind] * rows.num_rows, pa.string())
                    brought.append(rows.append_column("type", kinds).select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA))
                else:
                    others.append(file.read(_TOLD))
                    self._note(others[-1])
        for rows in brought:
            self._note_pauses(rows)
        words = pa.Table.from_pylist(list(self._words(others)), schema=ARROW_SCHEMA)
        # In one piece: thousands of batches would leave thousands of them.
        self._chosen = pa.concat_tables([self._chosen, *brought, words]).combine_chunks()

    def rows(self) -> pa.Table:
        """All of them, in the columns of `zabka-journal`."""
        latest = [
            {"run": run, "wall_us": moment.wall_us, "mono_us": moment.mono_us, "type": LATEST, "body": body}
            for run, moments in self._latest.items()
            for moment, body in zip(moments, BODIES, strict=True)
        ]
        return pa.concat_tables([self._chosen, pa.Table.from_pylist(latest, schema=ARROW_SCHEMA)])

    def _note(self, told: pa.Table) -> None:
        for run, moment in _moments(told):
            by_wall, by_mono = self._latest.get(run, (moment, moment))
            self._latest[run] = (max(by_wall, moment), max(by_mono, moment, key=lambda each: each.mono_us))

    def _note_pauses(self, rows: pa.Table) -> None:
        for row in rows.filter(pc.fill_null(pc.equal(rows["type"], "fault_injected"), False)).to_pylist():
            fault = check_line(row["body"].encode())
            if is_pause(fault):
                self._pauses.setdefault((row["run"], fault.target), []).append(row["mono_us"])

    def _words(self, others: list[pa.Table]) -> Iterable[dict[str, Any]]:
        for (run, node), pauses in list(self._pauses.items()):
            own = [told.filter((pc.field("run") == run) & (pc.field("node") == node)).to_pylist() for told in others]
            rows = sorted((row for some in own for row in some), key=lambda row: row["mono_us"])
            monos = [row["mono_us"] for row in rows]
            places = {pause: bisect_right(monos, pause) for pause in pauses}
            yield from ({**rows[place], "type": WORD, "body": WORD} for place in places.values() if place < len(rows))
            self._pauses[run, node] = [pause for pause in pauses if places[pause] == len(rows)]


def _moments(told: pa.Table) -> Iterable[tuple[str, Moment]]:
    walls, monos = told["wall_us"].to_pylist(), told["mono_us"].to_pylist()
    return zip(told["run"].to_pylist(), map(Moment, walls, monos), strict=True)
