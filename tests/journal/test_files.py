"""The journal's files: all written events can be read, whatever a crash has left at the end of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.journal.full_disk import no_file_grows_beyond
from zabka.journal import events as e
from zabka.journal import writer as writer_module
from zabka.journal.events import BY_NAME, Entry, entry_from_dict, type_name
from zabka.journal.reader import BadLine, merge, node_files, read_directory, read_file
from zabka.journal.writer import JournalWriter, encode_line


def writer(directory: Path, **options: object) -> JournalWriter:
    ticks = iter(range(1, 1_000_000))
    return JournalWriter(directory, "peer-1", clocks=lambda: (next(ticks), 7), **options)  # type: ignore[arg-type]


def test_journal_event_reads_back_as_written(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    events = [
        e.EpochAccepted(3),
        e.ReplicaProgressed(1, [("orders", 0, 5, 7)]),
        e.ConfigChanged("topics/a", {"k": "v"}),
    ]
    for event in events:
        journal.write(event)
    journal.close()
    entries = list(read_directory(tmp_path))
    assert [entry.event for entry in entries] == events
    assert [entry.node_seq for entry in entries] == [1, 2, 3]


def test_journal_line_is_flat_json_with_the_envelope_first(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    journal.write(e.ControllerElected(1, 3, 3))
    journal.close()
    line = json.loads(node_files(tmp_path)[0].read_text())
    assert list(line)[:6] == ["schema", "node", "node_seq", "wall_us", "mono_us", "type"]
    assert line["type"] == "controller_elected"
    assert line["controller_epoch"] == 3


def test_detailed_events_are_written_only_at_the_full_level(tmp_path: Path) -> None:
    for full, expected in ((False, 0), (True, 1)):
        journal = writer(tmp_path / str(full), full=full)
        journal.write(e.TxnLogged(5))
        journal.close()
        assert len(list(read_directory(tmp_path / str(full)))) == expected


def test_node_sequence_numbers_continue_after_a_restart(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        journal = writer(tmp_path)
        journal.write(e.EpochAccepted(expected))
        journal.close()
    assert [entry.node_seq for entry in read_directory(tmp_path)] == [1, 2, 3]


def test_file_copied_into_the_journal_directory_is_ignored(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    journal.write(e.EpochAccepted(1))
    journal.close()
    (own,) = node_files(tmp_path)
    (tmp_path / "peer-1.20261124-old.jsonl").write_bytes(own.read_bytes())
    assert node_files(tmp_path, "peer-1") == [own]
    journal = writer(tmp_path)
    journal.write(e.EpochAccepted(2))
    journal.close()
    assert [entry.node_seq for entry in read_directory(tmp_path)] == [1, 2]


def test_incomplete_last_line_is_skipped_after_a_restart(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    journal.write(e.EpochAccepted(1))
    journal.write(e.EpochAccepted(2))
    journal.close()
    path = node_files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-9])
    assert [entry.event for entry in read_file(path)] == [e.EpochAccepted(1)]
    again = writer(tmp_path)
    again.write(e.EpochAccepted(9))
    again.close()
    bad: list[BadLine] = []
    assert [entry.event for entry in read_directory(tmp_path, bad)] == [e.EpochAccepted(1), e.EpochAccepted(9)]
    assert [line.number for line in bad] == [2]


@pytest.mark.parametrize(
    "line",
    [
        b"{}", b"null", b"not json", b'{"type":"nonsense"}', b'{"type":"epoch_accepted"}', b"\xff\xfe",
        encode_line("peer-1", 1, 1, 1, e.EpochAccepted(2**64))[:-1],
        encode_line("peer-1", 1, 2**53 + 1, 1, e.EpochAccepted(1))[:-1],
        encode_line("peer-1", 1, 1, 1, e.EpochAccepted(1))[:-1].replace(b'"schema":1', b'"schema":2'),
        encode_line("peer-1", 1, 1, 1, e.EpochAccepted(1))[:-1].replace(b'"schema":1', b'"schema":"1"'),
        encode_line("peer-1", 1, 1, 1, e.IsrChanged("t", 0, [-(2**63) - 1], 1, 1, 1, "lag"))[:-1],
    ],
)  # fmt: skip
def test_invalid_journal_line_is_set_aside_with_its_reason(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "x-1.000000000001.jsonl").write_bytes(line + b"\n")
    bad: list[BadLine] = []
    assert list(read_directory(tmp_path, bad)) == []
    assert len(bad) == 1 and bad[0].reason


def test_rotated_journal_files_are_limited_and_have_no_gaps(tmp_path: Path) -> None:
    journal = writer(tmp_path, file_bytes_max=500, files_max=3)
    for number in range(100):
        journal.write(e.EpochAccepted(number))
        journal.flush()
    journal.close()
    files = node_files(tmp_path)
    assert len(files) == 3
    kept = [entry.node_seq for entry in read_directory(tmp_path)]
    assert kept == list(range(kept[0], 101))


def test_merge_keeps_the_order_of_a_node_if_its_clock_steps_back() -> None:
    a = [Entry("a", n, wall, 0, e.EpochAccepted(n)) for n, wall in ((1, 10), (2, 5), (3, 20))]
    b = [Entry("b", 1, 7, 0, e.EpochAccepted(1)), Entry("b", 2, 15, 0, e.EpochAccepted(2))]
    merged = [(entry.node, entry.node_seq) for entry in merge([*a, *b])]
    assert merged == [("b", 1), ("a", 1), ("a", 2), ("b", 2), ("a", 3)]


@pytest.mark.parametrize("name", BY_NAME)
def test_event_type_has_a_docstring_and_survives_a_round_trip(name: str) -> None:
    kind = BY_NAME[name]
    assert kind.__doc__
    sample = {"int": 1, "str": "x", "bool": True}
    values = {
        field.name: sample.get(str(getattr(field.type, "__name__", "")))
        for field in __import__("msgspec").structs.fields(kind)
    }
    for field in __import__("msgspec").structs.fields(kind):
        text = str(field.type)
        if values[field.name] is None and "None" not in text:
            values[field.name] = {} if text.startswith("dict") else []
    event = kind(**values)
    entry = Entry("peer-1", 1, 2, 3, event)
    assert type_name(event) == name
    assert entry_from_dict(json.loads(json.dumps(entry.to_dict()))) == entry


def test_journal_events_wait_in_memory_while_the_disk_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = writer(tmp_path)
    with no_file_grows_beyond(1_000):
        for epoch in range(50):
            journal.write(e.EpochAccepted(epoch))
            journal.flush()
    assert node_files(tmp_path)[0].stat().st_size == 1_000
    journal.write(e.EpochAccepted(50))
    journal.close()

    bad: list[BadLine] = []
    assert [entry.event for entry in read_directory(tmp_path, bad)] == [e.EpochAccepted(n) for n in range(51)]
    assert bad == []
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        "journal of peer-1: File too large; events wait until it can go on",
        "journal of peer-1: it goes on",
    ]


def test_oldest_unwritten_events_are_dropped_as_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer_module, "WAITING_BYTES_MAX", 5_000)
    full = writer(tmp_path)
    with no_file_grows_beyond(1_000):
        for epoch in range(500):
            full.write(e.EpochAccepted(epoch))
            full.flush()
    full.close()

    bad: list[BadLine] = []
    epochs = [entry.node_seq for entry in read_directory(tmp_path, bad)]
    assert bad == [] and epochs == sorted(set(epochs))
    assert epochs[0] == 1 and epochs[-1] == 500 and 30 <= len(epochs) <= 80
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1] == f"journal of peer-1: it goes on, without {500 - len(epochs)} events that were lost"


def test_exit_with_a_full_disk_reports_the_lost_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that exits while the disk is full reports the events that it could not write.

    The next writer of the journal begins on a new line.
    """
    full = writer(tmp_path)
    with no_file_grows_beyond(1_000):
        for epoch in range(100):
            full.write(e.EpochAccepted(epoch))
            full.flush()
        full.close()
    torn = node_files(tmp_path)[0].read_bytes()
    whole = torn.count(b"\n")
    assert len(torn) == 1_000 and not torn.endswith(b"\n")
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1] == f"journal of peer-1: it ends, without {100 - whole} events that were lost"
    again = writer(tmp_path)
    again.write(e.EpochAccepted(7_000))
    again.close()
    bad: list[BadLine] = []
    numbers = [entry.node_seq for entry in read_directory(tmp_path, bad)]
    assert numbers == list(range(1, whole + 2))
    assert [line.number for line in bad] == [whole + 1]
