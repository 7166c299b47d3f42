"""Faults of whole clusters: the faults of `process_faults`, and faults that only brokers can have.

The faults of `process_faults` are mostly applied to brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from zabka.ensemble.ports import Runtime
from zabka.kafka.client.admin_client import AdminClient
from zabka.simulation.cluster.broker_machine import BrokerMachine
from zabka.simulation.cluster.cluster_world import ClusterWorld
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.faults import process_faults as faults
from zabka.simulation.faults.kafka_operator import NAME as OPERATOR
from zabka.simulation.faults.kafka_operator import KafkaOperator
from zabka.simulation.faults.process_faults import NEVER, ServingNemesis
from zabka.simulation.faults.topic_faults import TOPIC_FAULTS
from zabka.simulation.filesystem.inode import BLOCK_BYTES

BROKERS_CHANCE = 0.8
SESSION_MS = 6_000
BOUNCE_MS_MAX = 300
OPERATIONS_MAX = 60
BLOCKS_LEFT_MAX = 4

ClusterAction = Callable[["ClusterNemesis"], None]


class ClusterNemesis(ServingNemesis):
    """Injects faults into brokers and peers, and runs an operator that uses Kafka's tools."""

    world: ClusterWorld

    def __init__(self, world: ClusterWorld, random: Random, kinds: Sequence[ClusterAction], gap_ms: int) -> None:
        super().__init__(world, random, [self._of_cluster(kind) for kind in kinds], gap_ms)
        self._operator: KafkaOperator | None = None
        world.run_kafka_client(OPERATOR, self._operate)

    async def _operate(self, client: AdminClient, runtime: Runtime) -> None:
        self._operator = KafkaOperator(client, runtime)
        await runtime.future()

    @property
    def kafka(self) -> KafkaOperator:
        """The operator that uses Kafka's tools."""
        assert self._operator is not None, "the operator's machine has had time to start"
        return self._operator

    def _of_cluster(self, kind: ClusterAction) -> faults.Action:
        return lambda _: kind(self)

    def injected(self) -> list[ServerMachine]:
        """Return the machines that faults can affect: those of all peers and brokers."""
        return self.world.servers()

    def pick(self) -> ServerMachine:
        """Return the machine of a randomly chosen broker or, less often, of a peer."""
        return self.pick_broker() if self.random.random() < BROKERS_CHANCE else self.pick_peer()

    def pick_broker(self) -> BrokerMachine:
        """Draw a broker's machine; the controller has a higher probability."""
        brokers = self.world.brokers
        controller = self.world.record.state.controller_id
        if controller in brokers and self.random.random() < 0.25:
            return brokers[controller]
        machines = list(brokers.values())
        return machines[self.random.randrange(0, len(machines))]


def bounce(nemesis: ClusterNemesis) -> None:
    """Kill a broker or cut its power, and start it again before its session expires."""
    power = nemesis.random.random() < 0.5
    nemesis.down(nemesis.pick_broker(), power=power, lasts_ms=nemesis.random.randrange(1, BOUNCE_MS_MAX))


def expire_session(nemesis: ClusterNemesis) -> None:
    """Cut a broker off from the ensemble for longer than its session timeout, but not from other brokers or clients."""
    name = nemesis.pick_broker().name
    lasts_ms = nemesis.random.randrange(SESSION_MS, 2 * SESSION_MS)
    for machine in nemesis.world.peers.values():
        nemesis.until_healed(nemesis.world.cut(name, machine.name, both_ways=True), lasts_ms)


def cut_brokers(nemesis: ClusterNemesis) -> None:
    """Cut the link between two brokers, in one or both directions.  Both keep their links to the ensemble."""
    names = [machine.name for machine in nemesis.world.brokers.values()]
    source, target = nemesis.random.sample(names, 2)
    nemesis.until_healed(nemesis.world.cut(source, target, both_ways=nemesis.random.random() < 0.5))


def power_loss_of_all_brokers(nemesis: ClusterNemesis) -> None:
    """Cut the power of all brokers at once."""
    for machine in nemesis.world.brokers.values():
        nemesis.down(machine, power=True)


def power_loss_in_mid_operation(nemesis: ClusterNemesis) -> None:
    """Cut a broker's power during a series of its file operations."""
    machine = nemesis.pick_broker()
    machine.lose_power_after(nemesis.random.randrange(1, OPERATIONS_MAX), nemesis.world.announce_power_loss)

    def back() -> None:
        # Cancel the power loss, in case it has not happened yet.
        machine.lose_power_after(NEVER, nemesis.world.announce_power_loss)
        machine.switch_on()

    nemesis.until_healed(back)


def replace_disk(nemesis: ClusterNemesis) -> None:
    """Replace a broker's disk by an empty disk, as Kafka allows at any time."""
    machine = nemesis.pick_broker()
    if nemesis.world.leaves_out("disk_replaced", machine.name):
        return
    machine.kill()
    nemesis.world.announce("disk_replaced", machine.name)
    machine.format()
    nemesis.until_healed(machine.switch_on)


def fill_disk(nemesis: ClusterNemesis) -> None:
    """Fill a broker's disk, leaving a few free blocks or none."""
    machine = nemesis.pick_broker()
    if nemesis.world.leaves_out("disk_full", machine.name):
        return
    fault_id = nemesis.world.announce("disk_full", machine.name)
    machine.volume.room_bytes = nemesis.random.randrange(0, BLOCKS_LEFT_MAX) * BLOCK_BYTES

    def make_room() -> None:
        machine.volume.repair()
        nemesis.world.over(fault_id)

    nemesis.until_healed(make_room)


FAULTS: dict[str, ClusterAction] = {
    "kill": faults.kill,
    "power_loss": faults.power_loss,
    "power_loss_of_all": faults.power_loss_of_all,
    "power_loss_of_all_brokers": power_loss_of_all_brokers,
    "power_loss_in_mid_operation": power_loss_in_mid_operation,
    "bounce": bounce,
    "restart_of_all": faults.restart_of_all,
    "terminate": faults.terminate,
    "pause": faults.pause,
    "slow_disk": faults.slow_disk,
    "cut": faults.cut,
    "cut_brokers": cut_brokers,
    "expire_session": expire_session,
    "isolate": faults.isolate,
    "split": faults.split,
    "delay": faults.delay,
    "cut_client": faults.cut_client,
    "fail_sync": faults.fail_sync,
    "fail_file": faults.fail_file,
    "fill_disk": fill_disk,
    "replace_disk": replace_disk,
    "stall_disk": faults.stall_disk,
    **TOPIC_FAULTS,
}
"""Faults of a whole cluster, by name.  The order matters: it determines what a seed draws."""


def draw_cluster_nemesis(world: ClusterWorld, random: Random) -> ClusterNemesis:
    """Return a nemesis with a random selection of FAULTS; each seed omits different ones (swarm testing)."""
    chosen = [action for action in FAULTS.values() if random.random() < 0.4]
    return ClusterNemesis(world, random, chosen or [bounce], random.randrange(500, 4_000))
