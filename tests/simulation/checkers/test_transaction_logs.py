"""Last stable offsets, markers and decisions of brokers, checked against the bytes of the logs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, HighWatermarkMoved, InvariantViolated, LogTruncated, TopicPartition
from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch
from zabka.kafka.record_batch import TRANSACTIONAL, Record, build_batch
from zabka.kafka.zk.znodes import ReplicaAssignment, TopicAssignment
from zabka.simulation.checkers.transaction_history import Attempt
from zabka.simulation.checkers.transaction_logs import (
    AGREE,
    EPOCHS,
    ON_DISKS,
    STABLE,
    Decision,
    TransactionLogs,
    ended_records,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS, STATE = TopicPartition("__consumer_offsets", 0), TopicPartition("__transaction_state", 0)
COMMIT, ABORT = EndTransactionMarker(True, 0), EndTransactionMarker(False, 0)
FILE = "00000000000000000000.log"


def data(value: str, producer_id: int = 1, epoch: int = 0) -> bytes:
    return build_batch(
        [Record(None, value.encode(), 0)], producer_id=producer_id, producer_epoch=epoch, base_sequence=0,
        attributes=TRANSACTIONAL,
    )  # fmt: skip


def end(marker: EndTransactionMarker, producer_id: int = 1, epoch: int = 0) -> bytes:
    return marker_batch(producer_id, epoch, marker, 0)


def offset_commit(number: int) -> bytes:
    """Return a batch with an offset commit of group g in a transaction. `number` is its metadata.

    The formats are OffsetCommitKey 1 and OffsetCommitValue 3.
    """
    text = str(number).encode()
    value = struct.pack(">hqi", 3, 5, -1) + struct.pack(">h", len(text)) + text + bytes(8)
    key = bytes.fromhex("0001 0001 67 0001 74 00000000")
    return build_batch([Record(key, value, 0)], producer_id=1, producer_epoch=0, attributes=TRANSACTIONAL)


def decision(state: int, epoch: int = 0) -> bytes:
    """Return a batch with the state of transactional id x, which has producer id 1.

    The formats are TransactionLogKey 0 and TransactionLogValue 0.
    """
    return build_batch([Record(bytes.fromhex("0000 0001 78"), struct.pack(">hqhib", 0, 1, epoch, 1_000, state), 0)])


def log_of(batches: Sequence[bytes]) -> bytes:
    """Return the batches as a log, with increasing base offsets."""
    return b"".join(offset.to_bytes(8) + batch[8:] for offset, batch in enumerate(batches))


COMMITTED, ABORTED = Decision("x", 1, 0, True), Decision("x", 1, 0, False)


class Court:
    """The checker, and brokers 1 and 2, each with its own logs. Broker 1 leads every partition."""

    def __init__(
        self,
        *replicas: Mapping[TopicPartition, Sequence[bytes]],
        forgiven: Sequence[str] = (),
        in_sync: Sequence[int] = (),
    ) -> None:
        self.found: list[InvariantViolated] = []
        self.soon: list[Any] = []
        self.nodes: Any = {}
        for broker, logs in enumerate(replicas, 1):
            directory, partitions = MemoryLogDirectory(), {}
            for name, batches in logs.items():
                directory.create_partition(str(name))
                directory.open(str(name), FILE).append(log_of(batches))
                log = SimpleNamespace(last_stable_offset=0, high_watermark=len(batches), end_offset=len(batches))
                partitions[name] = SimpleNamespace(is_leader=broker == 1, log=log)
            running = SimpleNamespace(replicas=SimpleNamespace(partitions=partitions))
            self.nodes[broker] = SimpleNamespace(files=directory.files, broker=running)
        states = {name: SimpleNamespace(leader=1) for name in replicas[0]}
        topics = {"__transaction_state": TopicAssignment(None, {0: ReplicaAssignment((1, 2))})}
        replication: Any = SimpleNamespace(
            znodes=SimpleNamespace(topics=topics, states=states),
            in_sync=lambda name: list(in_sync or self.nodes),
            forgiven=lambda: dict.fromkeys(forgiven),
        )
        scheduler: Any = SimpleNamespace(soon=self.soon.append)
        self.checked = CheckCounts()
        self.logs = TransactionLogs(scheduler, self.nodes, replication, self.checked, self.found.append, ["t"])

    def moved(self, stable: int, name: TopicPartition = T0) -> list[str]:
        """Simulate that broker 1 returns committed records up to offset `stable` to consumers. Return the
        violations.
        """
        log = self.nodes[1].broker.replicas.partitions[name].log
        log.last_stable_offset = stable
        event = HighWatermarkMoved(1, name.topic, name.partition, 0, log.high_watermark, True)
        self.logs.journalled(Entry("broker-1", 1, 0, 0, event, 1))
        for call in self.soon:
            call()
        self.soon.clear()
        return self.said()

    def said(self) -> list[str]:
        return [each.invariant for each in self.found]


@pytest.mark.parametrize(
    ("batches", "stable", "found"),
    [
        ((data("a"), data("b")), 0, []),
        ((data("a"), data("b")), 1, [STABLE]),
        ((data("a"), end(COMMIT), data("b")), 2, []),
        ((data("a"), end(COMMIT), data("b")), 3, [STABLE]),
        ((data("a", 1), data("b", 2), end(ABORT, 1)), 1, []),
        ((data("a", 1), data("b", 2), end(ABORT, 1)), 2, [STABLE]),
        ((data("a"), end(ABORT)), 2, []),
        ((data("a"), end(ABORT)), 3, [STABLE]),
    ],
)
def test_last_stable_offset_must_not_pass_an_open_transaction(
    batches: Sequence[bytes], stable: int, found: list[str]
) -> None:
    assert Court({T0: batches}).moved(stable) == found


def test_batch_with_a_fenced_producer_epoch_is_a_violation() -> None:
    assert Court({T0: (data("a"), end(ABORT, epoch=1), data("b", epoch=1))}).moved(2) == []
    assert Court({T0: (data("a"), end(ABORT, epoch=1), data("b", epoch=0))}).moved(2) == [EPOCHS]


def test_truncated_log_is_read_again() -> None:
    court = Court({T0: (data("a"), end(COMMIT))})
    assert court.moved(2) == []
    file = court.nodes[1].files("t-0")[FILE]
    file.truncate(0)
    file.append(log_of((data("a"), data("b"))))
    court.logs.journalled(Entry("broker-1", 2, 0, 0, LogTruncated(1, "t", 0, 0, 2, 0), 2))
    assert court.moved(1) == [STABLE]


def test_partition_is_decided_when_all_its_transactions_ended() -> None:
    court = Court({T0: (data("a"), end(COMMIT)), T1: (data("a"),)})
    assert not court.logs.is_decided(T0)
    court.moved(2)
    assert court.logs.is_decided(T0) and not court.logs.is_decided(T1)
    assert not court.logs.is_decided(TopicPartition("t", 7))


def test_transactional_records_have_the_outcome_of_their_marker() -> None:
    log = log_of((data("a", 1), data("b", 2), end(COMMIT, 1), end(ABORT, 2), data("c", 2)))
    assert list(ended_records("t", log)) == [("a", True), ("b", False), ("c", None)]
    assert list(ended_records(OFFSETS.topic, log_of((offset_commit(17), end(ABORT))))) == [("17", False)]


def an_attempt(**records: TopicPartition) -> Attempt:
    return Attempt(17, "x", dict(records), kept_in=OFFSETS)


@pytest.mark.parametrize(
    ("second", "offsets", "forgiven", "found"),
    [
        (COMMIT, COMMIT, (), []),
        (ABORT, COMMIT, (), [AGREE]),
        (COMMIT, ABORT, (), [AGREE]),
        (ABORT, COMMIT, ("t-1",), []),
        (ABORT, COMMIT, ("__transaction_state-0",), []),
    ],
)
def test_partitions_of_a_transaction_must_get_the_same_marker(
    second: EndTransactionMarker, offsets: EndTransactionMarker, forgiven: Sequence[str], found: list[str]
) -> None:
    logs = {
        T0: (data("a"), end(COMMIT)),
        T1: (data("b"), end(second)),
        OFFSETS: (offset_commit(17), end(offsets)),
    }
    court = Court(logs, forgiven=forgiven)
    court.logs.check_markers([an_attempt(a=T0, b=T1)])
    assert court.said() == found


@pytest.mark.parametrize(
    ("replicas", "forgiven", "found"),
    [
        (((decision(1), decision(2)), (decision(1), decision(2))), (), []),
        (((decision(1), decision(2)), (decision(1),)), (), [ON_DISKS]),
        (((decision(1), decision(3)), (decision(1), decision(3))), (), [ON_DISKS]),
        (((decision(2, epoch=4),), (decision(2),)), (), [ON_DISKS]),
        (((decision(1),), (decision(1),)), ("__transaction_state-0",), []),
    ],
)
def test_acknowledged_transaction_commit_must_be_on_all_disks(
    replicas: Sequence[Sequence[bytes]], forgiven: Sequence[str], found: list[str]
) -> None:
    court = Court(*({STATE: batches} for batches in replicas), forgiven=forgiven)
    assert court.logs.is_proven(COMMITTED, coordinator=1)
    assert court.said() == found


def test_acknowledged_transaction_abort_must_be_on_all_disks() -> None:
    court = Court({STATE: (decision(3),)}, {STATE: (decision(2),)})
    assert court.logs.is_proven(ABORTED, coordinator=1)
    assert court.said() == [ON_DISKS]


def test_second_commit_of_a_producer_needs_a_second_decision() -> None:
    court = Court({STATE: (decision(2),)})
    assert court.logs.is_proven(COMMITTED, coordinator=1)
    assert court.said() == []
    assert court.logs.is_proven(COMMITTED, coordinator=1)
    assert court.said() == [ON_DISKS]


@pytest.mark.parametrize(
    ("of_former", "acknowledged", "found"),
    [
        ((decision(2),), COMMITTED, []),
        ((decision(2),), ABORTED, [ON_DISKS]),
        ((decision(2), decision(2)), COMMITTED, [ON_DISKS]),
        ((), COMMITTED, [ON_DISKS]),
    ],
)
def test_former_coordinator_can_repeat_an_earlier_reply(
    of_former: Sequence[bytes], acknowledged: Decision, found: list[str]
) -> None:
    """Broker 2 no longer leads the partition. A commit that it wrote alone is a violation."""
    court = Court({STATE: (decision(2),)}, {STATE: of_former}, in_sync=[1])
    assert court.logs.is_proven(COMMITTED, coordinator=1)
    assert court.logs.is_proven(acknowledged, coordinator=2) is bool(found)
    assert court.said() == found
