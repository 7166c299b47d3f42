"""The table `transactions`, with one row for each transaction of a transactional id.

The expected values were computed by hand.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.pipeline.in_order import rows_of
from zabka.journal import events as e
from zabka.pipeline import jobs
from zabka.pipeline.transactions import transactions

SECOND_US = 1_000_000


class Coordinator:
    """Writer of a coordinator's events about one transactional id. The events are one second apart."""

    def __init__(self, history: Any, transactional_id: str, producer_id: int) -> None:
        self._history = history
        self._id, self._producer_id = transactional_id, producer_id

    def changed(
        self, broker: int, state: str, epoch: int, partitions: list[str], after: str, started_ms: int = -1
    ) -> None:
        event = e.TransactionChanged(
            broker, self._id, state, self._producer_id, epoch, partitions, after, started_ms=started_ms
        )
        self._history.write(f"broker-{broker}", event)

    def loaded(self, broker: int, state: str, epoch: int, partitions: list[str], started_ms: int) -> None:
        """Write the event of a new coordinator that has loaded this state."""
        event = e.TransactionChanged(
            broker, self._id, state, self._producer_id, epoch, partitions, "loaded", started_ms=started_ms
        )
        self._history.write(f"broker-{broker}", event)

    def marker(self, broker: int, partition: int, epoch: int, is_commit: bool) -> None:
        written = e.MarkerWritten(broker, "a", partition, 0, 9, self._producer_id, epoch, is_commit, 0, 3, "")
        self._history.write(f"broker-{broker}", written)


def found(spark: SparkSession, history: Any) -> list[dict[str, Any]]:
    rows = rows_of(jobs.read_journal(spark, history.directory), transactions)
    return sorted((row.asDict() for row in rows), key=lambda row: (row["transactional_id"], row["number"]))


def test_committed_transaction_lists_its_partitions_and_times(spark: SparkSession, history: Any) -> None:
    """The row of a committed transaction has its partitions, and the times of its steps.

    The transaction begins in second 2, is decided in second 4, and completes in second 7.
    """
    history.full = True
    pay = Coordinator(history, "pay", 7)
    pay.changed(1, "Empty", 0, [], "producer started")
    pay.changed(1, "Ongoing", 0, ["a-1"], "partitions added")
    pay.changed(1, "Ongoing", 0, ["a-1", "a-0"], "partitions added")
    pay.changed(1, "PrepareCommit", 0, ["a-1", "a-0"], "ended by its producer")
    pay.marker(2, 0, 0, True)
    pay.marker(3, 1, 0, True)
    pay.changed(1, "CompleteCommit", 0, [], "markers written")
    assert found(spark, history) == [
        {
            "run": ".", "transactional_id": "pay", "number": 1, "producer_id": 7, "producer_epoch": 0,
            "from_us": 2 * SECOND_US, "decided_us": 4 * SECOND_US, "to_us": 7 * SECOND_US,
            "outcome": "committed", "abort_reason": None, "partitions": ["a-0", "a-1"], "markers": 2,
            "duration_ms": 5_000, "decision_ms": 2_000,
        }
    ]  # fmt: skip


def test_transaction_aborted_by_new_coordinator_keeps_its_epoch(spark: SparkSession, history: Any) -> None:
    """A transaction that another coordinator aborts is shown with its producer's epoch.

    The second transaction times out at the next coordinator. Its partitions and markers are not mixed with those of the
    first transaction.
    """
    history.full = True
    pay = Coordinator(history, "pay", 7)
    pay.changed(1, "Ongoing", 4, ["a-0", "a-1"], "partitions added")
    pay.changed(1, "PrepareCommit", 4, ["a-0", "a-1"], "ended by its producer")
    pay.changed(1, "CompleteCommit", 4, [], "markers written")
    pay.changed(1, "Ongoing", 4, ["a-1"], "partitions added")
    pay.changed(2, "PrepareAbort", 5, ["a-1"], "timed out")
    pay.marker(2, 1, 5, False)
    pay.changed(2, "CompleteAbort", 5, [], "markers written")
    pay.changed(2, "Dead", 5, [], "expired")
    first, second = found(spark, history)
    assert (first["number"], first["outcome"], first["markers"]) == (1, "committed", 0)
    assert (second["number"], second["producer_epoch"], second["partitions"]) == (2, 4, ["a-1"])
    assert (second["outcome"], second["abort_reason"], second["markers"]) == ("aborted", "timed out", 1)
    assert (second["from_us"], second["decided_us"], second["to_us"]) == (4_000_000, 5_000_000, 7_000_000)
    assert (second["duration_ms"], second["decision_ms"]) == (3_000, 1_000)


def test_transaction_with_unknown_beginning_or_end_has_nulls(spark: SparkSession, history: Any) -> None:
    """A transaction whose beginning or end is not in the journal has null in these columns.

    The journal begins with the abort of a fenced producer, and ends during the next producer's transaction.
    """
    pay, ship = Coordinator(history, "pay", 7), Coordinator(history, "ship", 8)
    pay.changed(1, "PrepareAbort", 1, ["a-0"], "fenced")
    ship.changed(1, "Ongoing", 0, ["b-0"], "partitions added")
    pay.changed(1, "CompleteAbort", 1, [], "markers written")
    pay.changed(1, "Empty", 2, [], "producer started")
    pay.changed(1, "Ongoing", 2, ["a-2"], "partitions added")
    fenced, ongoing, other = found(spark, history)
    assert (fenced["from_us"], fenced["to_us"], fenced["duration_ms"]) == (None, 3_000_000, None)
    assert (fenced["outcome"], fenced["abort_reason"], fenced["partitions"]) == ("aborted", "fenced", ["a-0"])
    assert (ongoing["from_us"], ongoing["outcome"], ongoing["to_us"]) == (5_000_000, None, None)
    assert (other["transactional_id"], other["number"], other["partitions"]) == ("ship", 1, ["b-0"])
    assert {row["markers"] for row in (fenced, ongoing, other)} == {None}, "no journal has markers"


def test_state_loaded_by_a_new_coordinator_is_no_new_decision(spark: SparkSession, history: Any) -> None:
    """A state that a new coordinator has loaded does not count as a new decision.

    The first coordinator dies during the first transaction. Another coordinator dies after the decision on the second
    transaction.
    """
    pay, ship = Coordinator(history, "pay", 7), Coordinator(history, "ship", 8)
    pay.changed(1, "Ongoing", 0, ["a-0"], "partitions added")
    pay.loaded(2, "Ongoing", 0, ["a-0"], 1_000)
    pay.changed(2, "PrepareAbort", 1, ["a-0"], "timed out")
    pay.loaded(3, "PrepareAbort", 1, ["a-0"], 1_000)
    pay.changed(3, "CompleteAbort", 1, [], "markers written")
    ship.loaded(3, "PrepareAbort", 0, ["b-0"], 4_250)
    ship.changed(3, "CompleteAbort", 0, [], "markers written")
    timed_out, unknown = found(spark, history)
    moments = ("from_us", "decided_us", "to_us", "duration_ms", "decision_ms", "abort_reason")
    assert [timed_out[name] for name in moments] == [1_000_000, 3_000_000, 5_000_000, 4_000, 2_000, "timed out"]
    assert [unknown[name] for name in moments] == [4_250_000, None, 7_000_000, None, None, None]
    assert (unknown["outcome"], unknown["partitions"]) == ("aborted", ["b-0"])


def test_late_entry_of_paused_coordinator_is_assigned_to_its_txn(spark: SparkSession, history: Any) -> None:
    """A late entry of a paused coordinator is assigned to the transaction that it is about.

    Broker 1 decides a transaction in second 2, and is then paused. When it completes this transaction, broker 2 already
    coordinates another one.
    """
    pay = Coordinator(history, "pay", 7)
    pay.changed(1, "Ongoing", 0, ["a-0"], "partitions added", 1_000)
    pay.changed(1, "PrepareCommit", 0, ["a-0"], "ended by its producer", 1_000)
    pay.changed(2, "Ongoing", 0, ["a-1"], "partitions added", 3_000)
    pay.changed(1, "CompleteCommit", 0, [], "markers written", 1_000)
    pay.changed(2, "PrepareAbort", 0, ["a-1"], "ended by its producer", 3_000)
    pay.changed(2, "CompleteAbort", 0, [], "markers written", 3_000)
    columns = ("number", "from_us", "decided_us", "to_us", "outcome", "partitions")
    assert [tuple(row[name] for name in columns) for row in found(spark, history)] == [
        (1, 1 * SECOND_US, 2 * SECOND_US, 4 * SECOND_US, "committed", ["a-0"]),
        (2, 3 * SECOND_US, 5 * SECOND_US, 6 * SECOND_US, "aborted", ["a-1"]),
    ]


def test_transaction_unknown_to_a_new_coordinator_has_a_row(spark: SparkSession, history: Any) -> None:
    """A transaction that a new coordinator does not know has a row of its own.

    The new coordinator did not load the first transaction. The transaction that it reports next has another start time.
    """
    pay = Coordinator(history, "pay", 7)
    pay.changed(1, "Ongoing", 0, ["a-0"], "partitions added", 1_000)
    pay.changed(2, "Ongoing", 0, ["a-1"], "partitions added", 2_000)
    pay.changed(2, "PrepareCommit", 0, ["a-1"], "ended by its producer", 2_000)
    rows = found(spark, history)
    assert [(row["number"], row["outcome"], row["partitions"]) for row in rows] == [
        (1, None, ["a-0"]), (2, "committed", ["a-1"]),
    ]  # fmt: skip
