"""A broker in the simulated world: the very `Broker` of the real processes, driven in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.broker import Broker
from broker_sim.configs.broker_config import KafkaConfig, config_from
from broker_sim.logs.memory_log_directory import MemoryLogDirectory
from controller.registration import BrokerIdInUse
from ensemble.client.client import Client
from ensemble.errors import ZooKeeperError
from journal.events import NodeStopped
from simulation.channel import KAFKA_SERVICE, Served, SimChannel
from simulation.connector import SimConnector
from simulation.machine import Machine, Process

if TYPE_CHECKING:
    from simulation.world import World

RESTART_AFTER_MS = 1_000


def broker_name(broker_id: int) -> str:
    """The node name of a broker."""
    return f"broker-{broker_id}"


class BrokerNode(Machine["BrokerProcess"]):
    """A machine with a broker on it."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_directory = MemoryLogDirectory()
        super().__init__(world, broker_name(broker_id), self.log_directory)

    @property
    def broker(self) -> Broker | None:
        """The running broker, None while the process is down."""
        return self.process.broker if self.process else None

    def config(self) -> KafkaConfig:
        """Its server.properties."""
        settings = self.world.settings
        return config_from(
            {
                "broker.id": str(self.broker_id),
                "listeners": f"PLAINTEXT://{self.name}:{KAFKA_SERVICE}",
                "log.dirs": "/simulated",
                "zookeeper.connect": self.world.zookeeper_connect,
                "zookeeper.session.timeout.ms": str(settings.session_timeout_ms),
                "replica.lag.time.max.ms": str(settings.replica_lag_time_max_ms),
                # Far below Kafka's 30 s, so that requests are given up and arrive late within a run.
                "replica.socket.timeout.ms": "1500",
                "controller.socket.timeout.ms": "1500",
                "offsets.topic.num.partitions": "3",
                "offsets.topic.replication.factor": str(min(3, len(self.world.brokers))),
                "group.initial.rebalance.delay.ms": "500",
                **settings.broker_keys,
            }
        )

    def log_bytes(self, partition: str) -> bytes:
        """All that a replica's segments hold, in order."""
        directory = self.log_directory
        files = [directory.open(partition, file) for file in directory.list_files(partition) if file.endswith(".log")]
        return b"".join(file.read(0, file.size()) for file in files)

    def stop(self, back_after_ms: int) -> None:
        """Let the broker shut down; when it has, its process ends, and another begins after that time (0: never)."""
        process = self.process
        if process is None:
            return

        async def leave() -> None:
            await process.broker.stop()
            self.world.scheduler.after(0, gone)

        def gone() -> None:
            if self.process is process:
                self.kill()
                if back_after_ms:
                    self.world.scheduler.after(back_after_ms * 1000, self.start)

        process.runtime.spawn(leave(), f"stop {self.name}")

    def make_process(self, incarnation: int) -> BrokerProcess:
        """A fresh process on this log directory."""
        return BrokerProcess(self, incarnation)


class BrokerProcess(Process):
    """One run of a broker's process."""

    def __init__(self, node: BrokerNode, incarnation: int) -> None:
        super().__init__(node.world, node.name, incarnation)
        world = self.world
        self.node = node
        config = node.config()
        connector = SimConnector(world.network, self.host)
        self.broker = Broker(
            config,
            self.runtime,
            lambda: Client(
                config.text("zookeeper.connect"),
                connector,
                self.runtime,
                session_timeout_ms=config.session_timeout_ms,
                name=node.name,
            ),
            SimChannel(world.network, self.host, self.runtime),
            node.log_directory,
            self.emit,
        )

    def boot(self) -> None:
        """Listen and start."""
        self.node.world.network.listen(self.host, KAFKA_SERVICE, self._accept)
        self.runtime.spawn(self._start(), f"start {self.node.name}")

    def _accept(self, endpoint: object) -> None:
        Served(self.broker, self.runtime, endpoint)  # type: ignore[arg-type]

    async def _start(self) -> None:
        try:
            await self.broker.start()
        except (BrokerIdInUse, ZooKeeperError) as reason:
            # A supervisor starts a broker again that gave up, as the host agent does.
            self.emit(NodeStopped(str(reason)))
            scheduler = self.node.world.scheduler
            scheduler.after(0, self.node.kill)
            scheduler.after(RESTART_AFTER_MS * 1000, self.node.start)
