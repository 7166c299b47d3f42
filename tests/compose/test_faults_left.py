"""Link faults that an agent's earlier life left in its journal."""

from __future__ import annotations

from pathlib import Path

from compose.faults_left import faults_left
from journal.events import Event, FaultInjected, FaultRemoved, ProcessChanged
from journal.writer import encode_line


def cut(fault_id: str) -> FaultInjected:
    return FaultInjected(fault_id, "cut", "peer-1", "peer-2", True)


def tell(directory: Path, file: int, *events: Event) -> None:
    lines = [encode_line("host-1", file * 10 + n, n, n, event) for n, event in enumerate(events)]
    (directory / f"host-1.{file:012}.jsonl").write_bytes(b"".join(lines) + b'{"torn')


def test_they_are_those_that_were_told_of_and_not_ended_in_whatever_file(tmp_path: Path) -> None:
    tell(tmp_path, 1, cut("f1"), cut("f2"), cut("f3"), ProcessChanged("peer-1", "paused", 7, "pause"))
    tell(tmp_path, 2, FaultRemoved("f2"), cut("f4"), FaultRemoved("f1"), cut("f1"))
    assert faults_left(tmp_path, "host-1") == ["f3", "f4", "f1"]


def test_a_host_that_never_ran_has_left_none(tmp_path: Path) -> None:
    assert faults_left(tmp_path / "none", "host-1") == []
