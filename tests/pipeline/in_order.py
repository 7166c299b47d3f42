"""The rows of a table in the order in which its files contain them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Row

from zabka.pipeline.gold import TABLES
from zabka.pipeline.rows import Journal


def rows_of(journal: Journal, build: Callable[[Journal], DataFrame], *columns: str) -> list[Row]:
    """Return the rows of the table that `build` creates, ordered by run.

    If `columns` are given, the rows have only the run and these columns.
    """
    (table,) = (table for table in TABLES if table.build is build)
    rows = journal.in_order(build(journal), table.order).select(*(["run", *columns] if columns else ["*"])).collect()
    return sorted(rows, key=lambda row: str(row[0]))
