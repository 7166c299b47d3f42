"""A table's rows in the order of its files."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Row

from zabka.pipeline.gold import TABLES
from zabka.pipeline.rows import Journal


def rows_of(journal: Journal, build: Callable[[Journal], DataFrame], *columns: str) -> list[Row]:
    """Return the rows of the table created by `build`, run by run, with all columns or only the given ones."""
    (table,) = (table for table in TABLES if table.build is build)
    rows = journal.in_order(build(journal), table.order).select(*(["run", *columns] if columns else ["*"])).collect()
    return sorted(rows, key=lambda row: str(row[0]))
