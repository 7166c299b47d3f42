"""A broker in the simulated world: the very `Broker` of the real processes, driven in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zabka.broker_sim.broker import Broker
from zabka.broker_sim.broker_ports import BrokerPorts
from zabka.broker_sim.configs.broker_config import KafkaConfig, config_from
from zabka.broker_sim.logs.log_manager import DuplicateReplicas
from zabka.broker_sim.logs.memory_log_directory import MemoryLogDirectory, MemoryLogFile
from zabka.broker_sim.logs.meta_properties import InconsistentMetaProperties
from zabka.broker_sim.ports import LogDirectory
from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ZooKeeperError
from zabka.journal.events import NodeStopped
from zabka.kafka.zk.registration import BrokerIdInUse
from zabka.simulation.disks.faulty_log_directory import BrokerDisks
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.network.addresses import KAFKA_SERVICE, broker_name, rack_name
from zabka.simulation.network.channel import Served, SimChannel
from zabka.simulation.network.connector import SimConnector
from zabka.simulation.nodes.machine import Machine, Process
from zabka.simulation.nodes.site import Site

RESTART_AFTER_MS = 1_000


class BrokerNode(Machine["BrokerProcess"]):
    """A machine with a broker on it."""

    def __init__(self, site: Site, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_directory = MemoryLogDirectory()
        self.disks: BrokerDisks | None = None
        """In the place of `log_directory`, where disks may fail."""
        name = broker_name(broker_id)
        if site.settings.faulty_disks:
            random = derive_random(site.seed, f"{name}/disks")
            self.disks = BrokerDisks(random, 1 + random.randrange(0, 2))
        super().__init__(site, name, self.disks or self.log_directory)

    @property
    def broker(self) -> Broker | None:
        """The running broker, None while the process is down."""
        return self.process.broker if self.process else None

    def config(self) -> KafkaConfig:
        """The broker's server.properties."""
        settings = self.site.settings
        return config_from(
            {
                "broker.id": str(self.broker_id),
                "listeners": f"PLAINTEXT://{self.name}:{KAFKA_SERVICE}",
                "log.dirs": "/simulated" if self.disks is None else self.disks.paths,
                "zookeeper.connect": self.site.zookeeper_connect,
                "zookeeper.session.timeout.ms": str(settings.session_timeout_ms),
                "replica.lag.time.max.ms": str(settings.replica_lag_time_max_ms),
                # Far below Kafka's 30 s, so that requests are given up and arrive late within a run.
                "replica.socket.timeout.ms": "1500",
                "controller.socket.timeout.ms": "1500",
                "offsets.topic.num.partitions": "3",
                "offsets.topic.replication.factor": str(min(3, settings.brokers)),
                "group.initial.rebalance.delay.ms": "500",
                **self._place(),
                **settings.broker_keys,
            }
        )

    def _place(self) -> dict[str, str]:
        racks = self.site.settings.racks
        return {"broker.rack": rack_name(self.broker_id, racks)} if racks else {}

    @property
    def directories(self) -> Sequence[LogDirectory]:
        """The broker's log.dirs."""
        return self.disks.directories if self.disks is not None else [self.log_directory]

    def files(self, partition: str) -> Mapping[str, MemoryLogFile]:
        """A replica's segment files as they lie on the disk."""
        return (self.disks or self.log_directory).files(partition)

    def stop(self, back_after_ms: int) -> None:
        """Let the broker shut down; when it has, its process ends, and another begins after that time (0: never)."""
        process = self.process
        if process is None:
            return

        async def leave() -> None:
            await process.broker.stop()
            self.site.scheduler.after(0, gone)

        def gone() -> None:
            if self.process is process:
                self.kill()
                if back_after_ms:
                    self.site.scheduler.after(back_after_ms * 1000, self.start)

        process.runtime.spawn(leave(), f"stop {self.name}")

    def make_process(self, incarnation: int) -> BrokerProcess:
        """A fresh process on this log directory."""
        return BrokerProcess(self, incarnation)


class BrokerProcess(Process):
    """One run of a broker's process."""

    def __init__(self, node: BrokerNode, incarnation: int) -> None:
        super().__init__(node.site, node.name, incarnation)
        self.node = node
        config = node.config()
        connector = SimConnector(self.site.network, self.host)
        self.broker = Broker(
            config,
            BrokerPorts(
                runtime=self.runtime,
                coordination=lambda: Client(
                    config.text("zookeeper.connect"),
                    connector,
                    self.runtime,
                    session_timeout_ms=config.session_timeout_ms,
                    name=node.name,
                ),
                channel=SimChannel(self.site.network, self.host, self.runtime),
                log_directories=node.directories,
                emit=self.emit,
                halt=self._halt,
                high_watermarks_reached=lambda: self.site.record.high_watermarks_reached(self.node.name),
            ),
        )

    def boot(self) -> None:
        """Listen and start."""
        self.node.site.network.listen(self.host, KAFKA_SERVICE, self._accept)
        self.runtime.spawn(self._start(), f"start {self.node.name}")

    def _accept(self, endpoint: object) -> None:
        Served(self.broker, self.runtime, endpoint)  # type: ignore[arg-type]

    async def _start(self) -> None:
        try:
            await self.broker.start()
        except (BrokerIdInUse, DuplicateReplicas, InconsistentMetaProperties, OSError, ZooKeeperError) as reason:
            # A supervisor starts a broker again that gave up, as the host agent does.
            self.emit(NodeStopped(str(reason)))
            scheduler = self.node.site.scheduler
            scheduler.after(0, self.node.kill)
            scheduler.after(RESTART_AFTER_MS * 1000, self.node.start)

    def _halt(self, reason: str) -> None:
        """No log directory is left: it ends, and stays down until somebody has seen to its disks."""
        self.runtime.stop()
        self.node.site.scheduler.after(0, self.node.kill)
