"""An ensemble whose members come, go and change their roles while faults strike.

The world has as many peer machines as it has peers; `members` of them make the first membership, the others run as
servers that want to join.  A reconfigurer asks for one change after another, in the midst of whatever else happens.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec

from ensemble.auth.policy import AuthPolicy
from ensemble.client.client import Client
from ensemble.errors import SessionExpired, ZooKeeperError
from ensemble.ids import PeerId
from ensemble.zab.application import EnsembleConfig
from ensemble.zab.membership import Membership
from ensemble.zab.server_line import ServerLine
from simulation.kernel.draws import derive_random
from simulation.kernel.runtime import SimRuntime
from simulation.network.connector import SimConnector

if TYPE_CHECKING:
    from simulation.run import Run
    from simulation.world import World, WorldSettings

GAP_MS_MAX = 2_500
AGREE_MS_MAX = 120_000
OBSERVER_CHANCE = 0.25
WHOLE_CHANCE = 0.4
ADMIN = AuthPolicy(skip_acl=True)
"""Whoever can reach the ensemble may change it: what is searched here is not who may."""


def server_line(peer: int, *, observer: bool = False) -> ServerLine:
    """A peer as a member; addresses mean nothing in the simulated network, which goes by names."""
    return ServerLine(f"peer-{peer}", 2888, 3888, observer, "0.0.0.0", 2181)


def with_membership(config: EnsembleConfig, members: int) -> EnsembleConfig:
    """A peer's configuration in an ensemble of so many first members that may change; a peer that is none of them
    knows them and itself."""
    ids = dict.fromkeys((*range(1, members + 1), config.my_id))
    first = Membership.of_servers({PeerId(i): server_line(i) for i in ids}, 0)
    return msgspec.structs.replace(config, membership=first.text, reconfig_enabled=True, auth=ADMIN)


def shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """A world for this scenario: three to five machines, no brokers."""
    peers = 3 + random.randrange(0, 3)
    members = 2 + random.randrange(0, peers - 1)
    return msgspec.structs.replace(settings, brokers=0, peers=peers, members=min(members, peers))


class Reconfigurer:
    """Asks for random changes while `active`, from a host that no fault touches.  `changed` counts those that were
    answered, `refused` those that the ensemble turned down; others got lost, and may have come true or not."""

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
        """Begin."""
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
        """One server joins, changes its role, or leaves; or the whole membership is drawn anew."""
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


def reconfiguring(run: Run) -> None:
    """Changes under a random mix of faults; then recovery, and one membership that everybody knows."""
    run.boot()
    reconfigurer = Reconfigurer(run.world)
    reconfigurer.start()
    run.harm()
    reconfigurer.active = False
    run.recover()
    run.world.until(lambda: _agree(run.world), AGREE_MS_MAX, "one membership that every peer knows")


def _agree(world: World) -> bool:
    peers = [node.peer for node in world.peers.values()]
    texts = [peer.membership.text for peer in peers if peer is not None]
    return len(texts) == len(peers) and all(text == texts[0] for text in texts)
