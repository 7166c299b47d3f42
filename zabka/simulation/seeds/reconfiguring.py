"""An ensemble whose members come, go and change their roles while faults strike.

The world has as many peer machines as it has peers; `members` of them make the first membership, the others run as
servers that want to join.  A reconfigurer asks for one change after another, in the midst of whatever else happens.
"""

from __future__ import annotations

from random import Random

import msgspec

from zabka.simulation.seeds.seed_run import SeedRun, SeedScenario
from zabka.simulation.settings import WorldSettings
from zabka.simulation.workloads.reconfiguring import Reconfigurer
from zabka.simulation.world import World

AGREE_MS_MAX = 120_000


def _shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """A world for this scenario: three to five machines, no brokers."""
    peers = 3 + random.randrange(0, 3)
    members = 2 + random.randrange(0, peers - 1)
    return msgspec.structs.replace(settings, brokers=0, peers=peers, members=min(members, peers))


def _play(run: SeedRun) -> None:
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


RECONFIGURING = SeedScenario("reconfiguring", _shape, _play)
