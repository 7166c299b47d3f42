"""Compaction of the lake reduces the number of files.

No row is lost or duplicated, no matter when the process is killed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zabka.journal import events as e
from zabka.pipeline import stream
from zabka.pipeline.audits.histories import entries_of, histories
from zabka.pipeline.lake import commits, compaction, writer
from zabka.pipeline.lake.commits import Commit, Lines
from zabka.pipeline.ranges import ARROW_SCHEMA, read_share
from zabka.pipeline.source import shares_of

ROOT = Path(__file__).resolve().parents[2]
Rows = list[tuple[Any, ...]]


def lake_of(history: Any, lake: Path, batches: int) -> Path:
    """Write a lake and return its directory.

    Each batch contains a session, its end and a damaged line.
    """
    path = history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl"
    for number in range(batches):
        history.write("peer-1", e.SessionCreated(number, 6_000, 2 * number + 1))
        history.write("peer-1", e.SessionClosed(number, 2 * number + 2, [f"/{number}"]))
        with path.open("ab") as file:
            file.write(b"damaged\n")
    rows = pa.Table.from_batches([b for s in shares_of(history.directory, None) for b in read_share(s)], ARROW_SCHEMA)
    for batch in range(batches):
        (some,) = rows.slice(3 * batch, 3).combine_chunks().to_batches()
        wrote = writer._written([some], lake, f"batch-{batch:09d}-00000.parquet")
        found = Commit(
            batch=batch, files=wrote.files, lines=wrote.lines, quarantined=wrote.quarantined, latest_us=wrote.latest_us
        )
        commits.write(lake, found)
    return lake


def committed(lake: Path, tree: str) -> Rows:
    """Return the rows below a directory that a reader sees if it uses the commit log."""
    named = [name for commit in commits.read(lake) for name in commit.files if name.startswith(tree)]
    tables = [commits.read_file(lake, name, lambda path: pq.ParquetFile(path).read()) for name in named]
    return sorted((tuple(row.items()) for table in tables for row in table.to_pylist()), key=str)


def present(lake: Path, tree: str) -> Rows:
    """Return the rows below a directory, as seen by a reader that ignores the commit log."""
    tables = [pq.ParquetFile(path).read() for path in (lake / tree).rglob("*.parquet")]
    return sorted((tuple(row.items()) for table in tables for row in table.to_pylist()), key=str)


def files_of(lake: Path) -> list[str]:
    return sorted(path.name for tree in compaction.TREES for path in (lake / tree).rglob("*.parquet"))


def test_eight_files_of_a_lake_directory_are_merged_into_one(history: Any, tmp_path: Path) -> None:
    """Eight small files of a directory are merged into one.

    The lake has two event types and damaged lines: 3 directories of bronze and 2 of silver, with 9 files each.
    """
    lake = lake_of(history, tmp_path / "lake", 9)
    before = {tree: committed(lake, tree) for tree in compaction.TREES}
    (summed,) = {sum(commit.rows for commit in commits.read(lake))}
    assert (len(files_of(lake)), summed) == (45, 27)
    assert compaction.compact(lake) == 40
    assert files_of(lake) == sorted(5 * ["batch-000000008-00000.parquet", "merged-01-batch-000000000-00000.parquet"])
    (commit,) = commits.read(lake)
    assert (commit.first, commit.batch, commit.rows, commit.quarantined) == (0, 8, 27, 9)
    assert commit.lines == [Lines(".", "peer-1", 1, 18)]
    assert commit.types == {"session_created", "session_closed"}
    for tree in compaction.TREES:
        assert committed(lake, tree) == present(lake, tree) == before[tree]
    assert compaction.compact(lake) == 0


def test_merged_files_of_a_lake_are_merged_again_at_next_level(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    lake = lake_of(history, tmp_path / "lake", 7)
    before = committed(lake, "silver")
    while compaction.compact(lake):
        pass
    # The files of 7 batches are merged into files of 4, 2 and 1 batches.
    names = ("batch-000000006", "merged-01-batch-000000004", "merged-02-batch-000000000")
    assert files_of(lake) == sorted(5 * [f"{name}-00000.parquet" for name in names])
    assert committed(lake, "silver") == present(lake, "silver") == before


def test_compaction_skips_large_files_and_limits_its_merges(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(history, tmp_path / "lake", 8)
    with monkeypatch.context() as limited:
        limited.setattr(compaction, "SMALL_BYTES", 1)
        assert compaction.compact(lake) == 0
    with monkeypatch.context() as limited:
        limited.setattr(compaction, "MERGES_MAX", 2)
        assert compaction.compact(lake) == 16
    with monkeypatch.context() as limited:
        limited.setattr(compaction, "BYTES_MAX", 1)
        assert compaction.compact(lake) == 8
    assert compaction.compact(lake) == 16


def test_commits_over_the_limit_are_merged_without_merging_files(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(history, tmp_path / "lake", 3)
    monkeypatch.setattr(compaction, "COMMITS_MAX", 3)
    compaction.compact(lake)
    assert [path.name for path in (lake / commits.COMMITS).iterdir()] == ["000000002.json"]
    assert sum(commit.rows for commit in commits.read(lake)) == 9


def test_column_of_a_newer_version_is_null_in_rows_of_older_ones(tmp_path: Path) -> None:
    (directory := tmp_path / "silver/t/day=2026-11-29").mkdir(parents=True)
    for batch in range(compaction.FAN_IN):
        row = {"run": ".", "number": batch} | ({"new": "x"} if batch == 7 else {})
        pq.write_table(pa.Table.from_pylist([row]), directory / f"batch-{batch:09d}-00000.parquet")
        name = f"silver/t/day=2026-11-29/batch-{batch:09d}-00000.parquet"
        commits.write(tmp_path, Commit(batch=batch, files={name: 1}, lines=[], quarantined=0, latest_us=0))
    assert compaction.compact(tmp_path) == 8
    (merged,) = directory.iterdir()
    assert pq.read_table(merged, partitioning=None)["new"].to_pylist() == [None] * 7 + ["x"]


def test_files_replaced_by_compaction_stay_readable_for_a_while(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a compaction has replaced can be read for some more time.

    An audit may have listed them before the compaction and read them after it.
    """
    lake = lake_of(history, tmp_path / "lake", 8)
    (listed,) = histories(lake)
    compaction.compact(lake)
    (later,) = histories(lake)
    assert len(list(entries_of(listed, []))) == len(list(entries_of(later, []))) == 16
    monkeypatch.setattr(compaction, "REPLACED_KEPT_S", 0)
    compaction.settle(lake)
    with pytest.raises(FileNotFoundError, match="was removed"):
        list(entries_of(listed, []))


def test_lake_with_a_missing_commit_is_not_compacted(history: Any, tmp_path: Path) -> None:
    lake = lake_of(history, tmp_path / "lake", 9)
    commits.path_of(lake, 4).unlink()
    assert compaction.compact(lake) == 0
    assert len(files_of(lake)) == 45


def test_files_without_a_commit_in_a_compacted_lake_are_found(history: Any, tmp_path: Path) -> None:
    lake = lake_of(history, tmp_path / "lake", 8)
    compaction.compact(lake)
    file = next((lake / "bronze").rglob("*.parquet"))
    file.with_name("batch-000000008-00000.parquet").write_bytes(file.read_bytes())
    assert stream.remove_orphans(lake) == 1
    assert len(files_of(lake)) == 5


@pytest.mark.timeout(600)
def test_kill_during_compaction_loses_and_duplicates_no_rows(history: Any, tmp_path: Path) -> None:
    """A compaction that is killed before any of its file operations neither loses nor duplicates rows.

    For each operation, a copy of the lake is compacted and killed with SIGKILL before that operation.
    """
    lake = lake_of(history, tmp_path / "lake", 2)
    expected = {tree: committed(lake, tree) for tree in compaction.TREES}
    code = [sys.executable, "-m", "tests.pipeline.killed_compactions", str(lake), str(tmp_path / "copies")]
    (tmp_path / "copies").mkdir()
    subprocess.run(code, cwd=ROOT, check=True)
    copies = sorted((tmp_path / "copies").iterdir(), key=lambda path: int(path.name))
    # 5 merges read 10 files and write 5. Then the commit is written, and then the 10 files are moved away.
    assert len(copies) > 40
    for copy in copies:
        for tree in compaction.TREES:
            assert committed(copy, tree) == expected[tree], f"killed before operation {copy.name}"
        compaction.settle(copy)
        for tree in compaction.TREES:
            assert committed(copy, tree) == expected[tree], f"settled after operation {copy.name}"
            assert present(copy, tree) == expected[tree], f"settled after operation {copy.name}"
        assert not list((copy / commits.MERGING).rglob("*.parquet*"))
        assert commits.are_complete(commits.read(copy))
    assert {len(files_of(copy)) for copy in copies} == {10, 5}
