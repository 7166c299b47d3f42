"""The tables, from journals as nodes write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from journal import events as e
from pipeline import jobs, tables

PAGE = Path(__file__).resolve().parents[2] / "api/web/views/journal.js"


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def read(spark: SparkSession, history: Any) -> DataFrame:
    return jobs.read_journal(spark, history.directory).cache()


def test_the_page_offers_every_table_but_that_of_bad_lines() -> None:
    (listed,) = re.findall(r"^const TABLES = (\[.*\]);$", PAGE.read_text(), re.MULTILINE)
    assert json.loads(listed) == [name for name in jobs.BUILDERS if name != "bad_lines"]


def test_a_reign_ends_when_the_session_that_held_controller_is_closed(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    first, second = rows(tables.controller_reigns(read(spark, history)))
    assert (first["broker_id"], first["controller_epoch"], first["ended_by"]) == (1, 1, "session_closed")
    assert (first["from_us"], first["to_us"]) == (1_000_000, 4_000_000)
    assert (second["broker_id"], second["to_us"], second["gap_before_ms"]) == (2, None, 2_000)


def test_a_resignation_ends_a_reign_with_its_reason(spark: SparkSession, history: Any) -> None:
    history.write("broker-1", e.ControllerElected(1, 1, 1, 1))
    history.write("broker-1", e.ControllerResigned(1, 1, "shutdown"))
    history.write("broker-2", e.ControllerElected(2, 2, 2, 2))
    first, _ = rows(tables.controller_reigns(read(spark, history)))
    assert (first["ended_by"], first["duration_ms"]) == ("shutdown", 1_000)


def test_a_leadership_lasts_until_the_next_write_of_the_partition(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    spans = rows(tables.partition_leaderships(read(spark, history)))
    assert [(row["leader"], row["leader_epoch"], row["duration_ms"]) for row in spans] == [
        (1, 0, 5_000),
        (-1, 1, 1_000),
        (2, 2, None),
    ]


def test_isr_changes_name_who_left_and_who_came(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    changes = rows(tables.isr_changes(read(spark, history)))
    assert [(row["removed"], row["added"], row["cause"]) for row in changes] == [
        ([], [1, 2], "new_topic"),
        ([1], [], "replica_offline"),
        ([], [1], "caught_up"),
    ]


def test_availability_counts_the_dead_leader_and_the_time_without_one(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    (row,) = rows(tables.availability(read(spark, history)))
    assert row["observed_ms"] == 8_000
    assert row["leader_down_ms"] == 4_000
    assert row["offline_ms"] == 1_000
    assert row["available_ms"] == 3_000


def test_bad_lines_are_set_aside_and_counted(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    outage(history)
    torn = history.directory / "peer-1" / "journal" / "peer-1.000000000009.jsonl"
    torn.write_text('garbage\n{}\n{"node":1,"node_seq":1,"wall_us":1,"mono_us":1,"type":"x"}\n{"node":"peer-1"')
    counts = jobs.write_tables(read(spark, history), tmp_path / "out")
    assert counts["bad_lines"] == 3
    assert counts["controller_reigns"] == 2
    problems = rows(spark.read.parquet(str(tmp_path / "out" / "bad_lines")))
    assert [row["position"] for row in problems] == [0, 8, 11]


def test_lines_end_at_newlines_alone_and_a_malformed_one_is_set_aside(
    spark: SparkSession, history: Any, tmp_path: Path
) -> None:
    path = "/a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\ni"
    history.write("peer-1", e.SessionClosed(9, 5, [path]))
    (history.directory / "peer-2.000000000001.jsonl").write_bytes(
        b'{"a":' + b"[" * 200_000 + b"\n"
        b'{"node":"peer-2","node_seq":9999999999999999999999,"wall_us":1,"mono_us":1,"type":"x"}\n'
        b'{"node":"\xff\xe2\x80\xa8","node_seq":1,"wall_us":1,"mono_us":1,"type":"x"}\n'
    )
    for query in jobs.stream_events(spark, history.directory, tmp_path / "out", follow=False):
        query.awaitTermination()
    for journal in (read(spark, history), jobs.read_streamed(spark, tmp_path / "out")):
        assert journal.where("problem is not null").count() == 3
        (good,) = journal.where("problem is null").collect()
        assert json.loads(good["body"])["ephemerals"] == [path]


def test_a_stream_takes_every_line_once_over_restarts_and_growth(
    spark: SparkSession, history: Any, tmp_path: Path
) -> None:
    out = tmp_path / "stream"
    total = 0
    for generation in range(2):
        for number in range(5):
            history.write(f"peer-{number % 2 + 1}", e.EpochAccepted(generation * 10 + number))
            total += 1
        with (history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl").open("ab") as file:
            file.write(b"not an entry\n")
        for query in jobs.stream_events(spark, history.directory, out, follow=False):
            query.awaitTermination()
        streamed = jobs.read_streamed(spark, out)
        good = streamed.where("problem is null")
        assert good.count() == total
        assert good.select("node", "file", "position").distinct().count() == total
        assert streamed.where("problem is not null").count() == generation + 1


def test_a_half_written_line_waits_for_its_end(spark: SparkSession, history: Any, tmp_path: Path) -> None:
    history.write("peer-1", e.EpochAccepted(1))
    path = history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl"
    line = path.read_bytes()
    with path.open("ab") as file:
        file.write(line[:20])
    out = tmp_path / "stream"
    for expected in (1, 2):
        for query in jobs.stream_events(spark, history.directory, out, follow=False):
            query.awaitTermination()
        assert jobs.read_streamed(spark, out).where("problem is null").count() == expected
        with path.open("ab") as file:
            file.write(line[20:])
