"""Validation of journal lines: valid lines become entries, and all others are quarantined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.journal.writer import encode_line
from zabka.pipeline import jobs
from zabka.pipeline.entries import ENTRIES, LINE_BYTES_MAX, Refused, check_line, check_lines
from zabka.pipeline.gold import TABLES
from zabka.pipeline.ranges import FileRange, read_range, read_share, shares

HEAD = b'{"schema":1,"node":"peer-1","node_seq":1,"wall_us":1,"mono_us":1,'
POISON = {
    "a number of 2^63": (HEAD + b'"type":"epoch_accepted","accepted_epoch":9223372036854775808}', "beyond 64 bits"),
    "a number beyond all": (HEAD + b'"type":"epoch_accepted","accepted_epoch":' + b"1" * 5000 + b"}", "range"),
    "a lone surrogate": (HEAD + b'"type":"node_stopped","reason":"\\ud800"}', ""),
    "a lone surrogate as node": (
        HEAD.replace(b"peer-1", b"\\udfff") + b'"type":"node_stopped","reason":""}',
        "surrogate",
    ),
    "a NUL in a text": (HEAD + b'"type":"node_stopped","reason":"\x00"}', "malformed"),
    "NULs alone, as power losses leave them": (b"\x00" * 4096, "malformed"),
    "100,000 brackets": (HEAD + b'"type":"node_stopped","reason":"","x":' + b"[" * 100_000, "deeply"),
    "100,000 brackets in pairs": (
        HEAD + b'"type":"node_stopped","reason":"","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "deeply",
    ),
    "501 brackets": (HEAD + b'"type":"node_stopped","reason":"","x":' + b"[" * 500 + b"]" * 500 + b"}", "deeply"),
    "an unknown field with a number of 1,001 digits": (
        HEAD + b'"type":"node_stopped","reason":"","x":' + b"7" * 1_001 + b"}",
        "a number of 1,001 characters",
    ),
    "an unknown field with a fraction of megabytes": (
        HEAD + b'"type":"node_stopped","reason":"","x":[{"y":-0.' + b"7" * 3_000_000 + b"}]}",
        "a number of 3,000,003 characters",
    ),
    "an unknown field with a name of 50,010 bytes": (
        HEAD + b'"type":"node_stopped","reason":"","x":{"' + b"n" * 50_008 + b'\\"" :1}}',
        "a field's name of 50,010 bytes",
    ),
    "no UTF-8": (HEAD + b'"type":"node_stopped","reason":"\xff"}', "no UTF-8 at byte 97"),
    "an unknown type": (HEAD + b'"type":"weather_changed"}', "unknown type 'weather_changed'"),
    "a newer schema": (
        HEAD.replace(b":1,", b":2,", 1) + b'"type":"node_stopped","reason":""}',
        "schema 2 is newer than 1",
    ),
    "a wall clock of 290,000 years": (
        HEAD.replace(b'"wall_us":1', b'"wall_us":9223372036854775807') + b'"type":"node_stopped","reason":""}',
        "wall_us has a number beyond any clock",
    ),
    "a monotonic clock of as many": (
        HEAD.replace(b'"mono_us":1', b'"mono_us":-9223372036854775808') + b'"type":"node_stopped","reason":""}',
        "mono_us has a number beyond any clock",
    ),
    "a field too few": (HEAD + b'"type":"node_stopped"}', "missing required field `reason`"),
    "no object": (b"[]", "Expected `object`"),
    "an empty line": (b"", ""),
}
AT_THE_BOUNDS = [
    # A string may be as long as a line. Characters in it that have a meaning in JSON must be ignored.
    HEAD + b'"type":"node_stopped","reason":"\\\\","x":"' + b'\\":[{1' * 99_999 + b'","y":"' + b"1" * 60_000 + b'"}',
    HEAD + b'"type":"node_stopped","reason":"","x":' + b"[" * 499 + b"1" * 1_000 + b"]" * 499 + b"}",
    HEAD + b'"type":"node_stopped","reason":"","x":[' + b"[]," * 1_000 + b'1],"' + b"n" * 50_000 + b'":1}',
]


@pytest.mark.parametrize("name", POISON)
def test_invalid_journal_line_is_rejected_with_its_reason(name: str) -> None:
    line, reason = POISON[name]
    found = check_line(line)
    assert isinstance(found, Refused)
    assert reason in found.reason


@pytest.mark.parametrize(
    "line",
    [
        HEAD + '"type":"node_stopped","reason":"\u2028\u2029\x85"}'.encode(),
        HEAD + b'"type":"node_stopped","reason":"\\u0000\\ud83d\\ude00"}',
        HEAD + b'"type":"epoch_accepted","accepted_epoch":9223372036854775807}',
        *AT_THE_BOUNDS,
        # The digest of a tree is an unsigned 64-bit number.
        HEAD + b'"type":"zxid_checkpoint","zxid":1,"digest":18446744073709551615,"znodes":1,"sessions":1}',
    ],
)
def test_unusual_but_valid_journal_line_is_accepted(line: bytes) -> None:
    assert type(check_line(line)) in ENTRIES.values()
    assert check_lines([line]) == [check_line(line)]


def test_spark_parses_exactly_the_lines_within_the_limits(spark: SparkSession) -> None:
    """Spark's JSON parser accepts exactly the lines within our limits.

    If a longer line were accepted, Spark would return a row of nulls for it.
    """
    beyond = [line for name, (line, _) in POISON.items() if name.startswith("an unknown field")]
    rows = spark.createDataFrame([(line.decode(),) for line in [*AT_THE_BOUNDS, *beyond]], "body string")
    found = [row[0]["node"] for row in rows.select(f.from_json("body", "node string")).collect()]
    assert found == ["peer-1"] * len(AT_THE_BOUNDS) + [None] * len(beyond)


def test_line_of_50_mb_is_quarantined_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "peer-1.000000000001.jsonl"
    long = HEAD + b'"type":"node_stopped","reason":"' + b"x" * 50_000_000 + b'"}\n'
    whole = HEAD + b'"type":"epoch_accepted","accepted_epoch":1}\n'
    path.write_bytes(long + whole)
    first, second = read_range(FileRange(".", str(path), 0, len(long) + len(whole)))
    assert first[9] == f"a line of {len(long):,} bytes"
    assert len(first[6]) < LINE_BYTES_MAX
    assert (second[5], second[8], second[9]) == ("epoch_accepted", len(long), None)


def test_unreadable_file_gives_an_error_row_but_deleted_one_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "peer-1.000000000001.jsonl"
    assert list(read_range(FileRange(".", str(path), 0, 10))) == []
    path.write_bytes(b"{}\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    (row,) = read_range(FileRange(".", str(path), 0, 3))
    assert (row[7], row[8], row[9]) == (path.name, 0, f"the file cannot be read: {path}: Permission denied")


def test_directory_without_journals_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.read.format("zabka-journal").load(str(tmp_path)).collect() == []


def test_latest_entry_before_1970_is_found_after_an_invalid_line(tmp_path: Path) -> None:
    head = '{"node":"peer-1","node_seq":1,"wall_us":%d,"mono_us":%d,"type":"node_stopped","reason":""}\n'
    readings = [(-9, -9), (-5, -7), (-6, -8), (-8, -9)]
    (path := tmp_path / "a.jsonl").write_text("no entry\n" + "".join(head % clocks for clocks in readings))
    rows = read_range(FileRange(".", str(path), 0, path.stat().st_size), frozenset())
    # The file's first and last entries are returned as the first and last entries of the node.
    assert [(row[3], row[4]) for row in rows] == [(None, None), (-9, -9), (-5, -7), (-8, -9)]


def test_lines_that_show_when_a_node_ran_are_always_kept(tmp_path: Path) -> None:
    def add_line(node: str, event: Event) -> None:
        lines.append(encode_line(node, len(lines), 0, 0, event))

    lines: list[bytes] = []
    accepted, start = e.EpochAccepted(1), e.NodeStarted("broker", 1, {})
    for node in ("broker-1", "broker-1", "broker-2", "broker-1", "broker-2"):
        add_line(node, accepted)
    add_line("broker-1", start)
    add_line("world", e.FaultInjected("f", "pause", "broker-2", "broker-2", False))
    for node in ("broker-1", "broker-2", "broker-1", "broker-2", "broker-1", "broker-2"):
        add_line(node, accepted)
    (path := tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    rows = read_range(FileRange(".", str(path), 0, path.stat().st_size), frozenset())
    # For each broker: its first line (0, 2), its last line (11, 12), its last line before a start, and its first line
    # after a pause. For the world: its only line.
    assert [row[2] for row in rows] == [0, 2, 3, 6, 8, 11, 12]


def test_file_is_split_at_line_ends_and_each_line_is_read_once(tmp_path: Path) -> None:
    line = HEAD + b'"type":"epoch_accepted","accepted_epoch":1}\n'
    count = 40_000_000 // len(line)
    path, short = tmp_path / "peer-1.000000000001.jsonl", tmp_path / "peer-2.000000000001.jsonl"
    path.write_bytes(line * count)
    short.write_bytes(line)
    ranges = [FileRange(".", str(file), 0, file.stat().st_size) for file in (path, short)]
    made = shares(ranges, frozenset())
    assert len(made) == 3
    # All lines have types that are omitted. So each of the six 8 MiB blocks returns only the first line of the node
    # (which is also the latest) and its last line. The short file returns its only line.
    assert sum(batch.num_rows for share in made for batch in read_share(share)) == 13
    assert sum(batch.num_rows for part in shares(ranges, None) for batch in read_share(part)) == count + 1
    assert sum(part.end - part.begin for share in made for part in share.ranges) == (count + 1) * len(line)


@pytest.mark.long
def test_invalid_journal_lines_are_counted_with_their_position(
    spark: SparkSession, history: Any, outage: Any, tmp_path: Path
) -> None:
    outage(history)
    path = history.directory / "peer-3.000000000001.jsonl"
    types = ("controller_elected", "leader_elected", "session_closed")
    beyond = [HEAD + b'"type":"%s","zxid":9223372036854775808}' % name.encode() for name in types]
    lines = [line + b"\n" for line in [*(line for line, _ in POISON.values()), *beyond]]
    path.write_bytes(b"".join(lines))
    counts = jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "out").rows
    assert counts["bad_lines"] == len(lines)
    assert (counts["controller_terms"], counts["partition_leaderships"]) == (2, 3)
    aside = spark.read.parquet(str(tmp_path / "out" / "bad_lines")).collect()
    assert [row["position"] for row in aside] == [sum(map(len, lines[:n])) for n in range(len(lines))]
    assert all(row["problem"] and row["file"] == path.name for row in aside)


def test_unparsable_or_too_large_numbers_become_null(
    spark: SparkSession, history: Any, outage: Any, tmp_path: Path
) -> None:
    outage(history)
    most = 2**63 - 1
    history.write("broker-2", e.ConfigChanged("topics/t", {"min.insync.replicas": "many"}))
    history.write("host-1", e.ProcessChanged("broker-x", "down", None, "kill"))
    history.write("host-1", e.ProcessChanged(f"broker-{10 * most}", "down", None, "kill"))
    history.write("broker-2", e.RecordsLost(2, "t", 0, 0, most, 1, 0, "log"))
    history.write("broker-2", e.RecordsLost(2, "t", 0, 5, most, 1, 0, "log"))
    history.write("broker-2", e.RecordsLost(2, "u", 0, 3, 4, 2, 0, "log"))
    history.write("api", e.WorkloadProgressed("1", "t", most, most, most, 0))
    history.write("api", e.WorkloadProgressed("2", "t", 4, 2, 2, 0, "1", running_ms=4_000, waited_ms=2_000))
    history.write("broker-2", e.ControllerReady(2, 2, most, most))
    history.write("broker-2", e.ControllerPropagated(2, 2, 3, 500))
    names = ("availability", "client_availability", "failovers", "records_lost")
    selected = [table for table in TABLES if table.name in names]
    written = jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "out", wanted=selected)
    assert written.broken == {}
    written_rows = {name: pq.read_table(tmp_path / "out" / name).to_pylist() for name in names}
    assert [row["under_min_isr_ms"] for row in written_rows["availability"]] == [0]
    assert sorted((row["topic"], row["count"]) for row in written_rows["records_lost"]) == [("t", None), ("u", 2)]
    assert sorted((row["workload_id"], row["share"]) for row in written_rows["client_availability"]) == [
        ("1", None),
        ("2", 0.5),
    ]
    # The 16,000 ms before the decisions are computed from clocks, not from the durations in the event.
    assert [(row["read_ms"], row["total_ms"]) for row in written_rows["failovers"]] == [(most, 16_500)]
