"""Moves of replicas between log directories, with failures at any step (KIP-113)."""

from __future__ import annotations

import copy
import errno
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim import broker_world
from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory, MemoryLogFile
from tests.broker_sim.replication.replication_cluster import batch
from tests.virtual_time.futures import SimFuture
from zabka.broker_sim.broker import Broker
from zabka.broker_sim.logs.log_manager import DuplicateReplicas
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.replica_manager import MAX_TIMESTAMP, list_offset
from zabka.journal import events as e
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch, decode_records, split_batches
from zabka.kafka.wire.kafka_schema import ApiKey, request

ORDERS = TopicPartition("orders", 0)
LEFT, RIGHT = "/left", "/right"
CHUNK = 512


class File(MemoryLogFile):
    """Log file on a `Disk`."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk

    def append(self, data: bytes) -> int:
        self.disk.change()
        return super().append(data)

    def on(self, disk: Disk) -> File:
        """Return a copy of this file on another disk, closed."""
        twin = File(disk)
        twin._content, twin._flushed, twin.is_open = bytearray(self._content), self._flushed, False
        return twin


class Disk(MemoryLogDirectory):
    """Log directory that can be made to fail. It stores a snapshot of itself before every change."""

    is_broken = False

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[tuple[Disk, ...]] | None = None
        self.all: list[Disk] = [self]

    def picture(self) -> Disk:
        taken = Disk()
        taken._texts = copy.deepcopy(self._texts)
        for name, files in self._files.items():
            taken._files[name] = {file: content.on(taken) for file, content in files.items()}  # type: ignore[attr-defined]
        return taken

    def change(self) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "Input/output error")
        if self.pictures is not None:
            self.pictures.append(tuple(disk.picture() for disk in self.all))

    def create_partition(self, name: str) -> None:
        self.change()
        super().create_partition(name)

    def delete_partition(self, name: str) -> None:
        # The files are removed one by one.
        for file in self.list_files(name):
            self.change()
            self.remove(name, file)
        super().delete_partition(name)

    def rename_partition(self, name: str, to: str) -> None:
        self.change()
        super().rename_partition(name, to)

    def open(self, name: str, file: str) -> MemoryLogFile:
        self.change()
        self._files[name].setdefault(file, File(self))
        return super().open(name, file)

    def write_text(self, name: str, file: str, text: str) -> None:
        self.change()
        super().write_text(name, file, text)


class Brokers(broker_world.Cluster):
    """Brokers with two log directories each, left and right."""

    def __init__(self, brokers: int = 1, **keys: str) -> None:
        super().__init__(
            brokers, log_dirs=f"{LEFT},{RIGHT}", replica_fetch_max_bytes=str(CHUNK), log_segment_bytes="2048", **keys
        )
        self.disks: dict[int, tuple[Disk, Disk]] = {}
        self.halted: list[str] = []
        for broker_id in self.nodes:
            self.give(broker_id, Disk(), Disk())

    def give(self, broker_id: int, left: Any, right: Any) -> None:
        node = self.nodes[broker_id]
        self.disks[broker_id] = left, right
        left.all = right.all = [left, right]
        node.directory = left
        node.more_ports = {"log_directories": [node.directory, right], "halt": self.halted.append}

    def broker(self, broker_id: int = 1) -> Broker:
        return self.nodes[broker_id].broker

    def partition(self, broker_id: int = 1) -> Partition:
        return self.broker(broker_id).replicas.partitions[ORDERS]

    def fill(self, count: int = 10, prefix: str = "v") -> None:
        for number in range(count):
            self.broker().replicas.produce([(ORDERS, batch(f"{prefix}{number}" + "x" * 300))], 1, 1_000)

    def values(self, broker_id: int = 1) -> list[str]:
        log = self.partition(broker_id).log
        read: list[str] = []
        offset = log.start_offset
        while offset < log.end_offset:
            records = decode_records(log.read(offset, 1 << 20, log.end_offset, True))
            read += [(r.value or b"").decode().rstrip("x") for r in records if r.offset >= log.start_offset]
            offset = records[-1].offset + 1
        return read

    def ask(self, message: Any, broker_id: int = 1) -> Any:
        return self.on(self.nodes[broker_id], self.broker(broker_id).handle(message))

    def move(self, path: str, broker_id: int = 1, topic: str = "orders") -> ErrorCode:
        dirs = [{"path": path, "topics": [{"name": topic, "partitions": [0]}]}]
        (row,) = self.ask(request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs), broker_id).results
        return ErrorCode(row.partitions[0].error_code)

    def described(self, broker_id: int = 1) -> dict[str, list[tuple[bool, int]]]:
        """Return the partition's replicas in each log directory, as (is a future replica, offset lag)."""
        answer = self.ask(request(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None), broker_id)
        return {
            str(row.log_dir): [
                (bool(each.is_future_key), int(each.offset_lag))
                for topic in row.topics
                if topic.name == "orders"
                for each in topic.partitions
            ]
            for row in answer.results
        }

    def replica_names(self, broker_id: int = 1) -> tuple[list[str], list[str]]:
        """Return the names of the replica directories on the left and on the right disk."""
        left, right = self.disks[broker_id]
        return left.partitions(), right.partitions()

    def restart(self, broker_id: int = 1) -> None:
        self.nodes[broker_id].kill()
        for disk in self.disks[broker_id]:
            disk.crash()
        self.expire(self.nodes[broker_id])
        self.start(broker_id)
        self.wait(500)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    made.start()
    made.run(made.client.create_topic("orders", assignment={0: [1]}))
    made.fill()
    yield made
    made.stop_all()


def test_replica_moves_with_all_its_records(brokers: Brokers) -> None:
    assert brokers.replica_names() == (["orders-0"], [])
    before, mark = brokers.values(), brokers.partition().log.high_watermark
    epochs = brokers.partition().log.epochs.entries
    assert brokers.move(RIGHT) is ErrorCode.none
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"])
    assert brokers.described() == {LEFT: [], RIGHT: [(False, 0)]}
    log = brokers.partition().log
    assert (brokers.values(), log.high_watermark, log.epochs.entries) == (before, mark, epochs)
    brokers.fill(2, "later")
    assert brokers.values() == [*before, "later0", "later1"]
    brokers.restart()
    assert brokers.values() == [*before, "later0", "later1"]
    assert brokers.replica_names() == ([], ["orders-0"])


def test_log_ending_in_a_compaction_gap_is_moved(brokers: Brokers) -> None:
    log = brokers.partition().log
    log.roll()
    log.segments[-2].truncate_to(9)
    assert brokers.move(RIGHT) == ErrorCode.none
    brokers.wait(1_000)
    assert brokers.replica_names() == ([], ["orders-0"])
    assert brokers.partition().log.end_offset == 10


def test_future_replica_is_described_with_its_lag(brokers: Brokers) -> None:
    assert brokers.move(RIGHT) is ErrorCode.none
    described = brokers.described()
    ((is_future, lag),) = described[RIGHT]
    assert is_future and 0 < lag < 10
    assert described[LEFT] == [(False, 0)]
    _, (name,) = brokers.replica_names()
    stem, unique = name.removesuffix("-future").split(".")
    assert stem == "orders-0" and len(unique) == 32 and int(unique, 16)


def listed(work: Generator[None, None, tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
    """Continue the paused ListOffsets lookup to its end, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: tuple[int, int, int, int] = ended.value
            return result


def begun_lookup(brokers: Brokers, timestamp: int) -> tuple[Generator[None, None, tuple[int, int, int, int]], int]:
    """Return a paused lookup by timestamp, and the offset of the record that it should find.

    The lookup is paused in a batch whose only matching record was deleted.
    """
    end = brokers.partition().log.end_offset
    long = build_batch([Record(None, b"x", 2_000 if number == 0 else 1_000) for number in range(150)])
    for data in (long, build_batch([Record(None, b"y", 2_000)])):
        brokers.broker().replicas.produce([(ORDERS, data)], 1, 1_000)
        brokers.wait(100)
    brokers.broker().replicas.delete_records({ORDERS: end + 10}, 1_000)
    lookup = list_offset(brokers.partition(), timestamp, False)
    next(lookup)
    return lookup, end + 150


@pytest.mark.parametrize("timestamp", [1_500, MAX_TIMESTAMP])
def test_offset_lookup_during_a_move_continues_in_the_new_log(brokers: Brokers, timestamp: int) -> None:
    lookup, offset = begun_lookup(brokers, timestamp)
    assert brokers.move(RIGHT) is ErrorCode.none
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"])
    assert listed(lookup) == (0, 2_000, offset, 0)


def test_offset_lookup_during_a_deletion_returns_not_leader(brokers: Brokers) -> None:
    lookup, _ = begun_lookup(brokers, 1_500)
    brokers.run(brokers.client.delete_topic("orders"))
    brokers.wait(2_000)
    assert brokers.replica_names() == ([], [])
    assert listed(lookup) == (ErrorCode.not_leader_or_follower, -1, -1, -1)


def test_records_produced_during_a_move_are_moved(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    brokers.fill(3, "meanwhile")
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"])
    assert brokers.values()[-3:] == ["meanwhile0", "meanwhile1", "meanwhile2"]


def test_replica_move_does_not_change_leader_or_isr() -> None:
    brokers = Brokers(3)
    brokers.start()
    brokers.run(brokers.client.create_topic("orders", assignment={0: [1, 2, 3]}))
    brokers.fill()
    brokers.wait(2_000)
    changes = len(brokers.nodes[1].of(e.IsrChanged))
    assert brokers.move(RIGHT, 2) is ErrorCode.none and brokers.move(RIGHT, 1) is ErrorCode.none
    brokers.wait(3_000)
    for broker_id in (1, 2):
        assert brokers.replica_names(broker_id) == ([], ["orders-0"])
    brokers.fill(1, "last")
    brokers.wait(2_000)
    assert brokers.values(2) == brokers.values(1) == brokers.values(3)
    assert brokers.partition().isr_state.isr == (1, 2, 3) and brokers.partition().leader_epoch == 0
    assert len(brokers.nodes[1].of(e.IsrChanged)) == changes
    brokers.stop_all()


def test_broker_shutdown_pauses_a_move_until_the_next_start(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    brokers.broker().replicas.shutdown()
    names = brokers.replica_names()
    assert all(names), "the copy stays for the next start"
    pictures = brokers.disks[1][0].pictures = brokers.disks[1][1].pictures = []
    brokers.wait(1_000)
    assert pictures == [] and brokers.replica_names() == names
    brokers.restart()
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"])


@pytest.mark.parametrize("is_stopped", [True, False])
def test_move_stops_if_the_replica_is_no_longer_hosted(brokers: Brokers, is_stopped: bool) -> None:
    """A move between log directories stops if the broker no longer hosts the replica.

    Either StopReplica stops the replica, or UpdateMetadata shows that the partition is assigned to other brokers.
    """
    brokers.move(RIGHT)
    names = brokers.replica_names()
    replicas = brokers.broker().replicas
    outer = {"controller_id": 1, "controller_epoch": replicas.controller_epoch, "broker_epoch": -1}
    if is_stopped:
        row = {"partition_index": 0, "leader_epoch": 0, "delete_partition": False}
        topics = [{"topic_name": "orders", "partition_states": [row]}]
        answer: Any = replicas.stop_replica(request(ApiKey.STOP_REPLICA, 4, topic_states=topics, **outer))
        assert [row.error_code for row in answer.partition_errors] == [0]
    else:
        row = {"partition_index": 0, "leader": 2, "leader_epoch": 1, "isr": [2], "replicas": [2]}
        topics = [{"topic_name": "orders", "partition_states": [row]}]
        replicas.leave_strays(request(ApiKey.UPDATE_METADATA, 8, topic_states=topics, live_brokers=[], **outer))
    brokers.wait(1_000)
    assert brokers.replica_names() == names


def test_request_for_another_directory_cancels_the_move(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    assert brokers.move(LEFT) is ErrorCode.none
    brokers.wait(100)
    assert brokers.replica_names() == (["orders-0"], [])
    assert brokers.described() == {LEFT: [(False, 0)], RIGHT: []}


def test_repeated_request_for_the_same_directory_is_ignored(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    names = brokers.replica_names()
    assert brokers.move(RIGHT) is ErrorCode.none
    assert brokers.replica_names() == names
    brokers.wait(100)
    assert brokers.move(RIGHT) is ErrorCode.none
    assert brokers.replica_names() == ([], ["orders-0"])


def test_invalid_replica_moves_are_rejected(brokers: Brokers) -> None:
    assert brokers.move("/nowhere") is ErrorCode.log_dir_not_found
    assert brokers.move(RIGHT, topic="nothing") is ErrorCode.unknown_topic_or_partition
    assert brokers.move(RIGHT, topic="n" * 230) is ErrorCode.invalid_topic_exception
    brokers.disks[1][1].is_broken = True
    assert brokers.move(RIGHT) is ErrorCode.kafka_storage_error
    assert brokers.move(RIGHT) is ErrorCode.kafka_storage_error


def test_future_replica_is_created_in_the_requested_directory() -> None:
    brokers = Brokers(2)
    brokers.start()
    brokers.run(brokers.client.create_topic("others", assignment={0: [2]}))
    brokers.run(brokers.client.create_topic("orders", assignment={0: [1]}))
    assert brokers.move(LEFT, 2) is ErrorCode.replica_not_available
    brokers.broker(2).replicas.logs.get_or_create(ORDERS)
    assert brokers.replica_names(2) == (["orders-0", "others-0"], []), "not in the directory with fewer replicas"
    brokers.stop_all()


def test_topic_deletion_removes_the_topics_future_replica(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    brokers.broker().replicas._moves.pause(ORDERS)
    assert brokers.replica_names()[1]
    brokers.run(brokers.client.delete_topic("orders"))
    brokers.wait(1_000)
    assert brokers.replica_names() == ([], [])


def test_crash_in_a_deletion_leaves_the_whole_replica_or_none(brokers: Brokers) -> None:
    """A crash while a replica is deleted leaves either all of its files or none.

    If some files remained, the broker would load them as a replica at its next start, which could join the ISR and
    become leader.
    """
    left = brokers.disks[1][0]
    whole = left.list_files("orders-0")
    left.pictures = []
    brokers.run(brokers.client.delete_topic("orders"))
    brokers.wait(1_000)
    assert brokers.replica_names() == ([], [])
    assert len(left.pictures) >= len(whole)
    for picture, _ in left.pictures:
        assert "orders-0" not in picture.partitions() or picture.list_files("orders-0") == whole


def test_crash_at_any_step_of_a_move_is_recovered(brokers: Brokers) -> None:
    """A move is recovered after a SIGKILL at any step.

    Each disk stores a snapshot before every change. The snapshot is the state that a kill at this time would leave.
    """
    pictures: list[tuple[Disk, ...]] = []
    before = brokers.values()
    for disk in brokers.disks[1]:
        disk.pictures = pictures
    brokers.move(RIGHT)
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"])
    for disk in brokers.disks[1]:
        disk.pictures = None
    assert len(pictures) > 20
    seen: set[tuple[int, ...]] = set()
    for left, right in pictures:
        names = [*left.partitions(), *right.partitions()]
        seen.add(tuple(sum(name.endswith(end) for name in names) for end in ("orders-0", "-future", "-delete")))
        brokers.nodes[1].kill()
        brokers.give(1, left, right)
        brokers.restart()
        assert brokers.values() == before
        assert brokers.replica_names() in ((["orders-0"], []), ([], ["orders-0"]))
    assert seen == {(1, 0, 0), (1, 1, 0), (2, 0, 0), (1, 0, 1)}, "every stage of the swap occurred"


def test_power_loss_during_a_move_keeps_the_flushed_records(brokers: Brokers) -> None:
    brokers.partition().log.flush()
    before = brokers.values()
    pictures: list[tuple[Disk, ...]] = []
    for disk in brokers.disks[1]:
        disk.pictures = pictures
    brokers.move(RIGHT)
    brokers.wait(100)
    for disk in brokers.disks[1]:
        disk.pictures = None
    for left, right in pictures:
        left.power_loss()
        right.power_loss()
        brokers.nodes[1].kill()
        brokers.give(1, left, right)
        brokers.restart()
        assert brokers.values() == before


def test_replica_stays_in_place_if_the_target_disk_fails(brokers: Brokers) -> None:
    before = brokers.values()
    brokers.move(RIGHT)
    brokers.disks[1][1].is_broken = True
    brokers.wait(3_000)
    assert brokers.values() == before and brokers.partition().future is None
    brokers.fill(1, "later")
    assert brokers.values() == [*before, "later0"]
    assert brokers.described() == {LEFT: [(False, 0)], RIGHT: []}
    brokers.disks[1][1].is_broken = False
    brokers.restart()
    assert brokers.replica_names() == ([], ["orders-0"]), "the move continues when the disk returns"
    assert brokers.values() == [*before, "later0"]


def test_replica_goes_offline_if_the_source_disk_of_a_move_fails(brokers: Brokers) -> None:
    before = brokers.values()
    brokers.move(RIGHT)
    brokers.disks[1][0].is_broken = True
    brokers.broker().replicas._moves.pause(ORDERS)
    brokers.fill(1, "refused")
    brokers.wait(1_000)
    assert ORDERS not in brokers.broker().replicas.partitions
    assert brokers.move(RIGHT) is ErrorCode.kafka_storage_error
    ((is_future, lag),) = brokers.described()[RIGHT]
    assert (is_future, lag) == (True, -1)
    brokers.disks[1][0].is_broken = False
    brokers.restart()
    assert brokers.values() == before and brokers.replica_names() == ([], ["orders-0"])


def test_stale_replica_on_a_repaired_disk_is_removed(brokers: Brokers) -> None:
    old = brokers.disks[1][0].picture()
    brokers.move(RIGHT)
    brokers.wait(100)
    brokers.fill(1, "later")
    after = brokers.values()
    brokers.nodes[1].kill()
    brokers.give(1, old, brokers.disks[1][1])
    brokers.restart()
    assert brokers.values() == after and brokers.replica_names() == ([], ["orders-0"])
    assert [event.action for event in brokers.nodes[1].of(e.LogDamageFound)] == ["removed"]


def test_broker_with_two_diverging_logs_of_a_partition_fails(brokers: Brokers) -> None:
    old = brokers.disks[1][0].picture()
    brokers.move(RIGHT)
    brokers.wait(100)
    assert old._texts["orders-0"].pop("partition.metadata")
    brokers.nodes[1].kill()
    brokers.give(1, old, brokers.disks[1][1])
    brokers.expire(brokers.nodes[1])
    with pytest.raises(AssertionError) as raised:
        brokers.start(1)
    assert isinstance(raised.value.__cause__, DuplicateReplicas)
    assert str(raised.value.__cause__).startswith("log.dirs[0] and log.dirs[1] hold different replicas of orders-0")


def test_future_replica_with_another_topic_id_is_removed(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    (name,) = brokers.replica_names()[1]
    right = brokers.disks[1][1].picture()
    right._texts[name]["partition.metadata"] = f"version: 0\ntopic_id: {'B' * 21}A"
    before = brokers.values()
    brokers.nodes[1].kill()
    brokers.give(1, brokers.disks[1][0].picture(), right)
    brokers.restart()
    assert brokers.values() == before and brokers.replica_names() == (["orders-0"], [])


def test_moved_log_keeps_a_log_start_offset_within_a_batch(brokers: Brokers) -> None:
    brokers.broker().replicas.produce([(ORDERS, batch("a", "b", "c"))], 1, 1_000)
    brokers.broker().replicas.delete_records({ORDERS: 11}, 1_000)
    assert brokers.values() == ["b", "c"]
    brokers.move(RIGHT)
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"])
    assert (brokers.values(), brokers.partition().log.start_offset) == (["b", "c"], 11)
    brokers.restart()
    assert brokers.values() == ["b", "c"]


def test_delete_records_waits_for_the_future_replica(brokers: Brokers) -> None:
    brokers.broker().replicas.throttles.moves.limit(200)
    brokers.move(RIGHT)
    deleted = brokers.broker().replicas.delete_records({ORDERS: 3}, 60_000)
    assert isinstance(deleted, SimFuture) and not deleted.done()
    brokers.wait(2_000)
    future = brokers.partition().future
    assert future is not None and future.start_offset == 3
    assert deleted.result() == {ORDERS: (ErrorCode.none, 3)}


def test_delete_records_does_not_wait_for_a_cancelled_move(brokers: Brokers) -> None:
    brokers.broker().replicas.throttles.moves.limit(0)
    brokers.move(RIGHT)
    # The first chunk of the move already exceeds the throttle, so the move waits.
    brokers.wait(100)
    deleted = brokers.broker().replicas.delete_records({ORDERS: 3}, 60_000)
    brokers.wait(2_000)
    assert isinstance(deleted, SimFuture) and not deleted.done()
    brokers.move(LEFT)
    assert deleted.result() == {ORDERS: (ErrorCode.none, 3)}


def test_future_replica_is_truncated_where_it_diverges(brokers: Brokers) -> None:
    brokers.move(RIGHT)
    partition, moves = brokers.partition(), brokers.broker().replicas._moves
    future = partition.future
    assert future is not None and moves._copy_some(partition)
    moves.pause(ORDERS)
    copied, other = future.end_offset, batch("other")
    future.epochs.assign(7, copied)
    future.append_as_leader(other, split_batches(other) or [], 7)
    partition.log.epochs.assign(8, partition.log.end_offset)
    partition.leader_epoch = 8
    brokers.fill(1, "new")
    assert 0 < copied < partition.log.end_offset
    before = brokers.values()
    moves.resume(partition)
    brokers.wait(100)
    assert brokers.replica_names() == ([], ["orders-0"]) and brokers.values() == before
