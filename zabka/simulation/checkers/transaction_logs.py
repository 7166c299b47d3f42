"""Compare the transactions in the log files with the state in the brokers' memory and with the replies to clients.

A transactional batch opens a transaction of its producer in the partition, unless one is already open there.  The
producer's next control batch (commit or abort marker) ends it.

The rules, by the names of their violations:

STABLE    the last stable offset of a broker that acts as leader is at most the first offset of the first open
          transaction in its own log, and at most its high watermark
EPOCHS    in every log, the epochs of a producer id never decrease
AGREE     a transaction has the same marker (commit or abort) in all its partitions, including `__consumer_offsets`
ON_DISKS  when a client receives the reply to EndTxn, all in-sync replicas of `__transaction_state` have the decision in
          their logs

Kafka allows one exception to the last rule.  A broker that was paused while another broker became leader still replies
for a moment.  If it has an ended transaction of the same producer and epoch, it takes EndTxn for the repeat of an
earlier request and acknowledges it (TransactionCoordinator.endTransaction; KIP-890, part 2 removes this).  Such a reply
proves nothing about the transaction.

This module parses the records of `__transaction_state` itself.  A key is its version (2 bytes, 0) and the transactional
id (a length of 2 bytes and the string).  A value begins with its version (2), the producer id (8) and epoch (2), a
timeout (4) and the state (1): 2 is PrepareCommit, 3 is PrepareAbort.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import java_hash
from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, InvariantViolated, TopicPartition, topic_partition
from zabka.kafka.end_transaction_marker import read_marker
from zabka.kafka.record_batch import (
    MAGIC,
    BatchHeader,
    Record,
    decode_batch,
    header_is_sane,
    is_control,
    is_transactional,
    read_header,
)
from zabka.kafka.topic_names import TRANSACTION_STATE
from zabka.simulation.checkers.audited_broker import AuditedBroker, log_bytes
from zabka.simulation.checkers.replica_logs import ReplicaLog
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.checkers.transaction_history import Attempt
from zabka.simulation.engine.scheduler import Scheduler

STABLE = "last stable offsets stay below open transactions"
EPOCHS = "the epochs of a producer never fall in a log"
AGREE = "all partitions of a transaction get the same marker"
ON_DISKS = "acknowledged ends of transactions are in the logs of all in sync"

_GROWTH = (e.RecordsAppended, e.HighWatermarkMoved, e.LastStableOffsetMoved, e.LeadershipTaken)
_CUTS = (e.LogTruncated, e.ReplicaLoaded)
_SHORT, _VALUE = struct.Struct(">h"), struct.Struct(">hqhib")
_OFFSET_COMMIT = struct.Struct(">hqi")
_PREPARED = {2: True, 3: False}
"""Whether the decision is to commit, by the state in a record."""
_OFFSET_KEYS = (0, 1)


def _batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    at = 0
    while (header := read_header(data, at)) is not None and at + header.size <= len(data):
        if header.magic != MAGIC or not header_is_sane(header):
            # Stop here: the power loss left zeros or garbage.
            return
        yield at, header
        at += header.size


class OpenTransactions(ReplicaLog):
    """Open transactions in one replica's log: for each producer id, the offset of the transaction's first batch."""

    __slots__ = ("epochs", "fallen", "opened")

    def again(self) -> None:
        """Discard all state, to read the log again from its start."""
        super().again()
        self.opened: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.fallen: str | None = None
        """Description of the first batch whose producer epoch is lower than that of an earlier batch, or None."""

    def _take(self, data: bytes) -> None:
        super()._take(data)
        for _, header in _batches(data):
            if header.producer_id < 0:
                continue
            epoch = self.epochs.get(header.producer_id, header.producer_epoch)
            if header.producer_epoch < epoch and self.fallen is None:
                self.fallen = f"producer {header.producer_id} in epoch {header.producer_epoch} at {header.base_offset}"
            self.epochs[header.producer_id] = max(epoch, header.producer_epoch)
            if is_control(header):
                self.opened.pop(header.producer_id, None)
            elif is_transactional(header):
                self.opened.setdefault(header.producer_id, header.base_offset)


class Decision(NamedTuple):
    """The outcome of a producer's transaction: commit or abort."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool


class Decisions(ReplicaLog):
    """Number of PrepareCommit and PrepareAbort records in one replica, by producer and outcome."""

    __slots__ = ("counts",)

    def again(self) -> None:
        """Discard all counts, to read the log again from its start."""
        super().again()
        self.counts: Counter[Decision] = Counter()

    def _take(self, data: bytes) -> None:
        super()._take(data)
        for at, header in _batches(data):
            for record in decode_batch(data, at, header):
                if record.key is not None and record.value is not None:
                    _, producer_id, epoch, _, state = _VALUE.unpack_from(record.value)
                    if state in _PREPARED:
                        name = _text(record.key, _SHORT.size)
                        self.counts[Decision(name, producer_id, epoch, _PREPARED[state])] += 1


class Ended(NamedTuple):
    """A transactional record or committed offset in a log, and whether its transaction was committed.

    `is_commit` is None while the transaction is open.
    """

    label: str
    is_commit: bool | None


def _text(data: bytes, at: int) -> str:
    size = _SHORT.unpack_from(data, at)[0]
    return data[at + _SHORT.size : at + _SHORT.size + size].decode()


def _label(topic: str, record: Record) -> str | None:
    """Return a label that the workload made unique: the record's value, or the metadata of a committed offset."""
    if topic != CONSUMER_OFFSETS:
        return (record.value or b"").decode()
    if record.value is None or _SHORT.unpack_from(record.key or b"\0\0")[0] not in _OFFSET_KEYS:
        return None
    return _text(record.value, _OFFSET_COMMIT.size)


def ended_records(topic: str, data: bytes) -> Iterator[Ended]:
    """Yield the transactional records of a log, each with the outcome of its transaction."""
    pending: dict[int, list[str]] = {}
    for at, header in _batches(data):
        if is_control(header):
            marker = read_marker(data, at, header)
            labels = pending.pop(header.producer_id, [])
            if marker is not None:
                yield from (Ended(label, marker.is_commit) for label in labels)
        elif is_transactional(header):
            found = (_label(topic, record) for record in decode_batch(data, at, header))
            pending.setdefault(header.producer_id, []).extend(label for label in found if label is not None)
    for labels in pending.values():
        yield from (Ended(label, None) for label in labels)


class TransactionLogs:
    """Checks transactions in the logs of some topics, `__consumer_offsets` and `__transaction_state` of one world."""

    def __init__(
        self,
        scheduler: Scheduler,
        nodes: Mapping[int, AuditedBroker],
        replication: ReplicationAudit,
        checked: CheckCounts,
        emit: Callable[[InvariantViolated], object],
        topics: Iterable[str],
    ) -> None:
        self._scheduler = scheduler
        self._nodes = nodes
        self._replication = replication
        self._checked = checked
        self._emit = emit
        self._topics = dict.fromkeys((*topics, CONSUMER_OFFSETS))
        self._opened: dict[tuple[int, TopicPartition], OpenTransactions] = {}
        self._decisions: dict[tuple[int, TopicPartition], Decisions] = {}
        self._acknowledged: Counter[Decision] = Counter()
        self._changed: dict[tuple[int, TopicPartition], None] = {}
        self._said: dict[tuple[str, TopicPartition], None] = {}

    # ---- last stable offsets ---------------------------------------------------------------------------------------

    def journalled(self, entry: Entry) -> None:
        """Handle a journal entry."""
        event = entry.event
        if not isinstance(event, _GROWTH + _CUTS):
            return
        changed = event.broker_id, topic_partition(event.topic, event.partition)
        if isinstance(event, _CUTS):
            for log in (self._opened.get(changed), self._decisions.get(changed)):
                if log is not None:
                    log.again()
        if event.topic not in self._topics:
            return
        if not self._changed:
            self._scheduler.soon(self._check_changed)
        self._changed[changed] = None

    def _check_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for broker, name in changed:
            running = self._nodes[broker].broker
            replica = None if running is None else running.replicas.partitions.get(name)
            if replica is None or not replica.is_leader:
                continue
            log = self._log(broker, name)
            log.read()
            stable, mark = replica.log.last_stable_offset, replica.log.high_watermark
            first = min(log.opened.values(), default=mark)
            self._checked.note(STABLE, bool(log.opened))
            self._checked.note(EPOCHS, bool(log.epochs))
            if stable > min(first, mark):
                self._violated(
                    STABLE, name, f"broker {broker} serves up to {stable}; a transaction is open from {first} on"
                )
            if log.fallen is not None:
                self._violated(EPOCHS, name, f"broker {broker}: {log.fallen}")

    def _log(self, broker: int, name: TopicPartition) -> OpenTransactions:
        found = self._opened.get((broker, name))
        if found is None:
            found = self._opened[broker, name] = OpenTransactions(self._nodes[broker], str(name))
        return found

    def is_decided(self, name: TopicPartition) -> bool:
        """Return whether the leader's log of a partition has no open transaction, and all its records are stable."""
        state = self._replication.znodes.states.get(name)
        running = None if state is None or state.leader not in self._nodes else self._nodes[state.leader].broker
        replica = None if running is None else running.replicas.partitions.get(name)
        if state is None or replica is None:
            return False
        log = self._log(state.leader, name)
        log.read()
        return not log.opened and replica.log.last_stable_offset == replica.log.end_offset

    # ---- decisions -------------------------------------------------------------------------------------------------

    def state_partition(self, transactional_id: str) -> TopicPartition:
        """Return the partition that stores the state of a transactional id, by the hash of the id."""
        topic = self._replication.znodes.topics.get(TRANSACTION_STATE)
        return TopicPartition(TRANSACTION_STATE, java_hash(transactional_id) % len(topic.partitions) if topic else 0)

    def is_proven(self, decision: Decision, coordinator: int) -> bool:
        """Handle an acknowledged EndTxn: check that all in-sync replicas have the record of its decision.

        Return False if the reply came from a former coordinator that took the request for a repeat: it has written an
        earlier equal decision, and no further one.
        """
        name = self.state_partition(decision.transactional_id)
        self._acknowledged[decision] += 1
        if str(name) in self._replication.forgiven():
            return True
        for broker in self._replication.in_sync(name):
            written, acknowledged = self._written(broker, name, decision), self._acknowledged[decision]
            self._checked.note(ON_DISKS)
            if written >= acknowledged:
                continue
            is_former = self._replication.znodes.states[name].leader != coordinator
            if is_former and 0 < self._written(coordinator, name, decision) < acknowledged:
                self._acknowledged[decision] -= 1
                return False
            self._violated(
                ON_DISKS, name,
                f"{acknowledged} of {decision} were acknowledged, the last by broker {coordinator}; "
                f"broker {broker} has {written}",
            )  # fmt: skip
        return True

    def _written(self, broker: int, name: TopicPartition, decision: Decision) -> int:
        """Return how often a broker's log contains the decision."""
        log = self._decisions.setdefault((broker, name), Decisions(self._nodes[broker], str(name)))
        log.read()
        return log.counts[decision]

    # ---- commit and abort markers ----------------------------------------------------------------------------------

    def check_markers(self, attempts: Iterable[Attempt]) -> None:
        """Check, at the end of the run, that each transaction has the same marker in all partition leaders' logs."""
        forgiven, logs = self._replication.forgiven(), {}
        for name, state in self._replication.znodes.states.items():
            if name.topic in self._topics and state.leader in self._nodes:
                data = log_bytes(self._nodes[state.leader], str(name))
                logs[name] = {ended.label: ended.is_commit for ended in ended_records(name.topic, data)}
        for attempt in attempts:
            used = [*attempt.partitions, self.state_partition(attempt.transactional_id)]
            if any(str(name) in forgiven for name in used):
                continue
            labels = [(name, value) for value, name in attempt.records.items()]
            if attempt.kept_in is not None:
                labels.append((attempt.kept_in, str(attempt.number)))
            found = {(name, label): logs[name][label] for name, label in labels if label in logs.get(name, {})}
            self._checked.note(AGREE, len(found) > 1)
            if len(dict.fromkeys(found.values())) > 1:
                told = ", ".join(f"{label} in {name}: {_TOLD[end]}" for (name, label), end in found.items())
                self._violated(AGREE, next(iter(found))[0], f"{attempt}: {told}")

    def _violated(self, invariant: str, name: TopicPartition, detail: str) -> None:
        if (invariant, name) not in self._said:
            self._said[invariant, name] = None
            self._emit(InvariantViolated(invariant, f"{name}: {detail}"))


_TOLD = {True: "committed", False: "aborted", None: "open"}
