"""The invariants of kafka-specification, checked with the state of the simulated world: each violation is reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.simulation import injected
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.txn import CloseSessionTxn, CreateTxn, DeleteTxn, ErrorTxn, MultiTxn, SetDataTxn, SubTxn, Txn
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, FaultInjected, HighWatermarkMoved, InvariantViolated, TopicPartition
from zabka.kafka.record_batch import Record, build_batch, read_header
from zabka.kafka.zk.znodes import (
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
    encode_partition_state,
    encode_topic,
)
from zabka.simulation.checkers.kafka_znodes import Configured, KafkaZnodes, Registered, StateWritten, TopicGone
from zabka.simulation.checkers.minimums import Minimums
from zabka.simulation.checkers.replica_logs import ReplicaLog
from zabka.simulation.checkers.replication_audit import ReplicationAudit, check_write
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.run import run_seed

T0 = TopicPartition("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"


def txn(zxid: int, body: object) -> Txn:
    return Txn(SessionId(1), 1, Zxid(zxid), 0, OpCode.MULTI, body)  # type: ignore[arg-type]


def created(path: str, data: bytes) -> CreateTxn:
    return CreateTxn(path, data, OPEN_ACL, False, 1)


def state(leader: int, epoch: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, isr, 1)


def leading(*replicas: int) -> SimpleNamespace:
    """Return the state of a leader in epoch 0. Brokers 1 and 2 are in sync, and two records are committed."""
    return SimpleNamespace(
        is_leader=True,
        leader_epoch=0,
        replicas=replicas,
        isr_state=SimpleNamespace(isr=(1, 2)),
        settings=SimpleNamespace(min_insync_replicas=1),
        log=SimpleNamespace(high_watermark=2),
    )


def write(before: LeaderAndIsr | None, after: LeaderAndIsr) -> list[str]:
    return [invariant for invariant, _ in check_write(StateWritten(T0, before, after), (1, 2, 3))]


# -- partition states in the quorum


@pytest.mark.parametrize(
    ("before", "after", "broken"),
    [
        (None, state(1, 0, (1, 2)), []),
        (state(1, 0, (1, 2)), state(-1, 1, (1,)), []),
        (state(1, 0, (1, 2)), state(2, 1, (2,)), []),
        (None, state(3, 0, (1, 2)), ["LeaderInIsr"]),
        (state(1, 0, (1,)), state(-1, 1, ()), ["LeaderInIsr"]),
        (None, state(1, 0, (1, 9)), ["TypeOk"]),
        (state(1, 4, (1, 2)), state(1, 3, (1, 2)), ["TypeOk"]),
        (state(1, 4, (1, 2)), state(2, 4, (1, 2)), ["TypeOk"]),
    ],
)
def test_partition_state_is_checked_when_it_is_written(
    before: LeaderAndIsr | None, after: LeaderAndIsr, broken: list[str]
) -> None:
    assert write(before, after) == broken


def test_kafka_state_is_read_from_committed_transactions() -> None:
    znodes = KafkaZnodes()
    first, second = state(1, 0, (1, 2)), state(2, 1, (2,))
    topic = TopicAssignment(None, {0: ReplicaAssignment((1, 2))})
    assert list(znodes.committed(txn(5, created("/brokers/ids/1", b"{}")))) == [Registered(1, True)]
    list(znodes.committed(txn(6, created("/brokers/topics/t", encode_topic(topic)))))
    made = list(znodes.committed(txn(7, created(STATE, encode_partition_state(first)))))
    changed = SetDataTxn(STATE, encode_partition_state(second), 1)
    multi = MultiTxn([SubTxn(OpCode.SET_DATA, changed.encode())])
    written = list(znodes.committed(txn(8, multi)))
    assert made == [StateWritten(T0, None, first)]
    assert written == [StateWritten(T0, first, second._replace(partition_epoch=1))]
    assert (znodes.brokers, znodes.topics) == ({1: 5}, {"t": topic})
    assert list(znodes.committed(txn(9, CloseSessionTxn(["/brokers/ids/1"])))) == [Registered(1, False)]
    list(znodes.committed(txn(10, DeleteTxn(STATE))))
    assert list(znodes.committed(txn(11, DeleteTxn("/brokers/topics/t")))) == [TopicGone("t")]
    assert (znodes.brokers, znodes.topics, znodes.states) == ({}, {}, {})


def test_rejected_multi_does_not_change_the_state() -> None:
    """A rejected multi does not change the checker's state.

    Its transaction still contains the operations before the rejected one (PrepRequestProcessor).
    """
    znodes = KafkaZnodes()
    first, second = state(1, 0, (1, 2)), state(2, 1, (2,))
    list(znodes.committed(txn(7, created(STATE, encode_partition_state(first)))))
    changed = SetDataTxn(STATE, encode_partition_state(second), 1)
    refused = MultiTxn(
        [
            SubTxn(OpCode.SET_DATA, changed.encode()),
            SubTxn(OpCode.DELETE, DeleteTxn("/brokers/topics/u").encode()),
            SubTxn(OpCode.ERROR, ErrorTxn(ErrorCode.BAD_VERSION).encode()),
        ]
    )
    assert list(znodes.committed(txn(8, refused))) == []
    assert znodes.states == {T0: first}


def test_config_overrides_are_read_from_committed_transactions() -> None:
    znodes = KafkaZnodes()
    overrides = b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    made = list(znodes.committed(txn(5, created("/config/topics/t", overrides))))
    notified = list(znodes.committed(txn(6, created("/config/changes/config_change_0000000000", b"{}"))))
    gone = list(znodes.committed(txn(7, DeleteTxn("/config/topics/t"))))
    assert made == [Configured("topics/t", {"min.insync.replicas": "2"})]
    assert (notified, gone) == ([], [Configured("topics/t", {})])


# -- a replica that joins the ISR has all committed records


def node_with(values: bytes, replica: object = None) -> Any:
    """Return a broker whose log of t-0 has one record for each byte of `values`."""
    directory = MemoryLogDirectory()
    directory.create_partition("t-0")
    file = directory.open("t-0", "00000000000000000000.log")
    for offset, value in enumerate(values):
        record = Record(key=None, value=bytes([value]), timestamp_ms=0)
        file.append(build_batch([record], base_offset=offset))
    partitions = {} if replica is None else {T0: replica}
    running = SimpleNamespace(controller=SimpleNamespace(term=None), replicas=SimpleNamespace(partitions=partitions))
    return SimpleNamespace(name="", broker=running, files=directory.files)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"ab", []),
        (b"abc", []),
        (b"a", ["WhoJoinsHasAll"]),
        (b"ax", ["WhoJoinsHasAll"]),
    ],
)
def test_isr_join_without_committed_records_is_a_violation(log: bytes, said: list[str]) -> None:
    first = leading(1, 2, 3)
    nodes: Any = {1: node_with(b"ab", first), 2: node_with(b"ab"), 3: node_with(log)}
    found: list[InvariantViolated] = []
    audit = ReplicationAudit(Scheduler(), nodes, CheckCounts(), found.append, Minimums(1, 6_000))
    audit.committed(txn(5, created(STATE, encode_partition_state(state(1, 0, (1, 2))))))
    audit.journalled(Entry("broker-1", 1, 0, 0, HighWatermarkMoved(1, "t", 0, 0, 2, True)))
    # The leader dies, so no broker can be asked for the partition's high watermark.
    nodes[1].broker = None
    audit.committed(txn(6, SetDataTxn(STATE, encode_partition_state(state(2, 1, (2,))), 0)))
    audit.committed(txn(7, SetDataTxn(STATE, encode_partition_state(state(2, 1, (2, 3))), 1)))
    assert [violation.invariant for violation in found] == said


@pytest.mark.parametrize(
    ("log", "forgiven"),
    [(b"ab", []), (b"abc", []), (b"a", ["t-0"]), (b"ax", ["t-0"])],
)
@pytest.mark.parametrize("is_elected", [True, False])
def test_record_losses_after_a_power_loss_are_allowed(log: bytes, forgiven: list[str], is_elected: bool) -> None:
    leader = leading(1, 2)
    nodes: Any = {1: node_with(b"ab", leader), 2: node_with(b"ab")}
    nodes[1].name, nodes[2].name = "broker-1", "broker-2"
    audit = ReplicationAudit(Scheduler(), nodes, CheckCounts(), lambda _: None, Minimums(1, 6_000))
    audit.committed(txn(5, created(STATE, encode_partition_state(state(1, 0, (1, 2))))))
    audit.journalled(Entry("broker-1", 1, 0, 0, HighWatermarkMoved(1, "t", 0, 0, 2, True)))
    # Either a follower loses power and is then elected, or the leader loses power and is elected again with another
    # epoch.
    loser = 2 if is_elected else 1
    audit.journalled(
        Entry("world", 1, 0, 0, FaultInjected("f1", "power_loss", nodes[loser].name, nodes[loser].name, False, 0))
    )
    nodes[1].broker = nodes[2].broker = None
    nodes[loser].files = node_with(log).files
    audit.committed(txn(6, SetDataTxn(STATE, encode_partition_state(state(loser, 1, (loser,))), 0)))
    assert list(audit.forgiven()) == forgiven


def test_power_loss_excuses_losses_only_after_reregistration() -> None:
    # The leader is dead but still registered, so that a reassignment increases its leader epoch (seed 1309 of chaos).
    leader = leading(1, 2)
    nodes: Any = {1: node_with(b"ab", leader), 2: node_with(b"ab")}
    nodes[1].name, nodes[2].name = "broker-1", "broker-2"
    audit = ReplicationAudit(Scheduler(), nodes, CheckCounts(), lambda _: None, Minimums(1, 6_000))
    audit.committed(txn(4, created("/brokers/ids/1", b"{}")))
    audit.committed(txn(5, created(STATE, encode_partition_state(state(1, 0, (1, 2))))))
    audit.journalled(Entry("broker-1", 1, 0, 0, HighWatermarkMoved(1, "t", 0, 0, 2, True)))
    audit.journalled(Entry("world", 1, 0, 0, FaultInjected("f1", "power_loss", "broker-1", "broker-1", False, 0)))
    nodes[1].broker = None
    nodes[1].files = node_with(b"").files
    audit.committed(txn(6, SetDataTxn(STATE, encode_partition_state(state(1, 1, (1, 2))), 0)))
    assert list(audit.forgiven()) == []
    audit.committed(txn(7, DeleteTxn("/brokers/ids/1")))
    audit.committed(txn(8, created("/brokers/ids/1", b"{}")))
    audit.committed(txn(9, SetDataTxn(STATE, encode_partition_state(state(1, 2, (1, 2))), 1)))
    assert list(audit.forgiven()) == ["t-0"]


# -- logs on disk


def test_log_read_by_the_checker_follows_appends_and_truncations() -> None:
    directory = MemoryLogDirectory()
    directory.create_partition("t-0")
    log = ReplicaLog(directory, "t-0")
    log.read()
    assert (log.end, log.batches) == (0, {})
    file = directory.open("t-0", "00000000000000000000.log")
    batch = build_batch([Record(key=None, value=b"a", timestamp_ms=0)])
    file.append(batch)
    log.read()
    assert (log.start, log.end, list(log.batches)) == (0, 1, [0])
    file.truncate(0)
    log.read()
    assert (log.end, log.batches) == (0, {})


def test_damaged_batch_on_disk_is_detected_by_its_bytes() -> None:
    directory = MemoryLogDirectory()
    directory.create_partition("t-0")
    batches = [build_batch([Record(key=None, value=value, timestamp_ms=0)], base_offset=at) for at, value in
               enumerate((b"a", b"b"))]  # fmt: skip
    damaged = batches[1][:-2] + b"c" + batches[1][-1:]
    file = directory.open("t-0", "00000000000000000000.log")
    file.append(batches[0] + damaged)
    log, whole = ReplicaLog(directory, "t-0"), read_header(batches[1])
    log.read()
    assert whole is not None and damaged != batches[1]
    assert log.damaged == 1 and log.batches[1].checksum != whole.crc
    file.truncate(len(batches[0]))
    log.read()
    assert log.damaged is None and list(log.batches) == [0]


@pytest.mark.parametrize("rubbish", [bytes(200), b"\xcf" * 200, bytes(8) + b"\xcf\xe5\x9c\x1b" + bytes(100)])
def test_bytes_on_disk_that_are_not_a_batch_are_damage(rubbish: bytes) -> None:
    directory = MemoryLogDirectory()
    directory.create_partition("t-0")
    file = directory.open("t-0", "00000000000000000000.log")
    whole = build_batch([Record(key=None, value=b"a", timestamp_ms=0)])
    file.append(whole + rubbish)
    log = ReplicaLog(directory, "t-0")
    log.read()
    assert (log.damaged, log.end, list(log.batches)) == (1, 1, [0])
    file.truncate(len(whole))
    log.read()
    assert (log.damaged, log.end) == (None, 1)


# -- injected bugs that the checker reports


@pytest.mark.parametrize(
    ("bug", "seed", "invariants"),
    [
        ("high watermark is the leader's log end", 0, ["WeakIsr", "StrongIsr", "ValidHighWatermark"]),
        ("no truncation on fetch", 19, ["StrongIsr"]),
    ],
)
def test_injected_replication_bug_violates_its_invariants(bug: str, seed: int, invariants: list[str]) -> None:
    with injected.INJECTED[bug]():
        said = " ".join(run_seed(seed).problems)
    assert [name for name in invariants if name not in said] == []
