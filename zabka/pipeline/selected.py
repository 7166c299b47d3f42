"""Returns the rows of one table in the table's order, either stored by an earlier run or built from journals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from zabka.ensemble.close_names import did_you_mean
from zabka.pipeline.columns import finished
from zabka.pipeline.gold import TABLES
from zabka.pipeline.ranges import UNREADABLE
from zabka.pipeline.rows import Journal
from zabka.pipeline.session import first_line
from zabka.pipeline.versions import OLDER_NAMES

_BY_NAME = {table.name: table for table in TABLES}
_NO_TABLES = ("bronze", "silver", "campaigns")


class NoSuchTable(ValueError):
    """There is no table of that name. The message lists the existing tables."""


class BadCondition(ValueError):
    """The SQL condition cannot be evaluated on the table. The message contains the reason and the table's columns."""


def stored_tables(out: Path) -> list[str]:
    """Return the names of the tables that an earlier run wrote to a directory. Raises OSError."""
    if not out.is_dir():
        return []
    places = sorted(path for path in out.iterdir() if not path.name.startswith(("_", ".")))
    names = [path.name for path in places if path.name not in _NO_TABLES and any(path.rglob("*.parquet"))]
    return [name for name in names if name not in OLDER_NAMES]


def stored_rows(out: Path, name: str) -> pa.Table:
    """Return all rows of a table that an earlier run wrote. Raises NoSuchTable and OSError."""
    return _in_order(name, pq.read_table(_place(out, OLDER_NAMES.get(name, name))))


def stored_rows_where(spark: SparkSession, out: Path, name: str, where: str) -> pa.Table:
    """Return the rows of a stored table that meet an SQL condition. Raises NoSuchTable, BadCondition and OSError."""
    place = _place(out, OLDER_NAMES.get(name, name))
    return _in_order(name, _chosen(spark.read.parquet(str(place)), where).toArrow())


def _place(out: Path, name: str) -> Path:
    if name in (known := stored_tables(out)):
        return out / name
    if not known:
        raise NoSuchTable(f"There are no tables in {out}: create them with `zabka pipeline tables`.")
    raise NoSuchTable(_unknown(f"There is no table {name} in {out}", name, known))


def check_name(name: str) -> None:
    """Raise NoSuchTable if there is no such table, or if it cannot be built from journals."""
    if OLDER_NAMES.get(name, name) not in _BY_NAME:
        raise NoSuchTable(_unknown(f"There is no table {name}", name, [*_BY_NAME]))


def _unknown(reason: str, name: str, known: list[str]) -> str:
    return f"{reason}{did_you_mean(name, known) or '.'} Tables: {', '.join(known)}."


def built_rows(journal: Journal, name: str, where: str | None) -> pa.Table:
    """Build a table from journals. Return its rows, or only the rows that meet an SQL condition.

    Raises NoSuchTable and BadCondition.
    """
    check_name(name)
    frame = finished(_BY_NAME[OLDER_NAMES.get(name, name)].build(journal))
    return _in_order(name, (frame if where is None else _chosen(frame, where)).toArrow())


def unreadable_journals(journal: Journal) -> list[str]:
    """Return an error message, with the file's name, for each journal that could not be read."""
    problems = journal.rows.where(f.col("problem").startswith(UNREADABLE)).select("problem").distinct()
    return sorted(row["problem"] for row in problems.collect())


def _chosen(frame: DataFrame, where: str) -> DataFrame:
    try:
        return frame.where(where)
    except AnalysisException as reason:
        columns = ", ".join(frame.columns)
        raise BadCondition(f"--where {where!r} cannot be evaluated: {first_line(reason)} Columns: {columns}.") from None


def _in_order(name: str, rows: pa.Table) -> pa.Table:
    """Sort the rows in the table's order, because Spark does not return files in the order of their names."""
    table = _BY_NAME.get(OLDER_NAMES.get(name, name))
    order = [] if table is None else [column for column in table.order if column in rows.column_names]
    return rows.sort_by([(column, "ascending") for column in order]) if order else rows
