"""What the driver keeps of a lake's lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.lake.commits import Commit
from pipeline.lake.needed import Needed
from pipeline.lake.writer import SET_ASIDE
from pipeline.ranges import ARROW_SCHEMA


def committed(lake: Path, batch: int, **rows: list[dict[str, Any]]) -> Commit:
    """A batch of the lake, with those rows of each type."""
    files = {f"bronze/type={kind}/day=2026-01-01/batch-{batch}.parquet": some for kind, some in rows.items()}
    for name, some in files.items():
        (lake / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(some, ARROW_SCHEMA).drop_columns(["type"]), lake / name)
    counts = {name: len(some) for name, some in files.items()}
    return Commit(batch=batch, files=counts, lines=[], set_aside=0, latest_us=0)


def test_of_types_that_no_table_needs_the_latest_by_either_clock_stand_for_all(tmp_path: Path) -> None:
    needed = Needed(tmp_path, ["wanted"])
    entry = {"run": "r", "node": "n", "node_seq": 1, "wall_us": 5, "mono_us": 5, "body": "{}"}
    aside = {"run": "r", "file": "f", "position": 3, "problem": "no entry", "body": "x"}
    readings = [(70, 10), (60, 30), (50, 20)]
    others = [{**entry, "wall_us": wall, "mono_us": mono} for wall, mono in readings]
    needed.take(committed(tmp_path, 0, wanted=[entry], other=others[:1], **{SET_ASIDE: [aside]}))
    needed.take(committed(tmp_path, 1, other=[*others[1:], {**entry, "run": "s"}]))
    found = [
        (row["run"], row["type"], row["wall_us"], row["mono_us"], row["problem"]) for row in needed.rows().to_pylist()
    ]
    assert found == [
        ("r", "wanted", 5, 5, None), ("r", None, None, None, "no entry"),
        ("r", "latest", 70, 10, None), ("r", "latest", 60, 30, None),
        ("s", "latest", 5, 5, None), ("s", "latest", 5, 5, None),
    ]  # fmt: skip
    again = Needed(tmp_path, ["wanted"])
    again.begin(needed.rows())
    assert again.rows().to_pylist() == needed.rows().to_pylist()
