"""The lines of a lake that the driver keeps in memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zabka.journal import events as e
from zabka.journal.writer import encode_line
from zabka.pipeline.lake.commits import Commit
from zabka.pipeline.lake.needed import Needed
from zabka.pipeline.lake.writer import QUARANTINED
from zabka.pipeline.ranges import ARROW_SCHEMA


def committed(lake: Path, batch: int, **rows: list[dict[str, Any]]) -> Commit:
    """Write the files of a batch with these rows of each event type, and return its commit."""
    files = {f"bronze/type={kind}/day=2026-01-01/batch-{batch}.parquet": some for kind, some in rows.items()}
    for name, some in files.items():
        (lake / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(some, ARROW_SCHEMA).drop_columns(["type"]), lake / name)
    counts = {name: len(some) for name, some in files.items()}
    return Commit(batch=batch, files=counts, lines=[], quarantined=0, latest_us=0)


def test_only_the_latest_line_of_other_event_types_is_kept(tmp_path: Path) -> None:
    needed = Needed(tmp_path, ["wanted"])
    entry = {"run": "r", "node": "n", "node_seq": 1, "wall_us": 5, "mono_us": 5, "body": "{}"}
    aside = {"run": "r", "file": "f", "position": 3, "problem": "no entry", "body": "x"}
    readings = [(70, 10), (60, 30), (50, 20)]
    others = [{**entry, "wall_us": wall, "mono_us": mono} for wall, mono in readings]
    needed.add_commit(committed(tmp_path, 0, wanted=[entry], other=others[:1], **{QUARANTINED: [aside]}))
    needed.add_commit(committed(tmp_path, 1, other=[*others[1:], {**entry, "run": "s"}]))
    found = [
        (row["run"], row["type"], row["wall_us"], row["mono_us"], row["problem"]) for row in needed.rows().to_pylist()
    ]
    assert found == [
        ("r", "wanted", 5, 5, None), ("r", None, None, None, "no entry"),
        ("r", "latest", 70, 10, None), ("r", "latest", 60, 30, None),
        ("s", "latest", 5, 5, None), ("s", "latest", 5, 5, None),
    ]  # fmt: skip
    again = Needed(tmp_path, ["wanted"])
    again.load_lake(needed.rows())
    assert again.rows().to_pylist() == needed.rows().to_pylist()


def line(run: str, node: str, at: int, body: str = "{}") -> dict[str, Any]:
    return {"run": run, "node": node, "node_seq": at, "wall_us": at, "mono_us": at, "body": body}


def pause(run: str, node: str, at: int) -> dict[str, Any]:
    return line(
        run, "world", at, encode_line("world", at, at, at, e.FaultInjected("f", "pause", node, node, False)).decode()
    )


def kept_lines(needed: Needed) -> list[tuple[str, str, int]]:
    return sorted(
        (row["run"], row["node"], row["node_seq"]) for row in needed.rows().to_pylist() if row["type"] == "word"
    )


def test_last_line_before_start_and_first_after_pause_are_kept(tmp_path: Path) -> None:
    needed = Needed(tmp_path, ["fault_injected", "node_started"])
    needed.add_commit(committed(tmp_path, 0, fault_injected=[pause("r", "n", 10)], other=[line("r", "n", 9)]))
    assert kept_lines(needed) == []
    others = [line("r", "n", 14), line("r", "n", 12), line("s", "n", 11), line("r", "m", 11)]
    needed.add_commit(committed(tmp_path, 1, other=others, another=[line("r", "n", 13)]))
    assert kept_lines(needed) == [("r", "n", 12)]
    needed.add_commit(committed(tmp_path, 2, node_started=[line("r", "n", 20)], other=[line("r", "n", 21)]))
    assert kept_lines(needed) == [("r", "n", 12), ("r", "n", 14)]
    needed.add_commit(committed(tmp_path, 3, node_started=[line("r", "n", 30), line("r", "m", 30)]))
    assert kept_lines(needed) == [("r", "m", 11), ("r", "n", 12), ("r", "n", 14), ("r", "n", 21)]


def test_node_pauses_in_past_batches_do_not_slow_new_commits(tmp_path: Path) -> None:
    needed = Needed(tmp_path, ["fault_injected"])
    pauses = [pause(f"seed-{run}", f"broker-{broker}", 10) for run in range(1000) for broker in (1, 2)]
    needed.add_commit(committed(tmp_path, 0, fault_injected=pauses))
    others = {f"kind-{number}": [line("seed-1000", "broker-1", 5)] for number in range(40)}
    begin = time.process_time()
    needed.add_commit(committed(tmp_path, 1, **others))
    # Before the fix, each file was searched for each pause, which took twenty seconds.
    assert time.process_time() - begin < 4


def test_repeated_replica_progress_reports_are_dropped(tmp_path: Path) -> None:
    """The driver keeps only those progress reports of a replica that it needs.

    As long as the reported values of a role do not decrease, the first and the last report are sufficient. This also
    holds across batches.
    """

    def report(at: int, *rows: tuple[str, int]) -> dict[str, Any]:
        event = e.ReplicaProgressed(1, [(topic, 0, mark, 99) for topic, mark in rows])
        return line("r", "broker-1", at, encode_line("broker-1", at, at, at, event).decode())

    taken = e.FollowershipTaken(1, "t", 0, leader=2, leader_epoch=7, log_end_offset=9)
    role = line("r", "broker-1", 8, encode_line("broker-1", 8, 8, 8, taken).decode())
    needed = Needed(tmp_path, ["replica_progressed", "followership_taken"])
    reports = [report(1, ("t", 40)), report(2, ("t", 9)), report(3, ("t", 9)), report(4, ("t", 15), ("u", 1))]
    needed.add_commit(committed(tmp_path, 0, replica_progressed=reports))
    more = [report(5, ("t", 15)), report(6, ("t", 17)), report(7, ("u", 2)), report(9, ("t", 3))]
    needed.add_commit(committed(tmp_path, 1, replica_progressed=more, followership_taken=[role]))
    rows = needed.rows().to_pylist()
    assert [row["node_seq"] for row in rows if row["type"] == "replica_progressed"] == [1, 2, 4, 6, 7, 9]
    # Rows of the type `latest` contain the time of the node's last event.
    assert [row["wall_us"] for row in rows if row["type"] == "latest"] == [9, 9]
    again = Needed(tmp_path, ["replica_progressed", "followership_taken"])
    again.load_lake(needed.rows())
    assert sorted(map(str, again.rows().to_pylist())) == sorted(map(str, rows))
