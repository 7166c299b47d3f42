"""An operator at the ensemble's prompt: the few things people do by hand to a live cluster."""

from __future__ import annotations

from contextlib import suppress

from ensemble.client.client import Client
from ensemble.errors import ZooKeeperError
from simulation.kernel.draws import derive_random
from simulation.kernel.runtime import SimRuntime
from simulation.network.connector import SimConnector
from simulation.world import World

CONTROLLER = "/controller"


class Operator:
    """Works from a host that no fault touches, in a session of its own for each thing done."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._runtime = SimRuntime(world.scheduler, derive_random(world.seed, "operator"))
        self._host = world.network.boot("operator", self._runtime)

    def move_controller(self) -> None:
        """Delete /controller, so that the brokers race for it anew: a known trick, and the old controller lives on."""
        self._runtime.spawn(self._delete(CONTROLLER), "move the controller")

    async def _delete(self, path: str) -> None:
        connector = SimConnector(self._world.network, self._host)
        client = Client(self._world.zookeeper_connect, connector, self._runtime, name="operator")
        # Where there was none, or the ensemble did not answer, people shrug and try again later.
        with suppress(ZooKeeperError):
            await client.start()
            await client.delete(path)
        self._runtime.spawn(client.close(), "close")
