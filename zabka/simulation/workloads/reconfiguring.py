"""A client that changes the ensemble's membership, one change after another, while faults are injected."""

from __future__ import annotations

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.ensemble.ids import PeerId
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.server_line import ServerLine
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.network.connector import SimConnector
from zabka.simulation.nodes.membership import server_line
from zabka.simulation.world import World

GAP_MS_MAX = 2_500
OBSERVER_CHANCE = 0.25
WHOLE_CHANCE = 0.4


class Reconfigurer:
    """Requests random membership changes while `active`, from a host without faults.

    `changed` counts successful changes, `refused` failed ones.  A failed change may still have taken effect if its
    reply was lost.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = derive_random(world.seed, "reconfigurer")
        self._runtime = SimRuntime(world.scheduler, derive_random(world.seed, "reconfigurer/client"))
        host = world.network.boot("reconfigurer", self._runtime)
        connector = SimConnector(world.network, host)
        self._client = Client(world.zookeeper_connect, connector, self._runtime, name="reconfigurer")
        self.active = False
        self.changed = 0
        self.refused = 0

    def start(self) -> None:
        """Start the requests."""
        self.active = True
        self._runtime.spawn(self._run(), "reconfigurer")

    async def _run(self) -> None:
        await self._client.start()
        while self.active:
            await self._runtime.sleep(self._random.randrange(1, GAP_MS_MAX))
            try:
                await self._change()
            except SessionExpired:
                await self._client.renew()
            except ZooKeeperError:
                self.refused += 1
        await self._client.close()

    async def _change(self) -> None:
        """Let one server join, change its role or leave; or draw a new membership."""
        peers = range(1, self._world.settings.peers + 1)
        if self._random.random() < WHOLE_CHANCE:
            members = [peer for peer in peers if self._random.random() < 0.6]
            lines = {PeerId(peer): self._line(peer) for peer in members}
            await self._client.reconfig(new_members=Membership.of_servers(lines, 0).text)
        else:
            data, _ = await self._client.get("/zookeeper/config")
            peer = PeerId(self._random.randrange(1, len(peers) + 1))
            if peer in Membership.parse(data.decode()).lines and self._random.random() < 0.6:
                await self._client.reconfig(leaving=str(peer))
            else:
                await self._client.reconfig(joining=f"server.{peer}={self._line(peer).canonical()}")
        self.changed += 1

    def _line(self, peer: int) -> ServerLine:
        return server_line(peer, observer=self._random.random() < OBSERVER_CHANCE)
