"""During a slow disk sync, a broker replies to every request that does not need the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.logs.small_log import NO_LAG, append, ignore_progress
from tests.broker_sim.replication.replication_cluster import TOPIC_ID, TP, batch
from tests.simulation.engine.small_world import HERE, SmallWorld
from zabka.broker_sim.configs.replica_config import ReplicaConfig
from zabka.broker_sim.logs.checkpoints import read_topic_id
from zabka.broker_sim.logs.cleaner import compact
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.broker_sim.replication.environment import BrokerIdentity, ReplicaPorts, ReplicaStorage
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.events import TopicPartition
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.engine.machine import Machine

SYNC_US = 50_000
PARTITIONS = 20
ROOT = Path("/logs")
AT_ONCE_S = 0.01
"""Upper limit for a reply that does not wait, far less than the duration of a sync."""


Program = Callable[["SlowDisk"], Coroutine[Any, Any, Any]]


class NoBrokers:
    """Fake metadata cache: every broker is alive, none has an address, and there is no controller."""

    def is_alive(self, broker_id: int) -> bool:
        return True

    def endpoint(self, broker_id: int) -> None:
        return None

    rack = endpoint


def leader_and_isr(leader_epoch: int, partitions: range) -> Any:
    rows = [
        {
            "partition_index": number,
            "controller_epoch": 1,
            "leader": 1,
            "leader_epoch": leader_epoch,
            "isr": [1],
            "partition_epoch": leader_epoch,
            "replicas": [1],
            "is_new": True,
        }
        for number in partitions
    ]
    topics = [{"topic_name": TP.topic, "topic_id": TOPIC_ID, "partition_states": rows}]
    return request(ApiKey.LEADER_AND_ISR, 7, controller_id=1, controller_epoch=1, topic_states=topics)


class SlowDisk:
    """Simulated machine whose disk takes 50 ms per sync once the program under test has enabled the delay."""

    def __init__(self) -> None:
        self.world = SmallWorld()
        self.directory: FileLogDirectory | None = None
        self._program: Program | None = None

    async def _main(self) -> Any:
        process = self.machine.process
        assert process is not None and self._program is not None
        self.directory = FileLogDirectory(ROOT, process.files, process.workers)
        return await self._program(self)

    @property
    def machine(self) -> Machine:
        return self.world.machines[HERE]

    def run(self, program: Program) -> Any:
        """Run the program and return its result. Files on the disk remain for the next program."""
        self._program = program
        if HERE in self.world.machines:
            self.machine.start()
        else:
            self.world.machine(HERE, self._main)
        self.world.run(60)
        found = self.world.ended[HERE]
        if isinstance(found, BaseException):
            raise found
        return found

    def begin_to_be_slow(self) -> None:
        self.machine.volume.sync_us = lambda: SYNC_US  # type: ignore[method-assign]

    def fail(self) -> None:
        self.machine.volume.fail_next("sync", within="partition.metadata")

    def manager(self) -> ReplicaManager:
        assert self.directory is not None
        no_brokers: Any = NoBrokers()
        manager = ReplicaManager(
            ReplicaConfig(),
            identity=BrokerIdentity(broker_id=1, broker_epoch=lambda: 1),
            ports=ReplicaPorts(
                runtime=AsyncioRuntime(asyncio.get_running_loop(), 1, owns_loop=False),
                channel=no_brokers,
                controller=no_brokers,
                metadata=no_brokers,
                emit=lambda event: None,
            ),
            storage=ReplicaStorage(log_directories=[self.directory]),
        )
        manager.start()
        return manager


@pytest.fixture
def slow_disk() -> Iterator[SlowDisk]:
    made = SlowDisk()
    yield made
    made.world.end()


async def create(manager: ReplicaManager, message: Any) -> Any:
    return await manager.when_stored(message, manager.become_leader_or_follower(message))


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def longest_fetch_s(manager: ReplicaManager, while_under_way: asyncio.Task[Any]) -> float:
    """Fetch from partition 0 repeatedly until the task is done. Return the duration of the longest fetch."""
    longest = 0.0
    while not while_under_way.done():
        began_s = now_s()
        (row,) = await manager.fetch(FetchParams(-1, 0, 1, 1 << 20), [FetchPartition(TP, 0, -1, -1, 1 << 20)])
        assert row.records
        await asyncio.sleep(0.005)
        longest = max(longest, now_s() - began_s - 0.005)
    return longest


def test_fetch_does_not_wait_for_the_sync_of_new_partition_files(
    slow_disk: SlowDisk,
) -> None:
    async def program(host: SlowDisk) -> tuple[float, float]:
        manager = host.manager()
        await create(manager, leader_and_isr(0, range(1)))
        await manager.produce([(TP, batch("v"))], 1, 1_000)
        host.begin_to_be_slow()
        began_s = now_s()
        creating = asyncio.create_task(create(manager, leader_and_isr(0, range(1, PARTITIONS + 1))))
        longest_s = await longest_fetch_s(manager, creating)
        answer = creating.result()
        assert {row.error_code for topic in answer.topics for row in topic.partition_errors} == {ErrorCode.none}
        return longest_s, now_s() - began_s

    longest_s, took_s = slow_disk.run(program)
    assert longest_s < AT_ONCE_S
    assert took_s >= 2 * PARTITIONS * SYNC_US / 1e6, "each file and its directory"
    slow_disk.machine.lose_power()
    files = slow_disk.machine.volume.files()
    ids = {file.on_platter() for path, file in files if "partition.metadata" in path}
    assert ids == {f"version: 0\ntopic_id: {topic_id_from_kafka(TOPIC_ID)}".encode()}


def test_topic_id_is_on_disk_before_the_first_record(slow_disk: SlowDisk) -> None:
    async def program(host: SlowDisk) -> None:
        manager = host.manager()
        manager.become_leader_or_follower(leader_and_isr(0, range(1)))
        await manager.produce([(TP, batch("v"))], 1, 1_000)

    slow_disk.run(program)
    volume = slow_disk.machine.volume
    (node,) = [node for path, node in volume.files() if path.endswith("/partition.metadata")]
    assert not node.is_dirty


def test_power_loss_leaves_each_topic_id_file_complete_or_absent(slow_disk: SlowDisk) -> None:
    async def first(host: SlowDisk) -> None:
        host.manager().become_leader_or_follower(leader_and_isr(0, range(PARTITIONS)))

    async def second(host: SlowDisk) -> set[str | None]:
        assert host.directory is not None
        manager = host.manager()
        found = {read_topic_id(host.directory, name) for name in host.directory.partitions()}
        answer = await create(manager, leader_and_isr(1, range(PARTITIONS)))
        assert {row.error_code for topic in answer.topics for row in topic.partition_errors} == {ErrorCode.none}
        assert {read_topic_id(host.directory, name) for name in host.directory.partitions()} == {id_}
        return found

    id_ = topic_id_from_kafka(TOPIC_ID)
    slow_disk.run(first)
    slow_disk.machine.lose_power()
    assert slow_disk.run(second) <= {None, id_}


def test_failed_sync_of_a_topic_id_gives_a_storage_error(slow_disk: SlowDisk) -> None:
    async def program(host: SlowDisk) -> tuple[Any, bool]:
        manager = host.manager()
        message = leader_and_isr(0, range(3))
        response = manager.become_leader_or_follower(message)
        host.fail()
        return await manager.when_stored(message, response), manager.has_storage

    answer, has_storage = slow_disk.run(program)
    assert not has_storage
    codes = [row.error_code for topic in answer.topics for row in topic.partition_errors]
    assert codes == [ErrorCode.kafka_storage_error] * 3


def test_fetch_does_not_wait_for_the_sync_of_a_compacted_segment(slow_disk: SlowDisk) -> None:
    async def program(host: SlowDisk) -> tuple[float, float, int]:
        manager = host.manager()
        compacted = TopicPartition(TP.topic, 1)
        await create(manager, leader_and_isr(0, range(2)))
        await manager.produce([(TP, batch("v"))], 1, 1_000)
        log = manager.logs.get(compacted)
        assert log is not None
        for value in "1234":
            append(log, ("a", value))
            log.roll()
        log.high_watermark = log.end_offset
        host.begin_to_be_slow()
        began_s = now_s()
        runtime = AsyncioRuntime(asyncio.get_running_loop(), 1, owns_loop=False)
        compacting = asyncio.create_task(compact(log, NO_LAG, runtime, ignore_progress))
        longest_s = await longest_fetch_s(manager, compacting)
        compacting.result()
        return longest_s, now_s() - began_s, sum(segment.size > 0 for segment in log.segments)

    longest_s, took_s, left = slow_disk.run(program)
    assert left == 1 and took_s >= 3 * SYNC_US / 1e6
    assert longest_s < AT_ONCE_S
