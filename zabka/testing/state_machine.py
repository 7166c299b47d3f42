"""A state machine for hypothesis that produces, consumes and injects faults in random order in a simulated cluster.

    class TestOrders(ClusterMachine.TestCase):
        settings = settings(max_examples=20, stateful_step_count=15, deadline=None)

Hypothesis chooses the steps, and shrinks a failure to a short list of steps. A subclass adds rules for the code under
test; `self.world` is the cluster, and `self.topic` the topic. After each step, the test fails if the world's checkers
have found a violation. At the end, all faults are healed, and the test fails if an acknowledged record cannot be read
back at its offset.

The machine needs hypothesis. An example takes about a second of processor time.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zabka.testing.cluster import ClusterFailed
from zabka.testing.worlds.cluster import SimulatedCluster, running_world
from zabka.testing.worlds.nodes import SimBroker, SimPeer

SEEDS = st.integers(0, 2**32 - 1)
NUMBERS = st.integers(0, 2**16)
"""A number that selects a node or a partition: modulo the number of candidates, it is the index of the candidate."""
RECORDS_MAX = 3
SECONDS_MAX = 10
PRODUCE_S = 5.0
_RECOVERY_S = 120.0


class ClusterMachine(RuleBasedStateMachine):
    """A state machine whose rules are steps on a cluster with one topic.

    Its class variables are the cluster's parameters.
    """

    peers: ClassVar[int] = 3
    brokers: ClassVar[int] = 3
    partitions: ClassVar[int] = 2
    settings: ClassVar[Mapping[str, str]] = {}
    topic: ClassVar[str] = "orders"

    def __init__(self) -> None:
        super().__init__()
        self.world: SimulatedCluster
        self.acknowledged: dict[tuple[int, int], str] = {}
        """Value of each acknowledged record, keyed by partition and offset."""
        self._ends = ExitStack()
        self._produced = 0

    @initialize(seed=SEEDS)
    def start(self, seed: int) -> None:
        """Start a world, and create the topic."""
        block = running_world(seed=seed, peers=self.peers, brokers=self.brokers, settings=self.settings)
        self.world = self._ends.enter_context(block)
        self.world.topics.create(self.topic, self.partitions)

    # ---- steps -------------------------------------------------------------------------------------------------------

    @rule(number=NUMBERS, count=st.integers(1, RECORDS_MAX))
    def produce(self, number: int, count: int) -> None:
        """Write records to a partition. If they are not acknowledged, the partition's log may still contain them."""
        partition = number % self.partitions
        values = [f"{self._produced + place}" for place in range(count)]
        self._produced += count
        try:
            first = self.world.produce(self.topic, values, partition, timeout_s=PRODUCE_S)
        except ClusterFailed:
            return
        self.acknowledged.update({(partition, first + place): value for place, value in enumerate(values)})

    @rule(number=NUMBERS)
    def consume(self, number: int) -> None:
        """Read a partition and compare it with the acknowledged records. Do nothing if the partition has no leader."""
        partition = number % self.partitions
        try:
            read = self._read(partition)
        except ClusterFailed:
            return
        self._compare(partition, read)

    @precondition(lambda self: len(self._running()) > 1)
    @rule(number=NUMBERS)
    def kill_broker(self, number: int) -> None:
        """Kill a broker, unless it is the last running one."""
        self._chosen(self._running(), number).kill()

    @precondition(lambda self: all(peer.process == "running" for peer in self.world.peers.values()))
    @rule(number=NUMBERS)
    def kill_peer(self, number: int) -> None:
        """Kill a peer, unless another peer is already down."""
        peers = list(self.world.peers.values())
        peers[number % len(peers)].kill()

    @precondition(lambda self: bool(self._down()))
    @rule(number=NUMBERS)
    def restart(self, number: int) -> None:
        """Start a node that is down."""
        down = self._down()
        down[number % len(down)].start()

    @precondition(lambda self: len(self._running()) > 1)
    @rule(one=NUMBERS, other=NUMBERS)
    def cut(self, one: int, other: int) -> None:
        """Cut the links between a broker and another node."""
        broker = self._chosen(self._running(), one)
        nodes: list[SimBroker | SimPeer] = [*self.world.peers.values(), *self.world.brokers.values()]
        others = [node for node in nodes if node is not broker]
        self.world.faults.cut(broker, others[other % len(others)])

    @rule()
    def heal(self) -> None:
        """Heal all links."""
        self.world.faults.heal()

    @rule(seconds=st.integers(1, SECONDS_MAX))
    def let_pass(self, seconds: int) -> None:
        """Advance the virtual time by `seconds`."""
        self.world.let_pass(seconds)

    # ---- checks ------------------------------------------------------------------------------------------------------

    @invariant()
    def no_checker_found_a_violation(self) -> None:
        """Check that the world's checkers have found no violation."""
        violations = self.world.violations
        assert not violations, violations

    def teardown(self) -> None:
        """Repair the cluster, check that every acknowledged record can be read, and end the world."""
        # Run the checks only after success: if a step has failed, or hypothesis abandons the example, they would hide
        # the reason.
        ended_well = sys.exc_info()[0] is None
        with self._ends:
            if ended_well:
                self._recover()
                for partition in range(self.partitions):
                    self._compare(partition, self._read(partition))

    def _recover(self) -> None:
        self.world.faults.heal()
        for node in self._down():
            node.start()
        self.world.until_ready(_RECOVERY_S)
        self.world.until_in_sync(self.topic, _RECOVERY_S)

    def _read(self, partition: int) -> dict[int, str]:
        records = self.world.records(self.topic, partition, timeout_s=PRODUCE_S)
        return {record.offset: record.text for record in records if record.offset is not None}

    def _compare(self, partition: int, read: Mapping[int, str]) -> None:
        expected = {offset: value for (number, offset), value in self.acknowledged.items() if number == partition}
        wrong = {offset: (value, read.get(offset)) for offset, value in expected.items() if read.get(offset) != value}
        assert not wrong, f"{self.topic}-{partition}: acknowledged and read, by offset: {wrong}"

    def _running(self) -> list[SimBroker]:
        return [broker for broker in self.world.brokers.values() if broker.process == "running"]

    def _down(self) -> list[SimBroker | SimPeer]:
        nodes: list[SimBroker | SimPeer] = [*self.world.peers.values(), *self.world.brokers.values()]
        return [node for node in nodes if node.process == "down"]

    def _chosen(self, brokers: list[SimBroker], number: int) -> SimBroker:
        return brokers[number % len(brokers)]
