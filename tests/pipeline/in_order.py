"""A table's rows as its files have them: in their order."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Row

from zabka.pipeline.gold import TABLES
from zabka.pipeline.rows import Journal


def told(journal: Journal, build: Callable[[Journal], DataFrame], *columns: str) -> list[Row]:
    """The rows of the table that is made so, run by run; of all its columns, or of some."""
    (table,) = (table for table in TABLES if table.build is build)
    rows = journal.in_order(build(journal), table.order).select(*(["run", *columns] if columns else ["*"])).collect()
    return sorted(rows, key=lambda row: str(row[0]))
