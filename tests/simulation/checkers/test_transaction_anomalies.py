"""Anomalies of transactions: a hand-written history for each one, and random histories.

The results for random histories are compared with a direct computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zabka.journal.events import TopicPartition
from zabka.simulation.checkers.transaction_anomalies import (
    Analysis,
    Dependencies,
    Edges,
    History,
    Kind,
    Read,
    Transaction,
    analyse,
)

P, Q = TopicPartition("in", 0), TopicPartition("in", 1)
LATE = 1_000
"""Point in time after all other events of a test history."""


def appending(name: str, places: tuple[int, int, int] = (1, 10, 60), **appends: TopicPartition) -> Transaction:
    """Return a committed transaction.

    `places` are the times at which it begins, requests its commit, and receives the reply.
    """
    return Transaction(name, appends, (), *places)


def loop(name: str, *reads: Read, began: int = 20, **appends: TopicPartition) -> Transaction:
    """Return a committed transaction that reads records.

    By default, it begins after the other transactions have requested their commits.
    """
    return Transaction(name, appends, reads, began, began + 30, began + 40)


def read(partition: TopicPartition, start: int, end: int | None, *values: str, at: int = LATE + 1) -> Read:
    return Read(partition, start, dict(enumerate(values, start)), end, at)


def log(*values: str) -> dict[int, str]:
    return dict(enumerate(values))


def history(*transactions: Transaction, reads: tuple[Read, ...] = (), **logs: Mapping[int, str]) -> History:
    return History(transactions, reads, {{"p": P, "q": Q}[name]: found for name, found in logs.items()})


def found(analysis: Analysis) -> tuple[list[Kind], dict[Kind, int]]:
    return [each.kind for each in analysis.forbidden], {kind: n for kind, n in analysis.permitted.items() if n}


# ---- reads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transaction", "kind"),
    [
        (Transaction("t", {"a": P}, (), 1, asked=5, ended=9, is_aborted=True), Kind.ABORTED_READ),
        (Transaction("t", {"a": P}, (), 1, is_aborted=True), Kind.ABORTED_READ),
        (Transaction("t", {"a": P}, (), 1), Kind.UNFINISHED_READ),
        (Transaction("t", {"a": P}, (), 1, asked=8), Kind.UNFINISHED_READ),
    ],
)
def test_record_of_an_aborted_or_unfinished_txn_is_forbidden(transaction: Transaction, kind: Kind) -> None:
    seen = read(P, 0, 1, "a", at=7)
    analysis = analyse(history(transaction, reads=(seen,), p=log("a")))
    assert found(analysis)[0] == [kind]
    assert "a at in-0 offset 0 was received; t " in analysis.forbidden[0].detail
    assert found(analyse(history(transaction._replace(is_excused=True), reads=(seen,), p=log("a")))) == ([], {})


def test_record_is_permitted_after_its_producer_asked_to_commit() -> None:
    without_reply = Transaction("t", {"a": P}, (), 1, asked=6)
    assert found(analyse(history(without_reply, reads=(read(P, 0, 1, "a", at=7),), p=log("a")))) == ([], {})


def test_aborted_record_in_the_final_read_is_forbidden() -> None:
    aborted = Transaction("t", {"a": P}, (), 1, is_aborted=True)
    assert found(analyse(history(aborted, p=log("a")))) == ([Kind.ABORTED_READ], {})


def test_copy_loop_that_reads_an_aborted_record_is_an_anomaly() -> None:
    aborted = Transaction("t", {"a": P}, (), 1, is_aborted=True)
    reader = loop("m", read(P, 0, 1, "a", at=5), o=Q)
    assert found(analyse(history(aborted, reader, q=log("o")))) == ([Kind.ABORTED_READ], {})


def test_read_of_only_some_records_of_a_txn_is_intermediate() -> None:
    """The consumer received "b", but not "a" of the same transaction before it."""
    both, other = appending("t", a=P, b=P), appending("u", c=P)
    poll = Read(P, 0, {1: "b", 2: "c"}, 3, LATE + 1)
    assert found(analyse(history(both, other, reads=(poll,), p=log("a", "b", "c")))) == ([Kind.INTERMEDIATE_READ], {})
    excused = both._replace(is_excused=True)
    assert found(analyse(history(excused, other, reads=(poll,), p=log("a", "b", "c")))) == ([], {})


def test_read_past_an_unread_transaction_has_incompatible_order() -> None:
    poll = Read(P, 0, {1: "c"}, 2, LATE + 1)
    transactions = appending("t", a=P), appending("u", c=P)
    assert found(analyse(history(*transactions, reads=(poll,), p=log("a", "c")))) == ([Kind.INCOMPATIBLE_ORDER], {})


def test_received_record_that_the_final_log_lacks_is_forbidden() -> None:
    transactions = appending("t", a=P), appending("u", c=P)
    moved = analyse(history(*transactions, reads=(read(P, 0, 2, "a", "c"),), p={0: "c", 1: "a"}))
    assert [each.kind for each in moved.forbidden[:2]] == [Kind.INCOMPATIBLE_ORDER] * 2
    lost = analyse(history(*transactions, reads=(read(P, 0, 2, "a", "c"),), p=log("a")))
    assert found(lost) == ([Kind.INCOMPATIBLE_ORDER], {})


def test_poll_that_ends_within_a_transaction_is_counted() -> None:
    polls = read(P, 0, 1, "a"), read(P, 1, 2, "b")
    assert found(analyse(history(appending("t", a=P, b=P), reads=polls, p=log("a", "b")))) == ([], {Kind.SPLIT_READ: 1})


# ---- cycles ----------------------------------------------------------------------------------------------------------


def test_interleaved_appends_are_a_permitted_write_cycle() -> None:
    """Two transactions append to the same two partitions in opposite orders.

    Kafka permits this, because it does not isolate the appends of open transactions.
    """
    one, two = appending("t", a=P, b=Q), appending("u", c=P, d=Q)
    assert found(analyse(history(one, two, p=log("a", "c"), q=log("d", "b")))) == ([], {Kind.WRITE_CYCLE: 2})
    assert found(analyse(history(one, two, p=log("a", "c"), q=log("b", "d")))) == ([], {})


def test_interleaved_appends_of_successive_txns_are_forbidden() -> None:
    """The second transaction began after the end of the first one, so its record cannot precede the first one's."""
    one, two = appending("t", (1, 3, 4), a=P, b=Q), appending("u", (5, 8, 9), c=P, d=Q)
    analysis = analyse(history(one, two, p=log("a", "c"), q=log("d", "b")))
    assert found(analysis) == ([Kind.WRITE_CYCLE_IN_TIME], {Kind.WRITE_CYCLE: 2})
    assert analysis.forbidden[0].detail in ("u -ww in in-1-> t -rt-> u", "t -rt-> u -ww in in-1-> t")


def test_circular_reads_of_two_transactions_are_forbidden() -> None:
    """Circular information flow: each loop reads a record of the other one."""
    one, two = loop("t", read(Q, 0, 1, "b"), a=P), loop("u", read(P, 0, 1, "a"), b=Q)
    analysis = analyse(history(one, two, p=log("a"), q=log("b")))
    assert found(analysis)[0] == [Kind.CIRCULAR_FLOW]
    assert analysis.permitted[Kind.CIRCULAR_FLOW] == 2
    assert "t -wr-> u -wr-> t" in analysis.forbidden[0].detail or "u -wr-> t -wr-> u" in analysis.forbidden[0].detail


def test_copied_record_before_its_input_transaction_is_forbidden() -> None:
    """A loop reads all of its input before it appends, so its record follows all records of the input's transaction."""
    source, reader = appending("t", a=P, b=Q), loop("m", read(P, 0, 1, "a"), o=Q)
    after = history(source, reader, p=log("a"), q=log("b", "o"))
    assert found(analyse(after)) == ([], {})
    before = history(source, reader, p=log("a"), q=log("o", "b"))
    assert found(analyse(before)) == ([Kind.CIRCULAR_FLOW], {Kind.CIRCULAR_FLOW: 1})


def test_flow_through_an_overlapping_transaction_is_permitted() -> None:
    """A circular flow is permitted if one of its transactions overlaps the others.

    The cycle has two ww dependencies in a row. Transaction "u" was open all the time, so that it can follow "m" in Q
    and precede "t" in P.
    """
    source, long = appending("t", a=P, b=P), appending("u", (1, 40, 60), c=P, d=Q)
    reader = loop("m", read(P, 0, 1, "a"), o=Q)
    with_flow = found(analyse(history(source, long, reader, p=log("a", "c", "b"), q=log("o", "d"))))
    assert with_flow[0] == []
    assert with_flow[1][Kind.CIRCULAR_FLOW] == 1


def test_loop_depends_on_the_loop_that_committed_its_offset() -> None:
    """A loop depends on the loop that committed the offset at which it starts.

    The second consume-and-produce loop starts at the offset that the first one committed. If the second loop's commit
    precedes the first one's in the log, this is a circular flow.
    """
    source = appending("t", a=P, b=P)
    first, second = loop("m", read(P, 0, 1, "a"), o=Q), loop("n", read(P, 1, 2, "b"), began=70, r=Q)
    in_order = history(source, first, second, p=log("a", "b"), q=log("o", "r"))
    assert (1, 2) in Dependencies(in_order).write_read
    assert found(analyse(in_order))[0] == []
    reversed_ = history(source, first, second, p=log("a", "b"), q=log("r", "o"))
    assert found(analyse(reversed_))[0] == [Kind.CIRCULAR_FLOW]


def test_read_of_one_partition_of_a_transaction_is_read_skew() -> None:
    """The loop received "a", but polled the other partition before the marker was written there."""
    source = appending("t", a=P, b=Q)
    reader = loop("m", read(P, 0, 1, "a"), read(Q, 0, 1, "x"), o=TopicPartition("out", 0))
    other = appending("u", x=Q)
    assert found(analyse(history(source, other, reader, p=log("a"), q=log("x", "b")))) == ([], {Kind.READ_SKEW: 1})


def test_write_skew_between_two_loops_is_counted() -> None:
    """Write skew: each loop reads a partition before the other one appends to it."""
    source = appending("t", x=P, y=Q)
    one, two = loop("m", read(P, 0, 1, "x"), a=Q), loop("n", read(Q, 0, 1, "y"), b=P)
    analysis = analyse(history(source, one, two, p=log("x", "b"), q=log("y", "a")))
    assert found(analysis) == ([], {Kind.ANTI_DEPENDENCY_CYCLE: 2})


# ---- random histories against a direct computation -------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return committed transactions that append to two partitions; some also read each other's records."""
    count = draw(st.integers(2, 4))
    values = {
        f"{i}.{k}": (i, draw(st.sampled_from((P, Q)))) for i in range(count) for k in range(draw(st.integers(1, 2)))
    }
    order = draw(st.permutations(list(values)))
    logs = {name: log(*(value for value in order if values[value][1] == name)) for name in (P, Q)}
    places = draw(st.permutations(range(1, 3 * count + 1)))
    transactions = []
    for i in range(count):
        began, asked, ended = sorted(places[3 * i : 3 * i + 3])
        reads = []
        for name in (P, Q):
            start, end = sorted((draw(st.integers(0, len(logs[name]))), draw(st.integers(0, len(logs[name])))))
            if draw(st.booleans()):
                records = {offset: logs[name][offset] for offset in range(start, end)}
                reads.append(Read(name, start, records, end, LATE))
        appends = {value: name for value, (writer, name) in values.items() if writer == i}
        reply = ended if draw(st.booleans()) else None
        transactions.append(Transaction(str(i), appends, reads, began, asked, reply))
    return History(transactions, (), logs)


def _writer(given: History, value: str) -> int:
    return next(i for i, each in enumerate(given.transactions) if value in each.appends)


def _edges_by_definition(given: History) -> tuple[Edges, Edges, Edges]:
    """Return the ww, wr and rw edges, computed from their definitions for all pairs of transactions."""
    pairs = list(permutations(range(len(given.transactions)), 2))
    ww: Edges = {}
    wr: Edges = {}
    rw: Edges = {}
    for i, j in pairs:
        for name, found_log in given.logs.items():
            writers = [_writer(given, found_log[offset]) for offset in sorted(found_log)]
            if any(pair == (i, j) for pair in pairwise(writers)):
                ww[i, j] = None
            for each in given.transactions[j].reads:
                if each.partition == name and i in [_writer(given, value) for value in each.records.values()]:
                    wr[i, j] = None
            for each in given.transactions[i].reads:
                if each.partition == name and each.end is not None and writers[each.end : each.end + 1] == [j]:
                    rw[i, j] = None
    for name in given.logs:
        ends = sorted((each.end or 0, each.start, i) for i, t in enumerate(given.transactions) for each in t.reads
                      if each.partition == name and each.records)  # fmt: skip
        for (end, _, i), (_, start, j) in pairwise(ends):
            if end <= start and i != j:
                wr[i, j] = None
    return ww, wr, rw


def _paths(count: int, start: int, end: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all simple paths from one transaction to another as lists of pairs."""
    others = [each for each in range(count) if each not in (start, end)]
    for length in range(len(others) + 1):
        for middle in permutations(others, length):
            path = [start, *middle, end]
            yield list(pairwise(path))


def _on_cycle(count: int, edge: tuple[int, int], *allowed: Edges) -> bool:
    """Return whether edges of the allowed types form a path from the edge's end back to its start."""
    return any(
        all(any(step in edges for edges in allowed) for step in path) for path in _paths(count, edge[1], edge[0])
    )


STEPS = ("begin", "append", "ask", "commit", "reply")
Moment = tuple[int, str, tuple[TopicPartition, int] | None]
"""An event: the transaction's index, one of STEPS and, for an append, the partition and offset."""


def _contradicts_time(given: History, wr: Edges) -> bool:
    """Return whether an event would have to precede itself.

    Compute directly which event precedes which, for all pairs of events, and then the transitive closure.
    """
    events: list[Moment] = [
        (i, step, None) for i in range(len(given.transactions)) for step in STEPS if step != "append"
    ]
    events += [(_writer(given, value), "append", (name, at)) for name, rows in given.logs.items()
               for at, value in rows.items()]  # fmt: skip
    places = {(i, step): place for i, each in enumerate(given.transactions)
              for step, place in (("begin", each.began), ("ask", each.asked), ("reply", each.ended))}  # fmt: skip

    def before(one: Moment, two: Moment) -> bool:
        (i, step, append), (j, later, other) = one, two
        if i == j and STEPS.index(step) < STEPS.index(later):
            return True
        if append is not None and other is not None:
            return append[0] == other[0] and append[1] < other[1]
        # A loop's input was committed before its first append, but perhaps after the begin that its producer noted.
        if step == "commit" and later in ("append", "ask") and (i, j) in wr:
            return True
        place, next_place = places.get((i, step)), places.get((j, later))
        return place is not None and next_place is not None and place < next_place

    precedes = {pair: before(*pair) for pair in product(events, events)}
    for middle, one, two in product(events, events, events):
        precedes[one, two] = precedes[one, two] or (precedes[one, middle] and precedes[middle, two])
    return any(precedes[event, event] for event in events)


@settings(max_examples=300, deadline=None)
@given(histories())
def test_anomaly_analysis_agrees_with_a_brute_force_computation(given_history: History) -> None:
    count = len(given_history.transactions)
    ww, wr, rw = _edges_by_definition(given_history)
    inferred = Dependencies(given_history)
    assert (inferred.write_write, inferred.write_read, inferred.read_write) == (ww, wr, rw)

    single = [edge for edge in rw if _on_cycle(count, edge, ww, wr)]
    expected = {
        Kind.WRITE_CYCLE: sum(_on_cycle(count, edge, ww) for edge in ww),
        Kind.CIRCULAR_FLOW: sum(_on_cycle(count, edge, ww, wr) for edge in wr),
        Kind.READ_SKEW: len(single),
        Kind.ANTI_DEPENDENCY_CYCLE: sum(_on_cycle(count, edge, ww, wr, rw) for edge in rw if edge not in single),
    }
    analysis = analyse(given_history)
    assert {kind: analysis.permitted[kind] for kind in expected} == expected
    assert bool(analysis.forbidden) == _contradicts_time(given_history, wr)
