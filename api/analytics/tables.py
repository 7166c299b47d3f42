"""Reads the tables that the pipeline writes as Parquet."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec

from zabka.api.http.problems import Problem
from zabka.api.views.models import Table
from zabka.ensemble.runtime.extras import install_command, sentence

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


async def read_table(tables: Path, data: Path, name: str, limit: int) -> Table:
    """Return the last `limit` rows of a table.

    Raises Problem: 404, with the command that creates the tables, if the table does not exist; 422 if `name` is not a
    table name; 503 if the table cannot be read.
    """
    if not _NAME.fullmatch(name):
        raise Problem(422, f"{name!r} is not a table name")
    return await asyncio.to_thread(_read, tables / name, data, name, limit)


def _read(path: Path, data: Path, name: str, limit: int) -> Table:
    command = f"zabka pipeline tables --data {data}"
    files = sorted(p for p in path.rglob("*.parquet") if _is_shown(p, path))
    if not files:
        raise Problem(404, f"there is no table {name} yet; create the tables with: {command}", command=command)
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ModuleNotFoundError:
        # The container image of the nodes does not include pyarrow, but the image for Spark does.
        missing = sentence("spark", f"reading table {name} needs pyarrow, which is")
        raise Problem(503, missing, command=install_command("spark")) from None
    try:
        # Skip files in the folder that are not Parquet files, but fail if a file of the table itself was skipped: the
        # result would be incomplete.
        found = ds.dataset(path, format="parquet", partitioning="hive", exclude_invalid_files=True)
        if (damaged := len(files) - len(found.files)) > 0:
            raise Problem(503, f"table {name} is being rewritten or damaged: {damaged} of {len(files)} files cannot be "
                          "read", command=command)  # fmt: skip
        table = found.to_table()
    except (pa.ArrowException, OSError) as reason:
        raise Problem(503, f"table {name} is being rewritten or damaged: {reason}", command=command) from None
    total = table.num_rows
    newest = table.slice(max(0, total - limit))
    written_ms = max(int(f.stat().st_mtime * 1000) for f in files if f.exists())
    rows: list[dict[str, Any]] = newest.to_pylist()
    stream = _stream_status(path.parent)
    lag_ms = None if stream is None else max(0, stream.written_us - stream.latest_us) // 1000
    if stream is not None:
        # Use the time of the last batch: the stream does not rewrite the files of a table without new rows, so the
        # table would look outdated.
        written_ms = max(written_ms, stream.written_us // 1000)
    return Table(
        table=name, columns=table.column_names, rows=rows, total=total, written_ms=written_ms, lag_ms=lag_ms
    )  # fmt: skip


def _is_shown(file: Path, table: Path) -> bool:
    """Return whether a file is a finished file of the table. Folders of unfinished files begin with `.` or `_`."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(table).parts)


def rows_of(path: Path) -> tuple[int, int] | None:
    """Return a table's number of rows and the time of its last write (in ms), or None if there is no table.

    Reads only the files' footers. Raises Problem 503 if Parquet support is not installed.
    """
    files = [p for p in path.rglob("*.parquet") if _is_shown(p, path)]
    if not files:
        return None
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise Problem(503, sentence("spark", "reading tables needs pyarrow, which is"),
                      command=install_command("spark")) from None  # fmt: skip
    try:
        return sum(pq.read_metadata(p).num_rows for p in files), max(int(p.stat().st_mtime * 1000) for p in files)
    except (pa.ArrowException, OSError):
        # The pipeline is replacing the table, or is deleting old versions of it.
        return None


class _StreamStatus(msgspec.Struct):
    """The last batch of the pipeline's stream, from `_status.json`."""

    latest_us: int
    written_us: int


def _stream_status(tables: Path) -> _StreamStatus | None:
    try:
        return msgspec.json.decode((tables / "_status.json").read_bytes(), type=_StreamStatus)
    except (OSError, msgspec.MsgspecError):
        return None
