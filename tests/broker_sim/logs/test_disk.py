"""Replica managers run with asyncio and a real disk, as in real broker processes, and not in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.broker_sim.replication.replication_cluster import KAFKA_CONFIG, TOPIC_ID, TP, Broker, batch
from zabka.broker_sim.configs.replica_config import ReplicaConfig
from zabka.broker_sim.handlers.data import DataHandlers
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.broker_sim.replication.environment import BrokerIdentity, ReplicaPorts, ReplicaStorage
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import ChannelBroken, Endpoint
from zabka.kafka.record_batch import decode_records
from zabka.kafka.wire.kafka_schema import ApiKey, request


class Pair:
    """Two brokers in one event loop. The channel calls the other broker's replica manager."""

    def __init__(self, root: Path) -> None:
        self.fetches: list[Any] = []
        self.runtime = runtime = AsyncioRuntime(asyncio.get_running_loop(), 1, owns_loop=False)
        config = ReplicaConfig(replica_fetch_wait_max_ms=50, replica_fetch_backoff_ms=50)
        self.managers = {
            broker_id: ReplicaManager(
                config,
                identity=BrokerIdentity(broker_id=broker_id, broker_epoch=lambda: 1),
                ports=ReplicaPorts(
                    runtime=runtime,
                    channel=self,
                    controller=self,  # type: ignore[arg-type]
                    metadata=self,
                    emit=lambda event: None,
                ),
                storage=ReplicaStorage(log_directories=[FileLogDirectory(root / str(broker_id))]),
            )
            for broker_id in (1, 2)
        }
        for manager in self.managers.values():
            manager.start()

    async def call(self, to: Endpoint, message: Any, timeout_ms: int) -> Any:
        if not isinstance(to, Endpoint):
            raise ChannelBroken
        answers: list[Any] = []
        server = Broker.__new__(Broker)
        view: Any = self
        server.cluster = view
        server.handlers = DataHandlers(KAFKA_CONFIG, view, self.managers[to.broker_id], self.runtime).table()
        await server.serve(message, answers.append)
        return answers[0]

    def forget(self, broker_id: int) -> None:
        return

    def is_alive(self, broker_id: int) -> bool:
        return True

    def rack(self, broker_id: int) -> None:
        return None

    def partition(self, topic_partition: TopicPartition) -> str:
        return "known"

    def topic_of_id(self, topic_id: UUID) -> str:
        return TP.topic

    def endpoint(self, broker_id: int) -> Endpoint:
        return Endpoint(broker_id, "here", 1)

    def lead(self, leader: int, epoch: int) -> None:
        row = {
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": leader,
            "leader_epoch": epoch,
            "isr": [1, 2],
            "partition_epoch": epoch,
            "replicas": [1, 2],
        }
        topics = [{"topic_name": TP.topic, "topic_id": TOPIC_ID, "partition_states": [row]}]
        for manager in self.managers.values():
            message = request(ApiKey.LEADER_AND_ISR, 7, controller_id=1, controller_epoch=1, topic_states=topics)
            assert not manager.become_leader_or_follower(message).error_code

    def stop(self) -> None:
        for manager in self.managers.values():
            manager.shutdown()


def test_replicated_records_survive_a_process_restart(tmp_path: Path) -> None:
    async def first() -> None:
        pair = Pair(tmp_path)
        pair.lead(1, 0)
        for i in range(20):
            (row,) = await pair.managers[1].produce([(TP, batch(f"v{i}"))], -1, 5_000)
            assert (row.error, row.base_offset) == (0, i)
        pair.stop()

    async def second() -> None:
        pair = Pair(tmp_path)
        pair.lead(2, 1)
        (row,) = await pair.managers[2].produce([(TP, batch("last"))], -1, 5_000)
        assert row.base_offset == 20
        (got,) = await pair.managers[2].fetch(
            FetchParams(-1, 100, 1, 1 << 20), [FetchPartition(TP, 0, -1, -1, 1 << 20)]
        )
        assert [r.value for r in decode_records(got.records)][-2:] == [b"v19", b"last"]
        pair.stop()

    asyncio.run(first())
    asyncio.run(second())
    files = [(tmp_path / name / "orders-0" / "00000000000000000000.log").read_bytes() for name in "12"]
    assert files[0] == files[1]
    assert (tmp_path / "2" / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 21\n"
    assert (tmp_path / "1" / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 20\n"


def test_disconnect_of_a_waiting_client_logs_no_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.lead(1, 0)
        pair.managers[2].shutdown()

        async def fetch() -> None:
            await pair.managers[1].fetch(FetchParams(-1, 20, 1, 1 << 20), [FetchPartition(TP, 0, -1, -1, 1 << 20)])

        async def produce() -> None:
            await pair.managers[1].produce([(TP, batch("x"))], -1, 20)

        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        tasks = [asyncio.ensure_future(fetch()), asyncio.ensure_future(produce())]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.06)
        assert failures == []
        pair.managers[1].shutdown()

    asyncio.run(scenario())
