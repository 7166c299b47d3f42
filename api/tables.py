"""Reading the tables that the pipeline writes as Parquet."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from api.models import Table
from api.problems import Problem

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


async def read_table(tables: Path, data: Path, name: str, limit: int) -> Table:
    """The last `limit` rows of a table.  Raises Problem 404, which says how the tables are made."""
    if not _NAME.fullmatch(name):
        raise Problem(422, f"{name!r} is no table name")
    return await asyncio.to_thread(_read, tables / name, data, name, limit)


def _read(path: Path, data: Path, name: str, limit: int) -> Table:
    command = f"zabka pipeline tables --data {data}"
    files = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith((".", "_")))
    if not files:
        raise Problem(404, f"there is no table {name} yet; make the tables with: {command}", command=command)
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ModuleNotFoundError:
        # The image of containers' nodes goes without it: Spark's has it.
        raise Problem(503, f"reading table {name} needs pyarrow, which is not installed here") from None
    try:
        table = ds.dataset(path, format="parquet", partitioning="hive", exclude_invalid_files=True).to_table()
    except (pa.ArrowException, OSError) as reason:
        raise Problem(503, f"table {name} is being rewritten or damaged: {reason}", command=command) from None
    total = table.num_rows
    newest = table.slice(max(0, total - limit))
    written_ms = max(int(f.stat().st_mtime * 1000) for f in files if f.exists())
    rows: list[dict[str, Any]] = newest.to_pylist()
    return Table(table=name, columns=table.column_names, rows=rows, total=total, written_ms=written_ms)
