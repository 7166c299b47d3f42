"""The lake's commit log: lines that arrived and lines that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.pipeline.lake import commits
from zabka.pipeline.lake.commits import Commit, Gap, Lines


def test_adjacent_or_overlapping_spans_are_merged() -> None:
    spans = [Lines(".", "a", 4, 6), Lines(".", "a", 1, 3), Lines(".", "a", 2, 5), Lines(".", "b", 7, 7)]
    assert commits.merged(spans) == [Lines(".", "a", 1, 6), Lines(".", "b", 7, 7)]


def test_gap_in_the_lines_of_a_node_is_reported_as_missing() -> None:
    lines = [Lines(".", "a", 3, 5), Lines(".", "a", 9, 9), Lines(".", "b", 1, 2), Lines(".~2", "a", 1, 4)]
    assert commits.gaps(lines) == [Gap(".", "a", 1, 2), Gap(".", "a", 6, 8)]


def test_partially_written_commit_is_ignored(tmp_path: Path) -> None:
    files = {
        "bronze/type=session_closed/day=1970-01-01/b.parquet": 3,
        "silver/session_closed/day=1970-01-01/b.parquet": 3,
    }
    commit = Commit(batch=4, files=files, lines=[Lines(".", "a", 1, 3)], quarantined=0, latest_us=7)
    commits.write(tmp_path, commit)
    commits.path_of(tmp_path, 5).with_suffix(".new").write_text('{"batch":5')
    assert list(commits.read(tmp_path)) == [commit]
    assert (commit.rows, commit.types) == (3, {"session_closed"})


def test_damaged_commit_is_reported_with_its_name(tmp_path: Path) -> None:
    commits.path_of(tmp_path, 1).parent.mkdir()
    commits.path_of(tmp_path, 1).write_text("{")
    with pytest.raises(ValueError, match=r"000000001\.json is not a commit"):
        list(commits.read(tmp_path))
