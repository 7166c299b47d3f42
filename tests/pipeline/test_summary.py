"""The summary that `zabka pipeline tables` prints at its end. The expected sentences were written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from zabka.cli import pipeline
from zabka.pipeline import session
from zabka.pipeline.summary import SHOWN_MAX, summary


def term(epoch: int, ended_by: str | None, run: str = ".") -> dict[str, Any]:
    return {"run": run, "controller_epoch": epoch, "ended_by": ended_by}


def failover(epoch: int, total_ms: int | None) -> dict[str, Any]:
    return {
        "run": ".", "controller_epoch": epoch, "previous_broker_id": 1, "broker_id": 2, "cause": "session_expired",
        "total_ms": total_ms,
    }  # fmt: skip


def partition(
    number: int, offline_ms: int, leader_down_ms: int = 0, under_min_isr_ms: int = 0, isr_stalled_ms: int = 0
) -> dict[str, Any]:
    writable_ms = 20_000 - offline_ms - leader_down_ms
    return {
        "run": ".", "topic": "orders", "partition": number, "observed_ms": 20_000, "available_acks_1_ms": writable_ms,
        "available_acks_all_ms": writable_ms - under_min_isr_ms - isr_stalled_ms, "offline_ms": offline_ms,
        "leader_down_ms": leader_down_ms, "under_min_isr_ms": under_min_isr_ms, "isr_stalled_ms": isr_stalled_ms,
    }  # fmt: skip


def loss(number: int, count: int, committed: int, run: str = ".") -> dict[str, Any]:
    return {"run": run, "topic": "orders", "partition": number, "count": count, "committed_at_least": committed}


def test_summary_of_empty_tables_is_empty() -> None:
    assert summary([], [], [], [], []) == [
        "controller terms: none",
        "failovers: none",
        "downtime: none of 0 partitions",
        "records lost: none reported",
        "transactions: none",
    ]


def test_controller_terms_are_counted_by_end_reason() -> None:
    terms = [term(1, "shutdown"), term(2, "session_expired"), term(3, "session_expired"), term(4, None)]
    (line, *_) = summary(terms, [], [], [], [])
    assert line == "controller terms: 4 (2 session_expired, 1 shutdown, 1 not ended)"


def test_summary_shows_median_and_maximum_failover_time() -> None:
    """The summary shows the median and the maximum of the failover times.

    The median of 400, 900 and 6,204 ms is 900 ms. A failover without a known duration does not count.
    """
    rows = [failover(2, 900), failover(3, 6_204), failover(4, None), failover(5, 400)]
    assert summary([], rows, [], [], [])[1] == (
        "failovers: 4; p50 900 ms, worst 6,204 ms (controller epoch 3: broker 1 to 2 after session_expired); "
        "1 of unknown duration"
    )
    assert summary([], [failover(2, None)], [], [], [])[1] == "failovers: 1, all of unknown duration"


def test_partitions_with_downtime_are_listed_worst_first() -> None:
    rows = [partition(0, 0), partition(1, 500), partition(2, 1_000, 2_500, 1_500), partition(3, 0, 0, 0, 500)]
    assert summary([], [], rows, [], [])[2:-2] == [
        "downtime for acks=all: 3 of 4 partitions, worst first",
        "  orders-2: 5,000 ms of 20,000 ms (25.0 %; for acks=1 3,500 ms): 1,000 ms without a leader, 2,500 ms with its "
        "leader down, 1,500 ms under min ISR",
        "  orders-1: 500 ms of 20,000 ms (2.5 %; for acks=1 500 ms): 500 ms without a leader",
        "  orders-3: 500 ms of 20,000 ms (2.5 %; for acks=1 0 ms): 500 ms with a member of the ISR dead or cut off",
    ]


def test_partitions_over_the_list_limit_are_only_counted() -> None:
    lines = summary([], [], [partition(number, 100) for number in range(SHOWN_MAX + 3)], [], [])
    assert lines[2 + SHOWN_MAX + 1] == "  and 3 more partitions"


def test_lost_records_are_summed_by_partition() -> None:
    lines = summary([], [], [], [loss(0, 10, 4), loss(1, 300, 200), loss(0, 1_000, 0)], [])
    assert lines[3:-1] == [
        "records lost: 1,310, of which at least 204 were committed",
        "  orders-0: 1,010",
        "  orders-1: 300",
    ]


def test_transactions_are_counted_by_outcome() -> None:
    aborted = ("fenced", "timed out", "ended by its producer")
    rows: list[dict[str, Any]] = [{"run": ".", "outcome": "committed", "abort_reason": None}] * 3
    rows += [{"run": ".", "outcome": "aborted", "abort_reason": reason} for reason in aborted]
    rows += [{"run": ".", "outcome": None, "abort_reason": None}]
    assert summary([], [], [], [], rows)[-1] == "transactions: 7 (3 committed, 2 aborted, 1 timed out, 1 undecided)"


def test_summary_of_several_runs_lists_each_run() -> None:
    lines = summary([term(1, None, "a"), term(1, None, "b")], [], [], [loss(0, 1, 0, "a"), loss(0, 2, 0, "b")], [])
    assert lines[-3:-1] == ["  orders-0 of run b: 2", "  orders-0 of run a: 1"]


def test_tables_command_ends_with_the_summary(
    spark: SparkSession,
    history: Any,
    outage: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command `zabka pipeline tables` prints the summary at its end.

    From second 3 to 7, the leader of t-0 was dead. Until second 8, the partition had no leader. The history is from
    second 2 to 10.
    """
    outage(history)
    monkeypatch.setattr(pipeline, "_session", lambda *_: spark)
    monkeypatch.setattr(session, "stop", lambda _: None)
    arguments = ["tables", "--data", str(history.directory), "--out", str(tmp_path / "out")]
    answer = CliRunner().invoke(pipeline.jobs_of_spark, arguments)
    assert (answer.exit_code, answer.exception) == (0, None)
    assert answer.stdout.splitlines()[-6:] == [
        "controller terms: 2 (1 session_closed, 1 not ended)",
        "failovers: 1, all of unknown duration",
        "downtime for acks=all: 1 of 1 partitions, worst first",
        "  t-0: 5,000 ms of 8,000 ms (62.5 %; for acks=1 5,000 ms): 1,000 ms without a leader, "
        "4,000 ms with its leader down",
        "records lost: none reported",
        "transactions: none",
    ]
