"""The tables, built from journals like those of real nodes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.journal.golden_files import GOLDEN, entries_of
from tests.pipeline.in_order import rows_of
from tests.pipeline.pauses import paused_twice_and_a_third_time
from zabka.journal import events as e
from zabka.journal.controller_gaps import gap_before, gap_milliseconds
from zabka.journal.fold import fold
from zabka.pipeline import jobs, tables
from zabka.pipeline.availability import availability
from zabka.pipeline.controller_terms import controller_terms
from zabka.pipeline.gold import NAMES
from zabka.pipeline.rows import Journal

PAGE = Path(__file__).resolve().parents[2] / "api/web/views/journal.js"


def rows(spark: SparkSession, history: Any, build: Callable[[Journal], DataFrame]) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows_of(jobs.read_journal(spark, history.directory), build)]


def test_page_offers_every_table_except_invalid_lines() -> None:
    (listed,) = re.findall(r"^const TABLES = (\[.*\]);$", PAGE.read_text(), re.MULTILINE)
    assert json.loads(listed) == [name for name in NAMES if name != "bad_lines"]


def test_controller_term_ends_when_its_session_is_closed(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    first, second = rows(spark, history, controller_terms)
    assert (first["broker_id"], first["controller_epoch"], first["ended_by"]) == (1, 1, "session_closed")
    assert (first["from_us"], first["to_us"]) == (1_000_000, 4_000_000)
    assert (second["broker_id"], second["to_us"]) == (2, None)
    assert second["gap_before_ms"] is None, "the controller has not decided yet"


def test_controller_gap_lasts_from_death_to_first_decision(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    """The controller gap lasts from the controller's death to the first decision of the next one.

    The controller is killed in second 3, its session ends in second 4, the next one is elected in second 6, and decides
    two seconds later.
    """
    outage(history)
    history.now_us = 7_000_000
    history.write("broker-2", e.ControllerReady(2, 2, 900, 100))
    _, second = rows(spark, history, controller_terms)
    gap = [second[name] for name in ("gap_before_ms", "detection_ms", "election_ms", "loading_ms")]
    assert gap == [5_000, 1_000, 2_000, 2_000]


def test_controller_gaps_in_the_table_equal_the_folded_gaps(spark: SparkSession, tmp_path: Path) -> None:
    history = GOLDEN / "histories" / "controller-gaps.jsonl"
    shutil.copy(history, tmp_path / "gaps.jsonl")
    found = rows_of(jobs.read_journal(spark, tmp_path), controller_terms)
    names = ("gap_before_ms", "detection_ms", "election_ms", "loading_ms")
    folded = fold(entries_of(history)).controller_terms
    gaps = [gap_before(folded, place) for place in range(len(folded))]
    expected = [None if gap is None else list(gap_milliseconds(gap).values()) for gap in gaps]
    assert expected[2] == [11_065.0, 5_001.9, 6_003.1, 60.0]
    for row, gap in zip(found, expected, strict=True):
        assert [row[name] for name in names] == ([None] * 4 if gap is None else [int(ms or 0) for ms in gap])


def test_resignation_ends_a_controller_term_with_its_reason(spark: SparkSession, history: Any) -> None:
    history.write("broker-1", e.ControllerElected(1, 1, 1, 1))
    history.write("broker-1", e.ControllerResigned(1, 1, "shutdown"))
    history.write("broker-2", e.ControllerElected(2, 2, 2, 2))
    first, _ = rows(spark, history, controller_terms)
    assert (first["ended_by"], first["duration_ms"]) == ("shutdown", 1_000)


def test_resignation_ends_a_term_before_its_session_is_closed(spark: SparkSession, history: Any) -> None:
    """A controller's term ends when it resigns, not when its session is closed.

    This holds even if the clocks of the two nodes show the opposite order.
    """
    history.write("broker-1", e.ControllerElected(1, 1, 1, 1))
    history.write("peer-1", e.SessionClosed(9, 5, ["/brokers/ids/1", "/controller"]))
    history.write("broker-1", e.ControllerResigned(1, 1, "shutdown"))
    (term,) = rows(spark, history, controller_terms)
    assert (term["ended_by"], term["duration_ms"]) == ("shutdown", 2_000)


def test_leadership_row_ends_at_the_next_partition_state_write(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    spans = rows(spark, history, tables.partition_leaderships)
    assert [(row["leader"], row["leader_epoch"], row["duration_ms"]) for row in spans] == [
        (1, 0, 5_000),
        (-1, 1, 1_000),
        (2, 2, None),
    ]


def test_isr_changes_contain_removed_and_added_replicas(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    changes = rows(spark, history, tables.isr_changes)
    assert [(row["removed"], row["added"], row["cause"]) for row in changes] == [
        ([], [1, 2], "new_topic"),
        ([1], [], "replica_offline"),
        ([], [1], "caught_up"),
    ]


def test_availability_counts_leader_downtime_and_no_leader_time(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    (row,) = rows(spark, history, availability)
    assert row["observed_ms"] == 8_000
    assert row["leader_down_ms"] == 4_000
    assert row["offline_ms"] == 1_000
    assert row["available_acks_1_ms"] == row["available_acks_all_ms"] == 3_000


def test_config_change_journaled_by_two_brokers_counts_once(spark: SparkSession, history: Any) -> None:
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
    # min.insync.replicas is one for one second, and two for four seconds. For six seconds the topic does not override
    # it.
    assert (row["observed_ms"], row["under_min_isr_ms"], row["available_acks_all_ms"]) == (11_000, 4_000, 7_000)


def test_min_isr_is_limited_to_the_number_of_replicas(spark: SparkSession, history: Any) -> None:
    write = history.write
    write("broker-1", e.NodeStarted("broker", 1, {"min.insync.replicas": "2"}))
    write("broker-1", e.LeaderElected("t", 0, 1, 0, [1], [1], 0, 1, False, "new_topic", 2))
    write("broker-1", e.LeaderElected("t", 1, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 3))
    write("broker-1", e.IsrChanged("t", 1, [1], 1, 0, 1, "lag", 1, 4))
    history.now_us += 5_000_000
    write("broker-1", e.NodeStopped("end"))
    # For eight seconds, one replica is in sync. For seven seconds, two replicas are assigned, and one of them leaves
    # after the first second.
    spent = [(row["available_acks_all_ms"], row["under_min_isr_ms"]) for row in rows(spark, history, availability)]
    assert spent == [(8_000, 0), (1_000, 6_000)]


def test_min_isr_uses_topic_then_leader_default_then_properties(spark: SparkSession, history: Any) -> None:
    def alter(entity: str, config: dict[str, str]) -> None:
        """Change a config a second after the last event.

        Two brokers journal the change, 1 ms apart. The config then applies for nine seconds.
        """
        for broker in ("broker-1", "broker-2"):
            write(broker, e.ConfigChanged(entity, config))
            history.now_us -= 999_000
        history.now_us += 8_998_000

    write = history.write
    # The min.insync.replicas in the file of a broker that does not lead has no effect.
    write("broker-2", e.NodeStarted("broker", 2, {"min.insync.replicas": "2"}))
    write("broker-1", e.NodeStarted("broker", 1, {"min.insync.replicas": "1"}))
    write("broker-1", e.LeaderElected("t", 0, 1, 0, [1], [1, 2], 0, 1, False, "new_topic", 2))
    for entity in ("brokers/<default>", "brokers/1", "topics/t"):
        alter(entity, {"min.insync.replicas": "1" if entity == "brokers/1" else "2"})
    for entity in ("topics/t", "brokers/1", "brokers/<default>"):
        alter(entity, {})
    write("broker-1", e.NodeStopped("shutdown"))
    write("broker-1", e.NodeStarted("broker", 1, {"min.insync.replicas": "2"}))
    history.now_us += 9_000_000
    write("broker-1", e.NodeStopped("end"))
    (row,) = rows(spark, history, availability)
    # min.insync.replicas is one at first, while the leader's dynamic value applies (before and after the topic's
    # value), and after all dynamic values were removed. It is two while the default for all brokers applies (before and
    # after the leader's value), while the topic's value applies, and with the file of the restarted leader.
    assert (row["available_acks_all_ms"], row["under_min_isr_ms"]) == (1_000 + 3 * 9_000, 3 * 9_000 + 10_000)
    assert row["planned_ms"] == 1_000


def test_paused_leader_is_down_until_its_next_journal_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "seed-1.jsonl").write_bytes(b"".join(paused_twice_and_a_third_time()))
    (row,) = rows_of(jobs.read_journal(spark, tmp_path), availability)
    # The leader is paused twice for three seconds, and for the last five of 35 seconds.
    assert (row["observed_ms"], row["leader_down_ms"], row["available_acks_1_ms"]) == (35_000, 11_000, 24_000)


@pytest.mark.parametrize("host", [True, False], ids=["with its host", "without one"])
def test_unreported_exit_of_a_leader_ends_its_observation(spark: SparkSession, history: Any, host: bool) -> None:
    def start() -> None:
        if host:
            write("host-1", e.ProcessChanged("broker-1", "running", 7, "start"))
            history.now_us -= 1_000_000
        write("broker-1", e.NodeStarted("broker", 1, {}))

    write = history.write
    start()
    write("broker-1", e.LeaderElected("t", 0, 1, 0, [1], [1], 0, 1, False, "new_topic", 2))
    write("broker-1", e.RequestFenced(1, "fetch", 3, "FENCED_LEADER_EPOCH", 1, 2))
    history.now_us += 36_000_000_000
    start()
    write("broker-1", e.RequestFenced(1, "fetch", 3, "FENCED_LEADER_EPOCH", 1, 2))
    (row,) = rows(spark, history, availability)
    assert (row["observed_ms"], row["available_acks_1_ms"], row["unseen_ms"]) == (2_000, 2_000, 36_001_000)
    # An exit that the host reports must not count as unseen.
    write("host-1", e.ProcessChanged("broker-1", "down", None, "kill"))
    history.now_us += 4_000_000
    start()
    (row,) = rows(spark, history, availability)
    assert (row["available_acks_1_ms"], row["leader_down_ms"], row["unseen_ms"]) == (3_000, 5_000, 36_001_000)


@pytest.mark.long
def test_invalid_lines_are_quarantined_and_counted(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    outage(history)
    torn = history.directory / "peer-1" / "journal" / "peer-1.000000000009.jsonl"
    torn.write_text('garbage\n{}\n{"node":1,"node_seq":1,"wall_us":1,"mono_us":1,"type":"x"}\n{"node":"peer-1"')
    counts = jobs.write_tables(jobs.read_journal(spark, history.directory), tmp_path / "out").rows
    assert counts["bad_lines"] == 3
    assert counts["controller_terms"] == 2
    problems = spark.read.parquet(str(tmp_path / "out" / "bad_lines")).collect()
    assert [row["position"] for row in problems] == [0, 8, 11]
