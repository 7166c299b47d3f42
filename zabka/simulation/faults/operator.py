"""An operator of the ensemble, who changes znodes of a running cluster manually."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ZooKeeperError
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo, broker_path, encode_broker
from zabka.simulation.cluster.broker_machine import KAFKA_PORT, broker_address
from zabka.simulation.cluster.world import World

MACHINE = "operator"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"


class Operator:
    """Simulated operator. No faults affect the operator's host, and each command uses a new session."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._runtime = world.scripted_client(MACHINE).runtime()

    def move_controller(self) -> None:
        """Delete /controller, so that the brokers elect a controller while the old one is still alive."""
        self._runtime.spawn(self._delete(CONTROLLER), "move the controller")

    def raise_controller_epoch(self, by: int) -> None:
        """Increase the controller epoch stored in /controller_epoch by `by`."""

        async def raised(client: Client) -> None:
            data, _ = await client.get(CONTROLLER_EPOCH)
            await client.set(CONTROLLER_EPOCH, str(int(data) + by).encode())

        self._runtime.spawn(self._at_the_prompt(raised), "raise the controller epoch")

    def hold_broker_id(self, broker: int, for_ms: int) -> None:
        """Create a broker's znode in /brokers/ids in another process's session, and delete it after `for_ms`."""

        async def hold(client: Client) -> None:
            endpoint = BrokerEndpoint("PLAINTEXT", broker_address(broker), KAFKA_PORT)
            data = encode_broker(BrokerInfo(broker, (endpoint,)), self._runtime.now().wall_ms)
            await client.create(broker_path(broker), data, ephemeral=True)
            await self._runtime.sleep(for_ms)

        self._runtime.spawn(self._at_the_prompt(hold), "hold a broker's id")

    async def _delete(self, path: str) -> None:
        await self._at_the_prompt(lambda client: client.delete(path))

    async def _at_the_prompt(self, do: Callable[[Client], Awaitable[object]]) -> None:
        client, _ = self._world.zookeeper_client(MACHINE)
        # Ignore failures, for example if the znode does not exist or the ensemble does not reply: an operator would try
        # again later.
        with suppress(ZooKeeperError):
            await client.start()
            await do(client)
        self._runtime.spawn(client.close(), "close")
