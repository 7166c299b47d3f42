"""The results that clients got for their transactions must agree with the records that consumers read.

The consumers use read_committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from zabka.journal.events import TopicPartition
from zabka.simulation.checkers.transaction_history import (
    FENCED,
    KEPT,
    ONCE,
    READ,
    TOGETHER,
    WHOLE,
    Attempt,
    Outcome,
    TransactionHistory,
)

P0, P1, OUT, STORE = (
    TopicPartition("in", 0),
    TopicPartition("in", 1),
    TopicPartition("out", 0),
    TopicPartition("__consumer_offsets", 0),
)


def an_attempt(
    history: TransactionHistory, outcome: Outcome = Outcome.OPEN, asked: bool = False, **records: TopicPartition
) -> Attempt:
    attempt = history.begin("id")
    for value, partition in records.items():
        history.sending(attempt, partition, value)
    if asked:
        history.ending(attempt, commit=True)
    if outcome is Outcome.COMMITTED:
        history.ended(attempt)
    attempt.outcome = outcome
    return attempt


def a_loop(history: TransactionHistory, source: str, offset: int, outcome: Outcome = Outcome.COMMITTED) -> Attempt:
    """Record one transaction of a consume-process-produce loop, which wrote the result of one input record.

    It also committed `offset`.
    """
    attempt = an_attempt(history, outcome, True, **{f"{len(history.attempts)}/{source}": OUT})
    attempt.inputs[source] = P0, offset - 1
    attempt.offsets, attempt.kept_in = {P0: offset}, STORE
    return attempt


def rules(history: TransactionHistory, excused: Iterable[TopicPartition] = ()) -> list[str]:
    lost = list(excused)
    return [each.partition(":")[0] for each in history.violations(lambda used, id_: any(p in lost for p in used))]


@pytest.mark.parametrize(
    ("outcome", "asked", "found"),
    [
        (Outcome.OPEN, False, [READ]),
        (Outcome.UNKNOWN, False, [READ]),
        (Outcome.ABORTED, False, [READ]),
        (Outcome.ABORTED, True, [READ]),
        (Outcome.UNKNOWN, True, []),
        (Outcome.COMMITTED, True, []),
    ],
)
def test_record_can_be_read_only_if_its_commit_was_requested(outcome: Outcome, asked: bool, found: list[str]) -> None:
    history = TransactionHistory()
    an_attempt(history, outcome, asked, a=P0)
    history.read(P0, 7, "a")
    assert rules(history) == found
    assert rules(history, [P0]) == []
    assert history.checked[READ] == 1


def test_reading_a_record_that_was_never_sent_is_a_violation() -> None:
    history = TransactionHistory()
    history.read(P0, 0, "made up")
    assert rules(history) == [READ]


@pytest.mark.parametrize(
    ("outcome", "stored", "found"),
    [
        (Outcome.COMMITTED, ("a", "b"), []),
        (Outcome.UNKNOWN, ("a", "b"), []),
        (Outcome.UNKNOWN, (), []),
        (Outcome.UNKNOWN, ("a",), [WHOLE]),
        (Outcome.COMMITTED, (), [KEPT]),
        (Outcome.COMMITTED, ("b",), [WHOLE, KEPT]),
        (Outcome.COMMITTED, ("a", "b", "b"), [WHOLE]),
    ],
)
def test_transaction_must_be_readable_completely_or_not_at_all(
    outcome: Outcome, stored: tuple[str, ...], found: list[str]
) -> None:
    history = TransactionHistory()
    an_attempt(history, outcome, True, a=P0, b=P1)
    history.read_back = {P0: dict(enumerate(stored))}
    assert rules(history) == found
    assert rules(history, [P1]) == []


def loops(change: Callable[[TransactionHistory], None]) -> TransactionHistory:
    """Return a history in which two inputs are each counted once in the output, after `change` was applied to it."""
    history = TransactionHistory()
    an_attempt(history, Outcome.COMMITTED, True, a=P0, b=P0)
    a_loop(history, "a", 1)
    a_loop(history, "b", 2)
    history.read_back = {P0: {0: "a", 1: "b"}, OUT: {0: "1/a", 1: "2/b"}}
    history.group_offsets = {P0: 2}
    change(history)
    return history


def _counted_twice(history: TransactionHistory) -> None:
    a_loop(history, "b", 2)
    history.read_back[OUT][2] = "3/b"


def _skipped(history: TransactionHistory) -> None:
    del history.attempts[2], history.read_back[OUT][1]


def _offset_lags(history: TransactionHistory) -> None:
    history.group_offsets[P0] = 1


def _aborted_and_repeated(history: TransactionHistory) -> None:
    a_loop(history, "b", 2, Outcome.ABORTED)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_aborted_and_repeated, []),
        (_counted_twice, [ONCE]),
        (_skipped, [TOGETHER]),
        (_offset_lags, [TOGETHER]),
    ],
)
def test_each_input_record_must_be_in_committed_output_once(
    change: Callable[[TransactionHistory], None], found: list[str]
) -> None:
    history = loops(change)
    assert rules(history) == found
    assert history.checked[ONCE] == 2
    assert rules(loops(change), [STORE]) == []


def test_offset_in_a_txn_is_seen_only_if_a_commit_was_requested() -> None:
    history = TransactionHistory()
    attempt = a_loop(history, "a", 1, Outcome.OPEN)
    history.offset_returned(P0, 1, attempt.number)
    attempt.is_commit_asked = False
    history.offset_returned(P0, 1, attempt.number)
    assert rules(history) == [TOGETHER]


def test_acknowledgement_of_a_fenced_producer_is_a_violation() -> None:
    history = TransactionHistory()
    attempt = an_attempt(history)
    history.started("id", (5, 1))
    history.started("id", (5, 0))
    assert history.newest("id") == (5, 1)
    history.acknowledged(attempt, (5, 1), history.newest("id"), "a produce")
    assert rules(history) == []
    history.acknowledged(attempt, (5, 0), history.newest("id"), "a produce")
    assert rules(history) == [FENCED]
    history.started("id", (4, 0))
    assert history.newest("id") == (4, 0)


@pytest.mark.parametrize(("proven", "found"), [(True, [KEPT]), (False, [])])
def test_commit_without_a_proof_of_its_end_may_be_lost(proven: bool, found: list[str]) -> None:
    history = TransactionHistory()
    an_attempt(history, Outcome.COMMITTED, True, a=OUT)
    attempt = an_attempt(history, Outcome.UNKNOWN, True, b=OUT)
    if proven:
        history.ended(attempt)
    else:
        history.unproven(attempt)
    history.read_back = {OUT: {0: "a"}}
    assert rules(history) == found
