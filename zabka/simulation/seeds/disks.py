"""The scenario `disks`: chaos with disk failures.

In addition to the faults of `chaos`, disks return errors, are full for a while, stall, and lose synced data
(`zabka.simulation.faults.disk_faults`).  Only disks of a minority of the peers lose synced data, because ZooKeeper can
lose a transaction that is damaged on a quorum.
"""

from __future__ import annotations

from random import Random

import msgspec

from zabka.simulation.draws import derive_random
from zabka.simulation.faults.chaos import chaos
from zabka.simulation.faults.disk_faults import LOG_DIR_FAULTS, PEER_DISK_FAULTS
from zabka.simulation.seeds.failed_directory import go_on_without_a_directory
from zabka.simulation.seeds.seed_run import SeedRun, SeedScenario
from zabka.simulation.settings import WorldSettings

PEERS_ALONE_CHANCE = 0.5


def _shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """Return settings for a world with or without brokers, and with three or five peers."""
    alone = random.random() < PEERS_ALONE_CHANCE
    return msgspec.structs.replace(
        settings,
        faulty_disks=True,
        brokers=0 if alone else settings.brokers,
        peers=(3, 5)[random.randrange(0, 2)] if alone else settings.peers,
        snap_count=(20, 100, 400)[random.randrange(0, 3)],
    )


def _play(run: SeedRun) -> None:
    """Inject random faults including disk failures, then wait for recovery."""
    run.boot()
    more = PEER_DISK_FAULTS | LOG_DIR_FAULTS if run.world.brokers else PEER_DISK_FAULTS
    run.inject_faults(chaos(run.world, derive_random(run.seed, "nemesis"), more))
    go_on_without_a_directory(run.world)
    run.recover()


DISKS = SeedScenario("disks", _shape, _play)
