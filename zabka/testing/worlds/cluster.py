"""A simulated cluster for tests: implements the interface of `zabka.testing.cluster` with a simulated `World`.

Time in the world is virtual and passes only during calls, so that waiting for a session to expire takes little real
time. The test has a host of its own in the world. Faults affect this host only if they name it ("test").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NoReturn, TypeVar

import msgspec

from zabka.journal.events import Entry, TopicPartition
from zabka.kafka.client.admin_client import PREFERRED, UNCLEAN
from zabka.kafka.client.consumer_workload import GroupProgress
from zabka.simulation.cluster.service_machine import Service
from zabka.simulation.cluster.world import World
from zabka.simulation.settings import BadSetting, world_settings
from zabka.testing.cluster import FIXTURE_SETTINGS, READY_TIMEOUT_S, ClientLibrary, ClusterFailed, Happening
from zabka.testing.live.sessions import take_over_and_close
from zabka.testing.shared_calls import SharedCalls, Work
from zabka.testing.worlds.faults import SimFaults
from zabka.testing.worlds.host import SimHost
from zabka.testing.worlds.nodes import SimBroker, SimPeer
from zabka.testing.worlds.services import SimService
from zabka.testing.worlds.topics import SimTopics
from zabka.testing.worlds.workloads import (
    SimConsumer,
    SimTransactions,
    SimWorkload,
    sim_read_process_write,
    sim_transactional_producer,
)

T = TypeVar("T")

NO_ADDRESSES = (
    "a simulated world has no network that this program's clients could connect to: run them in it with start(), or "
    "use the fixture zabka_cluster (or running_cluster), or the world's own produce, consume, records and workload"
)
_TOPIC_DEFAULTS = ("num.partitions", "default.replication.factor")
"""Settings that a test's cluster also passes to its brokers, as defaults for topics that clients create.

In chaos scenarios, these settings apply only to the fixed topic.
"""
NODES = 3
"""Default number of peers, and default number of brokers."""


class SimulatedCluster(SimHost, SharedCalls[SimBroker]):
    """A simulated world, controlled by a test."""

    def __init__(self, world: World, seed: int = 0) -> None:
        super().__init__(world)
        self.seed = seed
        self.peers = {number: SimPeer(self, node, number) for number, node in world.peers.items()}
        self.brokers: dict[int, SimBroker] = {
            number: SimBroker(self, node, number) for number, node in world.brokers.items()
        }
        self.topics: SimTopics = SimTopics(self)
        self.faults = SimFaults(world)
        self._progress: dict[tuple[str, str], GroupProgress] = {}
        self._workloads: list[SimWorkload] = []
        self._consumers: list[SimConsumer] = []
        self._transactions: list[SimTransactions] = []

    # ---- queries -----------------------------------------------------------------------------------------------------

    @property
    def controller(self) -> SimBroker | None:
        """The broker that is controller according to the ensemble, or None."""
        return self.brokers.get(self.world.record.state.controller_id)

    @property
    def controller_epoch(self) -> int:
        """The value of /controller_epoch."""
        return self.world.record.state.controller_epoch

    @property
    def zab_leader(self) -> SimPeer | None:
        """The peer that is the established leader of the ensemble, or None."""
        node = self.world.zab_leader()
        return None if node is None else self.peers[node.peer_id]

    @property
    def bootstrap(self) -> NoReturn:
        """Raise ClusterFailed, because clients outside a simulated world cannot connect to it."""
        raise ClusterFailed(NO_ADDRESSES)

    @property
    def zookeeper_connect(self) -> NoReturn:
        """Raise ClusterFailed, because clients outside a simulated world cannot connect to it."""
        raise ClusterFailed(NO_ADDRESSES)

    def client_config(self, library: ClientLibrary) -> NoReturn:
        """Raise ClusterFailed, because clients outside a simulated world cannot connect to it."""
        raise ClusterFailed(NO_ADDRESSES)

    @property
    def violations(self) -> list[str]:
        """All violations of zabka's invariants so far."""
        return [f"{v.invariant}: {v.detail} (at {v.mono_us / 1e6:.3f} s)" for v in self.world.record.violations]

    def settings(self, node: str = "broker-1") -> dict[str, str]:
        """Return the effective configuration that a node wrote to its journal at its start."""
        return dict([e for e in self.events("node_started", after_us=-1) if e["node"] == node][-1]["config"])

    def events(self, *types: str, after_us: int | None = None) -> list[Happening]:
        """Return the events of the journal, or those since `after_us`; with `types`, only events of these types."""
        since_us = -1 if after_us is None else after_us
        found = (entry.to_dict() for entry in self.world.record.entries if entry.mono_us > since_us)
        return [event for event in found if not types or event["type"] in types]

    @property
    def began_us(self) -> int:
        """Time (as `now_us`) at which this test's events begin: always -1, because each test has its own world."""
        return -1

    def journal(self) -> list[Entry]:
        """Return all journal entries in order."""
        return list(self.world.record.entries)

    def replay(self, test: str) -> str:
        """Return the command that runs the same world again, with the same history, byte for byte."""
        quoted = test.replace("'", "'\\''")
        command = f"pytest '{quoted}' --zabka-seed {self.seed}"
        for option, number in (("--zabka-peers", len(self.peers)), ("--zabka-brokers", len(self.brokers))):
            command += "" if number == NODES else f" {option} {number}"
        return command

    # ---- actions -----------------------------------------------------------------------------------------------------

    def elect(self, kind: str, topic: str, partition: int = 0) -> str | None:
        """Request a PREFERRED or UNCLEAN election; return None, or Kafka's error name if it failed."""
        name = TopicPartition(topic, partition)
        results = self.ask(self.admin.elect_leaders({"PREFERRED": PREFERRED, "UNCLEAN": UNCLEAN}[kind], [name]))
        error = results[name][0]
        return None if error == 0 else error.name.upper()

    def call(self, work: Work[T]) -> T:
        """Run requests with a Kafka client in the world, and return the result.

        Raises ClusterFailed if a request is rejected.
        """
        return self.ask(work(self.admin, self.runtime))

    def workload(self, topic: str, *, acks: str = "all", records_per_s: float = 50) -> SimWorkload:
        """Start a workload that writes to all partitions of a topic."""
        workload = SimWorkload(self, len(self._workloads) + 1, topic, acks, records_per_s)
        self._workloads.append(workload)
        return workload

    def consumer(self, topic: str, group: str, *, offsets: Literal["kafka", "zookeeper"] = "kafka") -> SimConsumer:
        """Start a member of a consumer group.

        With `offsets="zookeeper"`, the member is an old consumer (before Kafka 0.9), which stores its offsets in
        ZooKeeper.
        """
        progress = self._progress.setdefault((group, offsets), GroupProgress())
        consumer = SimConsumer(self, len(self._consumers) + 1, topic, group=group, offsets=offsets, progress=progress)
        self._consumers.append(consumer)
        return consumer

    def transactional_producer(
        self, topic: str, *, transactional_id: str | None = None, records_per_s: float = 50, abort_every: int = 0
    ) -> SimTransactions:
        """Start a producer that writes one transaction after another, and aborts every `abort_every`-th (0: none)."""
        number = len(self._transactions) + 1
        started = sim_transactional_producer(self, number, topic, transactional_id, records_per_s, abort_every)
        self._transactions.append(started)
        return started

    def read_process_write(
        self, topic: str, output: str, group: str, *, transactional_id: str | None = None
    ) -> SimTransactions:
        """Start a member of a group that copies the committed records of a topic to another topic, exactly once."""
        started = sim_read_process_write(self, len(self._transactions) + 1, topic, output, group, transactional_id)
        self._transactions.append(started)
        return started

    def start(self, name: str, service: Service, *, restarts: bool = False) -> SimService:
        """Start an asyncio program of the test, the coroutine `service(bootstrap)`, on a machine of its own.

        With `restarts`, the program is started again one second after a failure. Otherwise a failure ends the call in
        which the test is waiting. Raises ValueError if the name is in use.
        """
        return SimService(self.world, self.world.start_service(name, service, restarts=restarts))

    def expire_session(self, client_id: int | tuple[int, bytes] | SimBroker) -> None:
        """End a client's session as if it had expired: its ephemeral znodes are deleted, and it gets SessionExpired.

        `client_id` is the id of the session, kazoo's `client.client_id`, or a broker, whose own session then ends.
        Raises ClusterFailed if there is no such session.
        """
        if isinstance(client_id, SimBroker):
            broker = client_id.node.broker
            client_id = 0 if broker is None else broker.coordination.session_id
        session_id = client_id if isinstance(client_id, int) else client_id[0]
        connector, hosts = self.machine.connector(), self.world.hosts
        self.ask(take_over_and_close(hosts, session_id, connector, self.runtime))

    def let_pass(self, seconds: float) -> None:
        """Advance the virtual time by `seconds`. Raises ClusterFailed if a program of the test fails meanwhile."""
        self.world.run(int(seconds * 1000))
        self.check_services()

    def until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the ensemble has a quorum, and a controller knows every running broker."""

        def ready() -> bool:
            if not self.brokers:
                return self.world.every_peer_serves()
            controller = self.controller
            acting = None if controller is None else controller.node.broker
            if self.zab_leader is None or acting is None or not acting.controller.is_active:
                return False
            running = [broker for broker in self.brokers.values() if broker.process == "running"]
            return all(broker.registered and acting.metadata.is_alive(broker.id) for broker in running)

        self.until(ready, timeout_s, "readiness")

    def close(self) -> None:
        """End the world: stop all its processes and clients."""
        self.world.end_world()


def start_simulated(
    *, seed: int = 0, peers: int = 3, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> SimulatedCluster:
    """Start a world with all its nodes, and wait until it is ready.

    `settings` has ZooKeeper and Kafka settings. If the world cannot start, raise ClusterFailed with the reason.
    """
    given = [
        f"{key}={value}"
        for key, value in {**FIXTURE_SETTINGS, **(settings or {}), "peers": peers, "brokers": brokers}.items()
    ]
    try:
        made = world_settings(given)
        defaults = {key: value for key, value in (settings or {}).items() if key in _TOPIC_DEFAULTS}
        made = msgspec.structs.replace(made, broker_keys={**made.broker_keys, **defaults})
        cluster = SimulatedCluster(World(seed, made), int(seed))
        cluster.world.requester = "fixture"
    except BadSetting as reason:
        raise ClusterFailed(f"the world cannot be made: {reason}") from None
    cluster.world.start()
    cluster.until_ready()
    return cluster


@contextmanager
def running_world(
    *, seed: int = 0, peers: int = 3, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> Iterator[SimulatedCluster]:
    """Run a world during a `with` block. This works without pytest, and also in a test with Hypothesis.

    Raises ClusterFailed if the world cannot be created, and at the end of the block if the world has violated an
    invariant.
    """
    cluster = start_simulated(seed=seed, peers=peers, brokers=brokers, settings=settings)
    try:
        yield cluster
        cluster.check_services()
        if cluster.violations:
            raise ClusterFailed(f"seed {seed}: {'; '.join(cluster.violations)}")
    finally:
        cluster.close()
