"""An operator that makes one membership change after another while faults are injected."""

from __future__ import annotations

from random import Random

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.ensemble.ids import PeerId
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.zab.membership import Membership
from zabka.simulation.cluster.ensemble_world import server_line

GAP_MS_MAX = 4_000
OBSERVER_CHANCE = 0.25
LEAVES_CHANCE = 0.6
VOTERS_MIN = 2


class Changing:
    """Makes random membership changes (reconfig) while `active`, then makes every server a participant again.

    `changed` counts the successful membership changes.
    """

    def __init__(self, random: Random, peers: int) -> None:
        self._random = random
        self._peers = peers
        self.active = True
        self.whole = False
        """Whether every server has become a participant again."""
        self.changed = 0

    async def work(self, client: Client, runtime: AsyncioRuntime) -> None:
        """Run the operator that makes the membership changes."""
        await client.start()
        while not self.whole:
            await runtime.sleep(self._random.randrange(1, GAP_MS_MAX if self.active else 300))
            try:
                await (self._change(client) if self.active else self._bring_back(client))
            except SessionExpired:
                await client.renew()
            except ZooKeeperError:
                continue
        await client.close()

    async def _change(self, client: Client) -> None:
        """Make a random server join, change its role, or leave, unless that would leave too few voters."""
        membership = await _membership(client)
        peer = PeerId(self._random.randrange(1, self._peers + 1))
        voters = [each for each in membership.voters if each != peer]
        if len(voters) < VOTERS_MIN:
            return
        if peer in membership.lines and self._random.random() < LEAVES_CHANCE:
            await client.reconfig(leaving=str(peer))
        else:
            observer = self._random.random() < OBSERVER_CHANCE
            await client.reconfig(joining=f"server.{peer}={server_line(peer, observer=observer)}")
        self.changed += 1

    async def _bring_back(self, client: Client) -> None:
        membership = await _membership(client)
        missing = [peer for peer in range(1, self._peers + 1) if PeerId(peer) not in membership.voters]
        if missing:
            await client.reconfig(joining=f"server.{missing[0]}={server_line(missing[0])}")
            self.changed += 1
        else:
            self.whole = True


async def _membership(client: Client) -> Membership:
    await client.sync("/zookeeper/config")
    data, _ = await client.get("/zookeeper/config")
    return Membership.parse(data.decode())
