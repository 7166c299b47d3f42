"""A test's own asyncio programs in a simulated world."""

from __future__ import annotations

from zabka.simulation.cluster.service_machine import ServiceMachine
from zabka.simulation.cluster.world import World


class SimService:
    """A test's program that runs unmodified on its own simulated machine; `SimulatedCluster.start` returns it.

    Faults can name the machine in the same way as a broker. Other programs connect to the program's servers by the
    machine's name, as in `asyncio.open_connection("billing", 8000)`.
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
        """Whether the coroutine of the program's last run has returned without an exception."""
        return self._machine.has_returned

    @property
    def failures(self) -> list[str]:
        """Tracebacks of the program's runs that ended with an exception."""
        return list(self._machine.failures)

    def __repr__(self) -> str:
        return self.name

    def kill(self) -> None:
        """End the program at once (SIGKILL)."""
        self._world.kill(self.name)

    def power_loss(self) -> None:
        """Cut the power of the program's machine, which stays off until `start`."""
        self._world.kill(self.name, power_loss=True)

    def terminate(self) -> None:
        """Send SIGTERM: call the handler that the program has set, or end the program if it has set none."""
        if not self._machine.terminate():
            self.kill()

    def start(self) -> None:
        """Start the program if it is not running."""
        self._machine.start()

    def restart(self) -> None:
        """Kill the program if it is running, and start it again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Pause the program (SIGSTOP)."""
        self._world.pause(self.name)

    def resume(self) -> None:
        """Resume the program (SIGCONT)."""
        self._world.resume(self.name)
