"""The position up to which a stream has read: files grow, are rotated and deleted, and clusters are created again.

Processes can be killed at any time.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from zabka.pipeline.held import Held
from zabka.pipeline.positions import Offset, advance, ranges_between
from zabka.pipeline.ranges import SHARE_BYTES, FileRange, complete_bytes, read_share, shares
from zabka.pipeline.runs import journal_files

NAME = "peer-1/journal/peer-1.{:012d}.jsonl"


class Journal:
    """The journal files of a node, and a stream that reads them in batches."""

    def __init__(self, root: Path, *, hold: bool = True) -> None:
        self.root = root
        self.held = Held(root / "data", root / "_held" if hold else None)
        self.offset: Offset = {}
        self.read: list[tuple[str, str]] = []

    def write(self, number: int, *lines: str, node: str = "peer-1") -> None:
        path = self.root / "data" / NAME.replace("peer-1", node).format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(line + "\n" for line in lines)

    def remove(self, number: int) -> None:
        (self.root / "data" / NAME.format(number)).unlink()

    def plan(self) -> Offset:
        return advance(self.held.files_to_go_on_with(self.offset), self.offset)

    def take(self, end: Offset | None = None, *, die: bool = False) -> None:
        """Read one batch. With `die`, the stream is killed and the result of the batch is lost."""
        end = self.plan() if end is None else end
        found = []
        for part in ranges_between(self.held.files(self.offset), self.offset, end):
            data = Path(part.path).read_bytes()[part.begin : part.end].decode()
            found += [(part.run, line) for line in data.splitlines()]
        if not die:
            self.read += found
            self.offset = end
            self.held.release(end)

    def lines(self, run: str = ".") -> list[str]:
        return [line for of, line in self.read if of == run]


def test_appended_lines_and_new_files_are_read_exactly_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1, "a", "b")
    journal.take()
    journal.write(1, "c")
    journal.write(4, "d")
    journal.take()
    journal.take()
    assert journal.lines() == ["a", "b", "c", "d"]


def test_file_rotated_away_after_planning_is_still_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1, "a")
    end = journal.plan()
    journal.write(1, "b")
    journal.write(3, "c")
    journal.remove(1)
    journal.take(end, die=True)
    journal.take(end)
    journal.take()
    assert journal.lines() == ["a", "b", "c"]
    # The stream stores no copy of a file that was deleted after it had been read completely.
    assert [file.path.name for file in journal_files(tmp_path / "_held")] == ["peer-1.000000000003.jsonl"]


def test_remaining_files_are_read_once_and_closed(tmp_path: Path) -> None:
    journal = Journal(tmp_path, hold=False)
    journal.write(1, "a")
    end = journal.plan()
    journal.write(2, "b")
    journal.remove(1)
    journal.take(end)
    journal.take()
    journal.take()
    assert journal.lines() == ["b"]


def test_recreated_cluster_with_the_same_names_is_a_new_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1, "old first", "old second", "old third")
    journal.take()
    shutil.rmtree(tmp_path / "data")
    journal.write(1, "new")
    journal.take()
    journal.write(1, "newer")
    journal.take()
    assert journal.lines() == ["old first", "old second", "old third"]
    assert journal.lines(".~2") == ["new", "newer"]


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("lines", [("shorter",), ("of one length", "and more"), ("a" * 9_000, "b" * 9_000)])
def test_different_file_with_the_same_first_line_is_a_new_run(
    tmp_path: Path, hold: bool, lines: tuple[str, ...]
) -> None:
    journal = Journal(tmp_path, hold=hold)
    journal.write(1, "same first", "of ONE length")
    journal.take()
    shutil.rmtree(tmp_path / "data")
    journal.write(1, "same first", *lines)
    journal.take()
    journal.write(1, "last")
    journal.take()
    assert journal.lines() == ["same first", "of ONE length"]
    assert journal.lines(".~2") == ["same first", *lines, "last"]


def test_lines_replaced_in_a_journal_before_its_removal_are_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1, "first", "read, and lost")
    journal.take()
    (tmp_path / "data" / NAME.format(1)).write_text("first\n")
    journal.write(1, "told in its place")
    journal.remove(1)
    journal.held.release(journal.offset)
    journal.take()
    assert journal.lines(".~2") == ["first", "told in its place"]


def test_recreated_file_with_the_same_first_line_is_a_new_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path, hold=False)
    journal.write(1, "first", "old")
    end = journal.plan()
    shutil.rmtree(tmp_path / "data")
    journal.write(1, "first", "new", "newer")
    journal.take(end)
    journal.take()
    assert journal.read == [(".~2", "first"), (".~2", "new"), (".~2", "newer")]


def test_long_last_line_that_was_already_read_is_recognised(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for line in ("a" * 5_000, "b" * 4_096, "c" * 4_097, "", "d"):
        journal.write(1, line)
        journal.take()
    assert journal.lines() == ["a" * 5_000, "b" * 4_096, "c" * 4_097, "", "d"]


def test_stream_resumes_from_an_offset_without_line_end_lengths(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1, "a", "b")
    journal.take()
    journal.offset = {key: reached[:3] for key, reached in journal.offset.items()}
    journal.write(1, "c")
    journal.take()
    assert journal.lines() == ["a", "b", "c"]


def test_recreated_cluster_after_rotation_is_a_new_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in (1, 2, 3):
        journal.write(number, f"old {number}")
        journal.take()
    journal.remove(1)
    journal.remove(2)
    for _ in range(2):
        journal.take()
    assert list(journal.offset) == [NAME.format(3)]
    journal.remove(3)
    journal.write(1, "new")
    journal.take()
    journal.write(2, "newer")
    journal.take()
    assert journal.lines(".~2") == ["new", "newer"]


def test_nodes_of_a_recreated_cluster_belong_to_one_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for life in range(1, 4):
        for node in ("peer-1", "broker-1"):
            journal.write(1, f"{node} {life}", node=node)
            journal.take()
        journal.write(2, f"later {life}")
        journal.take()
        shutil.rmtree(tmp_path / "data")
        assert journal.lines("." if life == 1 else f".~{life}") == [
            f"peer-1 {life}", f"broker-1 {life}", f"later {life}"
        ]  # fmt: skip


def test_planned_lines_are_read_after_the_cluster_is_recreated(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1, "old first")
    journal.take()
    journal.write(1, "old second")
    end = journal.plan()
    shutil.rmtree(tmp_path / "data")
    journal.write(1, "new and of another length")
    journal.write(2, "new second")
    # The first attempt dies after it has written the offsets and before it has written the lines.
    journal.take(end, die=True)
    for _ in range(3):
        journal.take(end)
        end = journal.plan()
    assert journal.lines() == ["old first", "old second"]
    assert journal.lines(".~2") == ["new and of another length", "new second"]
    journal.take(end)
    assert sorted(file.path.name[-10:] for file in journal_files(tmp_path / "_held")) == ["0001.jsonl", "0002.jsonl"]


def test_empty_open_file_does_not_hide_a_new_file_of_that_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1)
    journal.take()
    shutil.rmtree(tmp_path / "data")
    journal.write(1, "a")
    journal.take()
    assert journal.lines() == ["a"]


def test_file_recreated_after_planning_is_a_new_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path, hold=False)
    journal.write(1, "old first", "old second")
    end = journal.plan()
    shutil.rmtree(tmp_path / "data")
    journal.write(1, "new", "newer", "newest")
    journal.take(end)
    journal.take()
    assert journal.read == [(".~2", "new"), (".~2", "newer"), (".~2", "newest")]


def test_incomplete_line_and_empty_file_are_read_later(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(1)
    path = tmp_path / "data" / NAME.format(1)
    for text in ("a", "b\n", "c"):
        with path.open("a") as file:
            file.write(text)
        journal.take()
    assert journal.lines() == ["ab"]


def test_file_deleted_during_planning_does_not_end_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, hold=False)
    journal.write(1, "a")
    journal.take()
    journal.write(1, "never read")
    journal.write(4, "b")
    gone = tmp_path / "data" / NAME.format(1)
    reads = complete_bytes

    def without(path: Path, begin: int = 0) -> int:
        # The node deletes its oldest file after the stream has read the first line and before it reads the rest.
        gone.unlink(missing_ok=True)
        return reads(path, begin)

    monkeypatch.setattr("zabka.pipeline.positions.complete_bytes", without)
    journal.take()
    journal.take()
    assert journal.lines() == ["a", "b"]


def test_deleted_long_file_becomes_one_input_split_without_rows(tmp_path: Path) -> None:
    gone = FileRange(".", str(tmp_path / "gone.jsonl"), 0, 10 * SHARE_BYTES)
    (share,) = shares([gone], None)
    assert share.ranges == [gone]
    assert list(read_share(share)) == []
