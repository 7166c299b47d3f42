"""The nodes of a simulated cluster: their state, and methods to control them."""

from __future__ import annotations

from zabka.simulation.cluster.broker_machine import BrokerMachine
from zabka.simulation.cluster.peer_machine import PeerMachine
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.testing.cluster import Believes, ClusterFailed
from zabka.testing.worlds.host import SimHost

_STOP_TIMEOUT_S = 60.0


class _SimNode:
    """One simulated node: the state of its process, and methods to control it."""

    def __init__(self, host: SimHost, node: ServerMachine, number: int) -> None:
        self._host = host
        self._node = node
        self.id = number
        self.name = node.name

    def __repr__(self) -> str:
        return self.name

    @property
    def process(self) -> str:
        """The state of the process: `running`, `paused` or `down`."""
        world = self._host.world
        if not world.is_running(self.name):
            return "down"
        return "paused" if world.is_paused(self.name) else "running"

    def _must_be(self, *states: str) -> None:
        if self.process not in states:
            raise ClusterFailed(f"{self.name} is {self.process}, not {' or '.join(states)}")

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        self._must_be("running", "paused")
        self._host.world.kill(self.name)

    def power_loss(self) -> None:
        """Cut the power of the node's machine, so that unsynced data can be lost."""
        self._must_be("running", "paused")
        self._host.world.kill(self.name, power_loss=True)

    def stop(self) -> None:
        """Send SIGTERM, and wait until the process has ended; a broker performs a controlled shutdown."""
        self._must_be("running")
        self._node.stop()
        self._host.until(lambda: self._node.process is None, _STOP_TIMEOUT_S, f"the end of {self.name}")

    def pause(self) -> None:
        """Send SIGSTOP to the process."""
        self._must_be("running")
        self._host.world.pause(self.name)

    def resume(self) -> None:
        """Send SIGCONT to the process."""
        self._must_be("paused")
        self._host.world.resume(self.name)

    def start(self) -> None:
        """Start the node after a stop, kill or power loss."""
        self._must_be("down")
        self._host.world.start(self.name)

    def restart(self) -> None:
        """Stop the node, and start it again."""
        self.stop()
        self.start()


class SimPeer(_SimNode):
    """A simulated peer; `node` is its machine in the world."""

    def __init__(self, host: SimHost, node: PeerMachine, number: int) -> None:
        super().__init__(host, node, number)
        self.node = node

    @property
    def state(self) -> str:
        """The peer's state: LEADING, FOLLOWING, LOOKING, OBSERVING or DOWN."""
        running = self.node.running
        return "DOWN" if running is None else running.peer.state.name

    @property
    def phase(self) -> str:
        """The peer's ZAB phase: ELECTION, DISCOVERY, SYNCHRONIZATION or BROADCAST."""
        running = self.node.running
        return "ELECTION" if running is None else str(running.peer.phase)


class SimBroker(_SimNode):
    """A simulated broker; `node` is its machine in the world."""

    def __init__(self, host: SimHost, node: BrokerMachine, number: int) -> None:
        super().__init__(host, node, number)
        self.node = node

    @property
    def registered(self) -> bool:
        """Whether the broker's ephemeral znode exists in /brokers/ids."""
        return self._host.world.record.state.broker(self.id).registered

    @property
    def is_controller(self) -> bool:
        """Whether the broker considers itself the controller, correctly or not."""
        return self._host.world.record.state.broker(self.id).is_controller

    @property
    def believes(self) -> Believes:
        """The controller that this broker believes in."""
        state = self._host.world.record.state.broker(self.id)
        return Believes(state.believed_controller_id, state.believed_controller_epoch)
