"""The tables, from journals as nodes write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from journal import events as e
from pipeline import jobs, tables
from pipeline.availability import availability
from pipeline.gold import NAMES
from pipeline.rows import Journal
from tests.pipeline.in_order import told

PAGE = Path(__file__).resolve().parents[2] / "api/web/views/journal.js"


def rows(spark: SparkSession, history: Any, build: Callable[[Journal], DataFrame]) -> list[dict[str, Any]]:
    return [row.asDict() for row in told(jobs.read_journal(spark, history.directory), build)]


def test_the_page_offers_every_table_but_that_of_bad_lines() -> None:
    (listed,) = re.findall(r"^const TABLES = (\[.*\]);$", PAGE.read_text(), re.MULTILINE)
    assert json.loads(listed) == [name for name in NAMES if name != "bad_lines"]


def test_a_reign_ends_when_the_session_that_held_controller_is_closed(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    first, second = rows(spark, history, tables.controller_reigns)
    assert (first["broker_id"], first["controller_epoch"], first["ended_by"]) == (1, 1, "session_closed")
    assert (first["from_us"], first["to_us"]) == (1_000_000, 4_000_000)
    assert (second["broker_id"], second["to_us"], second["gap_before_ms"]) == (2, None, 2_000)


def test_a_resignation_ends_a_reign_with_its_reason(spark: SparkSession, history: Any) -> None:
    history.write("broker-1", e.ControllerElected(1, 1, 1, 1))
    history.write("broker-1", e.ControllerResigned(1, 1, "shutdown"))
    history.write("broker-2", e.ControllerElected(2, 2, 2, 2))
    first, _ = rows(spark, history, tables.controller_reigns)
    assert (first["ended_by"], first["duration_ms"]) == ("shutdown", 1_000)


def test_a_session_that_its_controller_closed_ends_behind_the_resignation_whatever_clocks_say(
    spark: SparkSession, history: Any
) -> None:
    history.write("broker-1", e.ControllerElected(1, 1, 1, 1))
    history.write("peer-1", e.SessionClosed(9, 5, ["/brokers/ids/1", "/controller"]))
    history.write("broker-1", e.ControllerResigned(1, 1, "shutdown"))
    (reign,) = rows(spark, history, tables.controller_reigns)
    assert (reign["ended_by"], reign["duration_ms"]) == ("shutdown", 2_000)


def test_a_leadership_lasts_until_the_next_write_of_the_partition(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    spans = rows(spark, history, tables.partition_leaderships)
    assert [(row["leader"], row["leader_epoch"], row["duration_ms"]) for row in spans] == [
        (1, 0, 5_000),
        (-1, 1, 1_000),
        (2, 2, None),
    ]


def test_isr_changes_name_who_left_and_who_came(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    changes = rows(spark, history, tables.isr_changes)
    assert [(row["removed"], row["added"], row["cause"]) for row in changes] == [
        ([], [1, 2], "new_topic"),
        ([1], [], "replica_offline"),
        ([], [1], "caught_up"),
    ]


def test_availability_counts_the_dead_leader_and_the_time_without_one(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    (row,) = rows(spark, history, availability)
    assert row["observed_ms"] == 8_000
    assert row["leader_down_ms"] == 4_000
    assert row["offline_ms"] == 1_000
    assert row["available_ms"] == 3_000


def test_availability_takes_a_change_that_two_brokers_tell_at_one_moment_once_and_a_new_topic_without_it(
    spark: SparkSession, history: Any
) -> None:
    write = history.write
    write("broker-1", e.LeaderElected("t", 0, 1, 0, [1], [1, 2], 0, 1, False, "new_topic", 2))
    write("broker-1", e.ConfigChanged("topics/t", {"min.insync.replicas": "2"}))
    history.now_us -= 1_000_000
    write("broker-2", e.ConfigChanged("topics/t", {"min.insync.replicas": "2"}))
    history.now_us += 3_000_000
    write("broker-1", e.TopicDeleted("t"))
    write("broker-1", e.LeaderElected("t", 0, 1, 0, [1], [1, 2], 0, 1, False, "new_topic", 20))
    history.now_us += 5_000_000
    write("broker-1", e.NodeStopped("end"))
    (row,) = rows(spark, history, availability)
    # A second with a minimum of one, four with one of two, and six of a topic that has none of its own.
    assert (row["observed_ms"], row["under_min_isr_ms"], row["available_ms"]) == (11_000, 4_000, 7_000)


@pytest.mark.long
def test_bad_lines_are_set_aside_and_counted(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    outage(history)
    torn = history.directory / "peer-1" / "journal" / "peer-1.000000000009.jsonl"
    torn.write_text('garbage\n{}\n{"node":1,"node_seq":1,"wall_us":1,"mono_us":1,"type":"x"}\n{"node":"peer-1"')
    counts = jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "out").rows
    assert counts["bad_lines"] == 3
    assert counts["controller_reigns"] == 2
    problems = spark.read.parquet(str(tmp_path / "out" / "bad_lines")).collect()
    assert [row["position"] for row in problems] == [0, 8, 11]
