"""Anomalies of transactions, inferred from what clients sent and received: Elle's check for appends to lists.

Theory of operation
===================

Each record value is unique, so a partition is a list to which transactions append (Kingsbury and Alvaro, "Elle:
Inferring Isolation Anomalies from Experimental Observations", VLDB 2020).  The log that a consumer reads at the end is
the longest version of the list, and every earlier read is a part of it.  This module never asks a coordinator or
broker: its input is a `History` of requests, replies and received records, with a place in time for each.

A transaction is committed if its producer asked for that and either received the reply, or a consumer received one of
its records.  A read-process-write loop is a transaction that reads: its input is in `Transaction.reads`, and it reads
all of it before its first append.  The dependencies of committed transactions (Adya, "Weak Consistency", 1999):

==  ====================================================================================================================
ww  T2 appended the next record after a record of T1 to a partition
wr  T2 read a record of T1, or T2 read an input partition from the offset on that T1 had committed
rw  T1 read a partition up to an offset, and T2 appended the next record after that offset
rt  T1's producer asked to commit, or received the reply to that, before T2 began or asked to commit (real time)
==  ====================================================================================================================

Kafka does not isolate writes: an append is in the log at once, and markers only decide who may read it.  Jepsen's
analysis of Redpanda 21.10.1 calls write cycles normal in Kafka's model, but aborted reads and circular information flow
bugs; its analysis of Bufstream 0.1.0 finds aborted reads and torn transactions.  Therefore:

==================  ========================================================================================  =========
anomaly             meaning                                                                                   here
==================  ========================================================================================  =========
G1a                 a consumer received a record of an aborted transaction                                    forbidden
unfinished read     ... or a record before its producer asked for the commit, or without such a request       forbidden
G1b                 a consumer passed some records of a transaction in a partition, and received others       forbidden
incompatible order  a consumer passed a whole transaction, or received a record that the final log lacks      forbidden
G1c, of intervals   a cycle that no order of time explains (see below)                                        forbidden
G0                  a cycle of ww: the records of two transactions interleave                                 counted
G1c                 a cycle of ww and at least one wr                                                         counted
G-single            a cycle with exactly one rw, such as a read of one partition of a transaction only        counted
G2                  a cycle with several rw, such as write skew                                               counted
split read          a poll ends between two records of a transaction: G1b for lists, but polls end anywhere   counted
==================  ========================================================================================  =========

A transaction in Kafka is an interval in which others can append: it begins, its records are appended, its producer asks
to commit, it is committed, and its producer receives the reply.  Three more orders of time hold: the clients' requests
and replies have places in time; the records of a partition were appended in the order of their offsets; and T1 was
committed before T2 began to append if T2 depends on T1 by wr.  A cycle in these orders is impossible, and every cycle
of wr alone is one.  Cycles that are only counted have two ww in a row, or a rw: the marker of a transaction can be
written to one partition later than to another, so a rw gives no order.

Transactions that depend on a partition that lost records in a way that Kafka allows (`Transaction.is_excused`) take no
part in the check.  `TransactionHistory` reports values that no transaction appended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import islice, pairwise
from typing import NamedTuple

from zabka.journal.events import TopicPartition


class Kind(StrEnum):
    """Kinds of anomalies. An anomaly that Adya or Elle has named keeps that name."""

    ABORTED_READ = "G1a"
    UNFINISHED_READ = "unfinished read"
    INTERMEDIATE_READ = "G1b"
    INCOMPATIBLE_ORDER = "incompatible order"
    SPLIT_READ = "split read"
    WRITE_CYCLE = "G0"
    WRITE_CYCLE_IN_TIME = "G0-realtime"
    CIRCULAR_FLOW = "G1c"
    CIRCULAR_FLOW_IN_TIME = "G1c-realtime"
    READ_SKEW = "G-single"
    ANTI_DEPENDENCY_CYCLE = "G2"


class Read(NamedTuple):
    """Records that a read_committed consumer received from a partition, from offset `start` on.

    `end` is its next position, or None if it is not known.  `at` is the read's place in time.
    """

    partition: TopicPartition
    start: int
    records: Mapping[int, str]
    end: int | None
    at: int


class Transaction(NamedTuple):
    """One transaction, as its producer sees it.

    `began`, `asked` and `ended` are the positions in time of the transaction's begin, of its request to commit, and of
    the reply to that request. Each is None if there was none.
    """

    name: str
    appends: Mapping[str, TopicPartition]
    reads: Sequence[Read]
    began: int
    asked: int | None = None
    ended: int | None = None
    is_aborted: bool = False
    is_excused: bool = False

    @property
    def places(self) -> list[int]:
        """Return the positions in time of the transaction's start, of its commit request and of the reply.

        Positions that are None are omitted.
        """
        return [place for place in (self.began, self.asked, self.ended) if place is not None]


class History(NamedTuple):
    """History of a run, as its clients observed it.

    `reads` are the reads outside of transactions, and `logs` contains the final reads.
    """

    transactions: Sequence[Transaction]
    reads: Sequence[Read]
    logs: Mapping[TopicPartition, Mapping[int, str]]


class Anomaly(NamedTuple):
    """An anomaly that Kafka forbids, with the transactions and records that show it."""

    kind: Kind
    detail: str


class Analysis(NamedTuple):
    """All forbidden anomalies of a history, and the number of permitted ones.

    Cycles are counted by their dependencies: G0 by each ww in a cycle, G1c by each wr, G-single and G2 by each rw.
    `checked` is the number of received records and of dependencies.
    """

    forbidden: list[Anomaly]
    permitted: Counter[Kind]
    checked: int


Edges = dict[tuple[int, int], None]
"""Dependencies of one type, as pairs of indices of transactions."""


class Dependencies:
    """The dependencies between the committed transactions of a history."""

    def __init__(self, history: History) -> None:
        self._transactions = history.transactions
        self._logs = {name: sorted(log.items()) for name, log in history.logs.items()}
        self._writers = {value: i for i, each in enumerate(history.transactions) for value in each.appends}
        received = [value for read in all_reads(history) for value in read.records.values()]
        seen = {self._writers[value]: None for value in received if value in self._writers}
        self.committed = {
            i: None
            for i, each in enumerate(history.transactions)
            if each.asked is not None and not (each.is_aborted or each.is_excused)
            if each.ended is not None or i in seen
        }
        """Indices of the committed transactions that are not excused."""
        self.write_write: Edges = {}
        self.write_read: Edges = {}
        self.read_write: Edges = {}
        for log in self._logs.values():
            self._add(self.write_write, pairwise(i for _, i in self.appended(log)))
        for i in self.committed:
            for read in history.transactions[i].reads:
                self._add(self.write_read, ((self.writer(value), i) for value in read.records.values()))
                self._add(self.read_write, ((i, writer) for writer in self._next_writer(read)))
        self._add(self.write_read, self._handovers())

    def _add(self, edges: Edges, found: Iterable[tuple[int | None, int | None]]) -> None:
        edges.update({(i, j): None for i, j in found if i is not None and j is not None and i != j})

    def writer(self, value: str) -> int | None:
        """Return the index of the committed transaction that appended a value; None if there is none."""
        found = self._writers.get(value)
        return found if found in self.committed else None

    def appended(self, log: Iterable[tuple[int, str]]) -> Iterator[tuple[int, int]]:
        """Yield the offset and the transaction of each record in a log, except those of excused transactions."""
        for offset, value in log:
            writer = self.writer(value)
            if writer is not None:
                yield offset, writer

    def _next_writer(self, read: Read) -> Iterator[int]:
        """Yield the transaction that appended the first record after a read, if there is one."""
        if read.end is not None:
            end, log = read.end, self._logs.get(read.partition, [])
            yield from islice((i for _, i in self.appended(row for row in log if row[0] >= end)), 1)

    def _handovers(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of loops: the second loop reads a partition from the offset that the first loop committed."""
        ranges: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        for i in self.committed:
            for read in self._transactions[i].reads:
                if read.end is not None and read.start < read.end:
                    ranges.setdefault(read.partition, []).append((read.end, read.start, i))
        for found in ranges.values():
            yield from ((i, j) for (end, _, i), (_, start, j) in pairwise(sorted(found)) if start >= end)


def all_reads(history: History) -> Iterator[Read]:
    """Yield the reads inside and outside of transactions, and then the final reads."""
    for transaction in history.transactions:
        yield from transaction.reads
    yield from history.reads
    after = 1 + max((each.asked for each in history.transactions if each.asked is not None), default=0)
    for name, log in history.logs.items():
        yield Read(name, 0, log, None, after)


def analyse(history: History) -> Analysis:
    """Return the anomalies of a history."""
    found = Dependencies(history)
    forbidden = [*_dirty_reads(history), *_incomplete_reads(history, found), *_impossible_cycle(history, found)]
    permitted = _cycles(len(history.transactions), found)
    permitted[Kind.SPLIT_READ] = sum(_split_reads(history, found))
    edges = len(found.write_write) + len(found.write_read) + len(found.read_write)
    return Analysis(forbidden, permitted, edges + sum(len(read.records) for read in all_reads(history)))


# ---- reads -----------------------------------------------------------------------------------------------------------


def _dirty_reads(history: History) -> list[Anomaly]:
    """Return one anomaly for each record that was received although its transaction was aborted or unfinished."""
    writers = {value: each for each in history.transactions for value in each.appends}
    found: dict[tuple[Kind, str], Anomaly] = {}
    for read in all_reads(history):
        for offset, value in read.records.items():
            writer = writers.get(value)
            if writer is None or writer.is_excused:
                continue
            where = f"{value} at {read.partition} offset {offset} was received; {writer.name}"
            if writer.is_aborted:
                found.setdefault((Kind.ABORTED_READ, value), Anomaly(Kind.ABORTED_READ, f"{where} was aborted"))
            elif writer.asked is None or writer.asked > read.at:
                detail = f"{where} had not asked to commit"
                found.setdefault((Kind.UNFINISHED_READ, value), Anomaly(Kind.UNFINISHED_READ, detail))
    return list(found.values())


def _incomplete_reads(history: History, found: Dependencies) -> list[Anomaly]:
    """Return the reads that passed committed records, or received records that the final log does not have."""
    anomalies = {}
    for read in all_reads(history):
        log = history.logs.get(read.partition, {})
        for offset, value in read.records.items():
            writer = found.writer(value)
            if writer is not None and log.get(offset) != value:
                detail = f"{value} was received at {read.partition} offset {offset}; the log has {log.get(offset)}"
                anomalies[value] = Anomaly(Kind.INCOMPATIBLE_ORDER, detail)
        received = {found.writer(value) for value in read.records.values()}
        for offset, value in log.items():
            writer = found.writer(value)
            if writer is None or read.end is None or not read.start <= offset < read.end or offset in read.records:
                continue
            kind = Kind.INTERMEDIATE_READ if writer in received else Kind.INCOMPATIBLE_ORDER
            name = history.transactions[writer].name
            detail = f"a read of {read.partition} from {read.start} to {read.end} passed {value} at {offset} of {name}"
            anomalies[value] = Anomaly(kind, detail)
    return list(anomalies.values())


def _split_reads(history: History, found: Dependencies) -> Iterator[int]:
    """Yield, for each read, how many transactions it has read only in part.

    These are transactions of which later records follow in the same partition.
    """
    for read in all_reads(history):
        if read.end is not None:
            log = history.logs.get(read.partition, {})
            later = {found.writer(value) for offset, value in log.items() if offset >= read.end}
            yield len(({found.writer(value) for value in read.records.values()} & later) - {None})


# ---- cycles ----------------------------------------------------------------------------------------------------------


def _closure(count: int, *types: Edges) -> list[int]:
    """Return for each transaction the set of transactions that it reaches, as the bits of an integer (Warshall)."""
    reached = [0] * count
    for edges in types:
        for i, j in edges:
            reached[i] |= 1 << j
    for middle in range(count):
        for i in range(count):
            if reached[i] >> middle & 1:
                reached[i] |= reached[middle]
    return reached


def _cycles(count: int, found: Dependencies) -> Counter[Kind]:
    """Count the dependencies that are part of a cycle."""

    def on_cycle(edges: Edges, reached: list[int]) -> Edges:
        return {(i, j): None for i, j in edges if reached[j] >> i & 1}

    ww, wr, rw = found.write_write, found.write_read, found.read_write
    flow = _closure(count, ww, wr)
    single, every = on_cycle(rw, flow), on_cycle(rw, _closure(count, ww, wr, rw))
    return Counter(
        {
            Kind.WRITE_CYCLE: len(on_cycle(ww, _closure(count, ww))),
            Kind.CIRCULAR_FLOW: len(on_cycle(wr, flow)),
            Kind.READ_SKEW: len(single),
            Kind.ANTI_DEPENDENCY_CYCLE: len(every) - len(single),
        }
    )


class _Moment(StrEnum):
    BEGIN = "begin"
    APPEND = "append"
    COMMIT = "commit"
    CLOCK = "clock"


class _Event(NamedTuple):
    """A point in a transaction, as a node of the graph that orders transactions in time.

    An append also has the place of its record in the log. A CLOCK is only a point in time, and belongs to no
    transaction.
    """

    moment: _Moment
    transaction: int
    place: tuple[TopicPartition, int] | None = None


_Order = dict[_Event, list[_Event]]
"""For each event, events that precede it."""


def _impossible_cycle(history: History, found: Dependencies) -> list[Anomaly]:
    """Return a cycle of events that each precede the next one, or an empty list if there is no such cycle.

    Search first without the times of the clients' clock, and use these times only if no cycle was found.
    """
    for order in (_order_without_clock(history, found), _order_by_clock(history, found)):
        try:
            TopologicalSorter(order).prepare()
        except CycleError as error:
            return [_described(history, error.args[1])]
    return []


def _order_without_clock(history: History, found: Dependencies) -> _Order:
    order: _Order = {_Event(_Moment.COMMIT, i): [_Event(_Moment.BEGIN, i)] for i in found.committed}
    for name, log in history.logs.items():
        appends = [_Event(_Moment.APPEND, i, (name, offset)) for offset, i in found.appended(sorted(log.items()))]
        for append in appends:
            order.setdefault(append, []).append(_Event(_Moment.BEGIN, append.transaction))
            order[_Event(_Moment.COMMIT, append.transaction)].append(append)
        for before, after in pairwise(appends):
            order[after].append(before)
    for i, j in found.write_read:
        order.setdefault(_Event(_Moment.BEGIN, j), []).append(_Event(_Moment.COMMIT, i))
    return order


def _order_by_clock(history: History, found: Dependencies) -> _Order:
    order = _order_without_clock(history, found)
    clock = {place: _Event(_Moment.CLOCK, place) for each in history.transactions for place in each.places}
    for earlier, later in pairwise(sorted(clock)):
        order.setdefault(clock[later], []).append(clock[earlier])
    for i in found.committed:
        began, asked, *ended = [clock[place] for place in history.transactions[i].places]
        commit = _Event(_Moment.COMMIT, i)
        order.setdefault(_Event(_Moment.BEGIN, i), []).append(began)
        order.setdefault(asked, []).extend(event for event in order[commit] if event.moment is not _Moment.CLOCK)
        order[commit].append(asked)
        for reply in ended:
            order.setdefault(reply, []).append(commit)
    return order


def _described(history: History, cycle: Sequence[_Event]) -> Anomaly:
    """Return the anomaly for a cycle of events.

    The last event of the cycle is the same as the first.
    """
    events = list(cycle[:-1])
    start = next(at for at, event in enumerate(events) if event.moment is _Moment.BEGIN)
    text, current, types = "", None, []
    for before, event in pairwise([events[start - 1], *events[start:], *events[:start], events[start]]):
        if event.moment is _Moment.CLOCK or event.transaction == current:
            continue
        if current is not None:
            types.append("ww" if event.place else "rt" if before.moment is _Moment.CLOCK else "wr")
            text += f" -{types[-1]}{f' in {event.place[0]}' if event.place else ''}-> "
        text += history.transactions[event.transaction].name
        current = event.transaction
    kinds = {
        (False, True): Kind.WRITE_CYCLE_IN_TIME,
        (True, False): Kind.CIRCULAR_FLOW,
        (True, True): Kind.CIRCULAR_FLOW_IN_TIME,
    }
    return Anomaly(kinds["wr" in types, "rt" in types], text)
