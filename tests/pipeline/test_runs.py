"""Journals of several runs in one directory: how they are grouped into runs, and how copies are detected."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.pipeline.in_order import rows_of
from zabka.journal import events as e
from zabka.pipeline import jobs, tables
from zabka.pipeline.availability import availability
from zabka.pipeline.controller_terms import controller_terms
from zabka.pipeline.runs import journal_files, without_copies


def write(path: Path, content: bytes = b"{}\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def runs(root: Path) -> list[str]:
    return [file.run for file in journal_files(root)]


def test_journals_of_a_cluster_directory_belong_to_one_run(tmp_path: Path) -> None:
    write(tmp_path / "peer-1/journal/peer-1.000000000001.jsonl")
    write(tmp_path / "broker-1/journal/broker-1.000000000001.jsonl")
    write(tmp_path / "older/broker-1/journal/broker-1.000000000001.jsonl")
    write(tmp_path / "loose/broker-1.000000000001.jsonl")
    write(tmp_path / "loose/seed-7.jsonl")
    assert runs(tmp_path) == [".", "loose", "loose/seed-7.jsonl", "older", "."]
    assert runs(tmp_path / "loose" / "seed-7.jsonl") == ["seed-7.jsonl"]


def test_journal_of_the_api_is_part_of_its_clusters_run(tmp_path: Path) -> None:
    write(tmp_path / "api/journal/api.000000000001.jsonl")
    write(tmp_path / "api/journal/api.000000009001.jsonl")
    write(tmp_path / "peer-1/journal/peer-1.000000000001.jsonl")
    assert runs(tmp_path) == [".", ".", "."]


def test_run_with_a_copy_is_counted_once_with_the_longer_files(tmp_path: Path) -> None:
    write(tmp_path / "a/peer-1/journal/peer-1.000000000001.jsonl", b"1\n2\n3\n")
    write(tmp_path / "a/peer-1/journal/peer-1.000000000004.jsonl", b"4\n")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    write(tmp_path / "b/peer-1/journal/peer-1.000000000004.jsonl", b"4\n5\n")
    write(tmp_path / "seed-1.jsonl", b"x\n")
    write(tmp_path / "c/again.jsonl", b"x\n")
    kept = without_copies(journal_files(tmp_path))
    assert [(file.run, file.path.read_bytes()) for file in kept] == [
        ("a", b"1\n2\n3\n"),
        ("a", b"4\n5\n"),
        ("c/again.jsonl", b"x\n"),
    ]


def test_runs_that_diverge_after_a_common_start_are_two_runs(tmp_path: Path) -> None:
    for run, last in (("a", b"4\n"), ("b", b"5\n")):
        write(tmp_path / run / "peer-1.000000000001.jsonl", b"1\n2\n3\n")
        write(tmp_path / run / "peer-1.000000000004.jsonl", last)
    assert [file.run for file in without_copies(journal_files(tmp_path))] == ["a", "a", "b", "b"]


def test_controller_terms_of_two_clusters_are_independent(spark: SparkSession, history: Any, tmp_path: Path) -> None:
    history.write("broker-1", e.ControllerElected(1, 1, 1, 5))
    shutil.copytree(history.directory, tmp_path / "both" / "a")
    shutil.copytree(history.directory, tmp_path / "both" / "copy-of-a")
    history.write("broker-2", e.ControllerElected(2, 2, 2, 9))
    shutil.copytree(history.directory / "broker-2", tmp_path / "both" / "b" / "broker-2")
    found = rows_of(jobs.read_journal(spark, tmp_path / "both"), controller_terms)
    assert [(row["run"], row["broker_id"], row["to_us"]) for row in found] == [("a", 1, None), ("b", 2, None)]


def test_recreated_partition_is_counted_separately(spark: SparkSession, history: Any) -> None:
    def elected(leader: int, epoch: int, zxid: int) -> e.LeaderElected:
        return e.LeaderElected("t", 0, leader, epoch, [leader], [1, 2], epoch, 1, False, "offline", zxid)

    history.write("broker-1", elected(1, 0, 5))
    history.write("broker-1", elected(2, 1, 6))
    history.write("broker-1", e.TopicDeleted("t"))
    history.write("broker-1", elected(1, 0, 9))
    # This event is a late repetition. It must not change the times at which states were written.
    history.write("broker-2", elected(2, 1, 6))
    journal = jobs.read_journal(spark, history.directory)
    spans = rows_of(journal, tables.partition_leaderships)
    assert [(row["life"], row["leader"], row["leader_epoch"], row["duration_ms"]) for row in spans] == [
        (0, 1, 0, 1_000),
        (0, 2, 1, 1_000),
        (1, 1, 0, None),
    ]
    assert [(row["life"], row["isr_before"], row["isr"]) for row in rows_of(journal, tables.isr_changes)] == [
        (0, [], [1]),
        (0, [1], [2]),
        (1, [], [1]),
    ]
    (share,) = rows_of(journal, availability)
    # The five lines are one second apart: the topic existed for two seconds before its deletion, and for one second
    # after it was created again.
    assert share["observed_ms"] == 3_000


def test_event_written_twice_is_counted_once(spark: SparkSession, history: Any) -> None:
    history.write("broker-1", e.ProcessChanged("broker-1", "down", None, "kill"))
    path = history.directory / "broker-1" / "journal" / "broker-1.000000000001.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    # After the loss of its journal, a node numbers its events from one again. So this is a different event.
    history.write("broker-2", e.ProcessChanged("broker-1", "running", 7, "start"))
    (history.directory / "broker-1.000000000001.jsonl").write_bytes(
        (history.directory / "broker-2" / "journal" / "broker-2.000000000001.jsonl")
        .read_bytes()
        .replace(b'"broker-2"', b'"broker-1"')
    )
    rows = jobs.read_journal(spark, history.directory).rows.where("node = 'broker-1'").collect()
    assert sorted((row["run"], row["node_seq"], row["wall_us"]) for row in rows) == [
        (".", 1, 1_000_000),
        (".", 1, 2_000_000),
    ]
