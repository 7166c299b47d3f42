"""Several log directories, and the state of replicas after one directory fails (KIP-112)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim import broker_world
from tests.broker_sim.groups.group_driver import GROUP, find
from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory, MemoryLogFile
from tests.broker_sim.replication.replication_cluster import at_once, batch
from zabka.broker_sim.broker_process import main
from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.ensemble.runtime.files import HOST
from zabka.journal import events as e
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes

ORDERS = [TopicPartition("orders", number) for number in range(4)]


class BrittleFile(MemoryLogFile):
    """Log file whose operations can be made to fail."""

    def __init__(self, directory: BrittleDirectory) -> None:
        super().__init__()
        self.directory = directory

    def append(self, data: bytes) -> int:
        self.directory.check()
        return super().append(data)

    def read(self, position: int, size: int) -> bytes:
        self.directory.check()
        return super().read(position, size)


class BrittleDirectory(MemoryLogDirectory):
    """Log directory on a disk that can be made to fail."""

    is_broken = False
    error = errno.EIO

    def check(self) -> None:
        if self.is_broken:
            raise OSError(self.error, os.strerror(self.error))

    def open(self, name: str, file: str) -> MemoryLogFile:
        self.check()
        return self._files[name].setdefault(file, BrittleFile(self))

    def read_text(self, name: str, file: str) -> str | None:
        self.check()
        return super().read_text(name, file)

    def write_text(self, name: str, file: str, text: str) -> None:
        self.check()
        super().write_text(name, file, text)

    def rename_partition(self, name: str, to: str) -> None:
        self.check()
        super().rename_partition(name, to)

    def delete_partition(self, name: str) -> None:
        self.check()
        super().delete_partition(name)


class TwoDisks(broker_world.Cluster):
    """Three brokers with two disks each."""

    def __init__(self, **keys: str) -> None:
        super().__init__(3, replica_lag_time_max_ms="2000", **keys)
        self.disks = {broker_id: (BrittleDirectory(), BrittleDirectory()) for broker_id in self.nodes}
        self.halted: list[str] = []
        for broker_id, node in self.nodes.items():
            node.directory = self.disks[broker_id][0]
            node.more_ports = {
                "log_directories": [node.directory, self.disks[broker_id][1]],
                "halt": self.halted.append,
            }

    def replicas_on(self, broker_id: int, disk: int) -> list[TopicPartition]:
        """Return the partitions with a replica on that disk."""
        names = self.disks[broker_id][disk].partitions()
        return [partition for partition in ORDERS if str(partition) in names]

    def state(self, partition: TopicPartition) -> znodes.LeaderAndIsr:
        znode = self.ensemble.nodes[znodes.partition_state_path(partition)]
        state = znodes.decode_partition_state(znode.data, znode.version)
        assert state is not None
        return state

    def produce(self, broker_id: int, partition: TopicPartition, acks: int = 1) -> int:
        answer = self.nodes[broker_id].broker.replicas.produce([(partition, batch("x"))], acks, 1_000)
        self.wait(1_100)
        (row,) = answer.result()  # type: ignore[attr-defined]
        return int(row.error)


@pytest.fixture
def cluster() -> Iterator[TwoDisks]:
    made = TwoDisks()
    made.start()
    made.run(made.client.create_topic("orders", assignment={number: [1, 2, 3] for number in range(4)}))
    made.wait(500)
    yield made
    made.stop_all()


def test_broker_spreads_replicas_over_its_log_directories(cluster: TwoDisks) -> None:
    for broker_id in (1, 2, 3):
        assert [len(cluster.replicas_on(broker_id, disk)) for disk in (0, 1)] == [2, 2]
    for disk in cluster.disks[1]:
        assert "cluster.id" in (disk.read_text("", "meta.properties") or "")


def test_failed_log_directory_takes_only_its_replicas_offline(cluster: TwoDisks) -> None:
    lost, kept = cluster.replicas_on(1, 1), cluster.replicas_on(1, 0)
    cluster.disks[1][1].is_broken = True
    assert cluster.produce(1, lost[0]) == ErrorCode.kafka_storage_error
    cluster.wait(3_000)
    for partition in lost:
        state = cluster.state(partition)
        assert state.leader in (2, 3) and 1 not in state.isr
        assert cluster.produce(state.leader, partition, acks=-1) == 0
    for partition in kept:
        assert cluster.state(partition).leader == 1
        assert cluster.produce(1, partition, acks=-1) == 0
    (damage,) = cluster.nodes[1].of(e.LogDamageFound)
    assert (damage.file, damage.action) == ("log.dirs[1]", "taken offline")
    notes = cluster.ensemble.nodes[znodes.LOG_DIR_EVENT_NOTIFICATION]
    assert notes.cversion > 0 and notes.children == set(), "the controller has removed the notification"
    metadata = cluster.nodes[2].broker.metadata.partition(lost[0])
    assert metadata is not None and metadata.offline_replicas == (1,)


def test_requests_to_an_offline_replica_get_a_storage_error(cluster: TwoDisks) -> None:
    (partition, other) = cluster.replicas_on(1, 1)
    cluster.disks[1][1].is_broken = True
    cluster.produce(1, other)
    replicas = cluster.nodes[1].broker.replicas
    fetched: Any = replicas.fetch(FetchParams(-1, 0, 1, 1 << 20), [FetchPartition(partition, 0, -1, -1, 1 << 20)])
    assert fetched.result()[0].error == ErrorCode.kafka_storage_error
    assert at_once(replicas.list_offset(partition, -1, -1, False))[0] == ErrorCode.kafka_storage_error
    assert partition not in replicas.partitions


@pytest.mark.parametrize("is_known", [True, False])
def test_stop_replica_request_on_a_failed_disk_gets_an_error(cluster: TwoDisks, is_known: bool) -> None:
    """StopReplica for a replica on a failed disk returns a storage error.

    The replica still exists, so the result is the same whether the disk failure is already known or the deletion
    detects it.
    """
    (partition, other) = cluster.replicas_on(1, 1)
    kept = cluster.replicas_on(1, 0)[0]
    cluster.disks[1][1].is_broken = True
    if is_known:
        cluster.produce(1, other)
    replicas = cluster.nodes[1].broker.replicas
    rows = [
        {"partition_index": each.partition, "leader_epoch": -1, "delete_partition": True} for each in (partition, kept)
    ]
    topics = [{"topic_name": "orders", "partition_states": rows}]
    epoch = replicas.controller_epoch
    message = request(
        ApiKey.STOP_REPLICA, 4, controller_id=1, controller_epoch=epoch, broker_epoch=-1, topic_states=topics
    )
    answer: Any = replicas.stop_replica(message)
    errors = [row.error_code for row in answer.partition_errors]
    assert (answer.error_code, errors) == (0, [ErrorCode.kafka_storage_error, 0])
    assert partition in cluster.replicas_on(1, 1) and kept not in cluster.replicas_on(1, 0)


def test_delete_records_fails_only_on_the_failed_disk(cluster: TwoDisks) -> None:
    (lost, offline), kept = cluster.replicas_on(1, 1), cluster.replicas_on(1, 0)[0]
    assert cluster.produce(1, lost, acks=-1) == cluster.produce(1, kept, acks=-1) == 0
    cluster.disks[1][1].is_broken = True
    replicas = cluster.nodes[1].broker.replicas
    deleted: Any = replicas.delete_records({lost: 1, kept: 1}, 1_000)
    cluster.wait(1_100)
    assert deleted.result()[lost].error == ErrorCode.kafka_storage_error
    assert deleted.result()[kept] == (0, 1)
    gone: Any = replicas.delete_records({offline: 0}, 1_000)
    assert gone.result()[offline].error == ErrorCode.kafka_storage_error, "not that another broker leads"


def test_coordinator_resigns_when_its_log_directory_fails() -> None:
    cluster = TwoDisks(offsets_topic_num_partitions="4")
    cluster.start()
    find(cluster.nodes[2], GROUP)
    cluster.wait(3_000)
    (node,) = [each for each in cluster.nodes.values() if each.broker.groups.store.owns(GROUP)]
    store = node.broker.groups.store
    partition = TopicPartition(CONSUMER_OFFSETS, store.partition_for(GROUP))
    disk = next(each for each in cluster.disks[node.broker_id] if str(partition) in each.partitions())
    disk.is_broken = True
    node.broker.replicas.produce([(partition, build_batch([Record(b"k", b"v", 0)]))], 1, 1_000)
    cluster.wait(0)
    assert cluster.state(partition).leader == node.broker_id, "no controller has noticed it yet"
    assert not store.owns(GROUP)
    cluster.wait(3_000)
    (successor,) = [each for each in cluster.nodes.values() if each.broker.groups.store.owns(GROUP)]
    assert successor is not node
    cluster.stop_all()


def test_pending_fetch_returns_records_read_before_disk_failure(
    cluster: TwoDisks,
) -> None:
    kept, lost = cluster.replicas_on(1, 0)[0], cluster.replicas_on(1, 1)[0]
    assert cluster.produce(1, lost) == cluster.produce(1, lost) == 0
    replicas = cluster.nodes[1].broker.replicas
    requested = [FetchPartition(kept, 0, -1, -1, 1 << 20), FetchPartition(lost, 0, -1, -1, 1 << 20)]
    fetched: Any = replicas.fetch(FetchParams(-1, 60_000, 1 << 19, 1 << 20), requested)
    assert not fetched.done()

    cluster.disks[1][1].is_broken = True
    assert cluster.produce(1, kept, acks=-1) == 0
    assert [row.error for row in fetched.result()] == [0, 0], "the records read before the disk failed"


def test_replica_on_a_failed_disk_is_not_created_elsewhere(cluster: TwoDisks) -> None:
    lost = cluster.replicas_on(3, 1)
    cluster.disks[3][1].is_broken = True
    cluster.nodes[3].broker.replicas._logs.checkpoint_high_watermarks()
    cluster.wait(200)
    cluster.produce(1, lost[0])
    cluster.wait(6_000)
    assert cluster.state(lost[0]).isr == (1, 2)
    assert cluster.replicas_on(3, 0) == [partition for partition in ORDERS if partition not in lost]


def test_next_checkpoint_detects_the_failure_of_an_idle_disk(
    cluster: TwoDisks,
) -> None:
    cluster.wait(6_000)
    lost = cluster.replicas_on(3, 1)
    assert lost
    cluster.disks[3][1].is_broken = True
    cluster.wait(6_000)
    assert all(3 not in cluster.state(partition).isr for partition in lost)


def test_broker_stops_when_all_log_directories_have_failed(cluster: TwoDisks) -> None:
    for disk in cluster.disks[2]:
        disk.is_broken = True
    for partition in ORDERS:
        cluster.produce(1, partition)
    cluster.wait(1_000)
    assert cluster.halted == ["every log directory has failed"]
    assert cluster.nodes[2].of(e.NodeStopped)[-1].reason == "every log directory has failed"


def test_error_of_a_broker_with_full_disks_asks_to_free_space(cluster: TwoDisks) -> None:
    for disk in cluster.disks[2]:
        disk.is_broken, disk.error = True, errno.ENOSPC
    for partition in ORDERS:
        cluster.produce(1, partition)
    cluster.wait(1_000)
    (message,) = cluster.halted
    assert "its disk is full: make room and start this broker again" in message


def test_full_disk_at_startup_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    config = tmp_path / "server.properties"
    config.write_text(f"broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path / 'logs'}\n")
    monkeypatch.setattr(HOST, "mkdir", full)
    assert main(config) == 1
    message = capsys.readouterr().err
    assert message == (
        f"zabka broker: the disk is full for {tmp_path / 'logs'}: this broker cannot keep records or even its own "
        "state, and stops; make room and start it again\n"
    )


def test_broker_starts_despite_a_failed_log_directory(cluster: TwoDisks) -> None:
    """A broker starts although one of its log directories has failed (KIP-112).

    The broker returns an error for replicas in that directory. These errors show the controller that the replicas are
    offline.
    """
    lost, kept = cluster.replicas_on(1, 1), cluster.replicas_on(1, 0)
    cluster.nodes[1].kill()
    cluster.expire(cluster.nodes[1])
    cluster.disks[1][1].is_broken = True
    cluster.wait(1_000)
    cluster.start(1)
    cluster.wait(3_000)
    assert [damage.file for damage in cluster.nodes[1].of(e.LogDamageFound)] == ["log.dirs[1]"]
    assert cluster.nodes[1].broker.state == "running" and cluster.halted == []
    for partition in ORDERS:
        assert (1 in cluster.state(partition).isr) == (partition in kept), (partition, lost)
    replicas = cluster.nodes[1].broker.replicas
    for partition in lost:
        assert cluster.produce(1, partition) == ErrorCode.kafka_storage_error
        assert at_once(replicas.list_offset(partition, -1, -1, False))[0] == ErrorCode.kafka_storage_error
    assert replicas.metrics()["OfflineReplicaCount"] == len(lost)
