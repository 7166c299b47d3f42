"""A test's own asyncio programs in a simulated world."""

from __future__ import annotations

from zabka.simulation.cluster.service_machine import ServiceMachine
from zabka.simulation.cluster.world import World


class SimService:
    """A program that runs unmodified on a separate machine; `SimulatedCluster.start` returns it.

    Faults name the machine as they name brokers. Other programs connect to its servers by its name, as in
    `asyncio.open_connection("billing", 8000)`.
    """

    def __init__(self, world: World, machine: ServiceMachine) -> None:
        self._world = world
        self._machine = machine

    @property
    def name(self) -> str:
        """The name of the program's machine."""
        return self._machine.name

    @property
    def process(self) -> str:
        """The state of the program: running, paused or down."""
        if self._machine.process is None:
            return "down"
        return "paused" if self._machine.is_paused else "running"

    @property
    def has_returned(self) -> bool:
        """Whether the coroutine of the program's last run has returned."""
        return self._machine.has_returned

    @property
    def failures(self) -> list[str]:
        """The traceback of each run that ended with an exception."""
        return list(self._machine.failures)

    def __repr__(self) -> str:
        return self.name

    def kill(self) -> None:
        """Send SIGKILL: end the program at once."""
        self._world.kill(self.name)

    def power_loss(self) -> None:
        """Cut the power of the program's machine, which stays off until `start`."""
        self._world.kill(self.name, power_loss=True)

    def terminate(self) -> None:
        """Send SIGTERM: call the handler that the program has set, or kill the program if there is none."""
        if not self._machine.terminate():
            self.kill()

    def start(self) -> None:
        """Start the program, unless it is running."""
        self._machine.start()

    def pause(self) -> None:
        """Send SIGSTOP to the program."""
        self._world.pause(self.name)

    def resume(self) -> None:
        """Send SIGCONT to the program."""
        self._world.resume(self.name)
