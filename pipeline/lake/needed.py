"""The rows of a lake that the tables need: one line in a hundred, kept as batches bring them.

Lines of types that no table needs show how long a history goes on: of each run the latest entry by either clock stands
for them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.lake.commits import Commit
from pipeline.lake.writer import SET_ASIDE
from pipeline.ranges import ARROW_SCHEMA

LATEST = "latest"
"""The type of rows that stand for others."""
BODIES = ("by wall", "by mono")
"""Theirs keep them from counting as one."""


class Moment(NamedTuple):
    """An entry's readings of its node's clocks."""

    wall_us: int
    mono_us: int


class Needed:
    """The lines of some types, those that were set aside, and of every run the latest moments."""

    def __init__(self, lake: Path, kinds: Sequence[str]) -> None:
        self._lake = lake
        self._kinds = frozenset(kinds)
        self._chosen = ARROW_SCHEMA.empty_table()
        self._latest: dict[str, tuple[Moment, Moment]] = {}

    def begin(self, told: pa.Table) -> None:
        """Take what a lake held before (`pipeline.stream.read_lake`)."""
        stands = pc.fill_null(pc.equal(told["type"], LATEST), False)
        self._chosen = told.select(ARROW_SCHEMA.names).filter(pc.invert(stands)).cast(ARROW_SCHEMA)
        self._note(told.filter(stands))

    def take(self, commit: Commit) -> None:
        """Take what came with a commit."""
        brought = [self._chosen]
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
                    self._note(file.read(["run", "wall_us", "mono_us"]))
        # In one piece: thousands of batches would leave thousands of them.
        self._chosen = pa.concat_tables(brought).combine_chunks()

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


def _moments(told: pa.Table) -> Iterable[tuple[str, Moment]]:
    walls, monos = told["wall_us"].to_pylist(), told["mono_us"].to_pylist()
    return zip(told["run"].to_pylist(), map(Moment, walls, monos), strict=True)
