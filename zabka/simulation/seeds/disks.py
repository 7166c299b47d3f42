"""The scenario `disks`: chaos on disks that fail.

Beside all that `chaos` draws, disks return errors, are full for a while, or stall; what a power loss leaves of unsynced
bytes is torn; and what was synced is damaged (`zabka.simulation.faults.disk_faults`).

Only a minority of the peers has disks that may lose what they synced, for a transaction that is damaged on a quorum may
be lost by definition.  To the same minority belongs what no reader can tell from that: later sectors of an unsynced
write that survive without earlier ones, and garbage in the place of a sector.  (Where a power cut leaves such on every
peer, all of them take themselves for incomplete and none may lead, until an operator says so.)  Epoch files have no
checksum in ZooKeeper's format either; they are not damaged here.

When all is healed, one directory of a broker that has two fails once more
(`go_on_without_a_directory` (`zabka.simulation.seeds.failed_directory`)).
"""

from __future__ import annotations

from random import Random

import msgspec

from zabka.simulation.faults.chaos import chaos
from zabka.simulation.faults.disk_faults import LOG_DIR_FAULTS, PEER_DISK_FAULTS, disk_of
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.network.addresses import peer_name
from zabka.simulation.seeds.failed_directory import go_on_without_a_directory
from zabka.simulation.seeds.seed_run import SeedRun, SeedScenario
from zabka.simulation.settings import WorldSettings

PEERS_ALONE_CHANCE = 0.5


def _shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """A world for this scenario: brokers or not, three peers or five."""
    alone = random.random() < PEERS_ALONE_CHANCE
    return msgspec.structs.replace(
        settings,
        faulty_disks=True,
        brokers=0 if alone else settings.brokers,
        peers=(3, 5)[random.randrange(0, 2)] if alone else settings.peers,
        snap_count=(20, 100, 400)[random.randrange(0, 3)],
    )


def _play(run: SeedRun) -> None:
    """Chaos on disks that fail, then recovery."""
    world = run.world
    draw = derive_random(run.seed, "fragile")
    peers = list(world.peers)
    for _ in range((len(peers) - 1) // 2):
        disk_of(world, peer_name(peers.pop(draw.randrange(0, len(peers))))).is_fragile = True
    run.boot()
    more = PEER_DISK_FAULTS | LOG_DIR_FAULTS if world.brokers else PEER_DISK_FAULTS
    run.harm(chaos(world, derive_random(run.seed, "nemesis"), more))
    go_on_without_a_directory(world)
    run.recover()


DISKS = SeedScenario("disks", _shape, _play)
