"""The scenario of an ensemble whose members join, leave and change roles while faults are injected."""

from __future__ import annotations

from random import Random

import msgspec

from zabka.simulation.draws import derive_random
from zabka.simulation.faults.changing import Changing
from zabka.simulation.seeds.seed_run import RECOVERY_MS_MAX, SeedRun, SeedScenario
from zabka.simulation.settings import WorldSettings


def _shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """Return settings for a world of three to five peers without brokers."""
    return msgspec.structs.replace(settings, brokers=0, peers=3 + random.randrange(0, 3), changes_members=True)


def _play(run: SeedRun) -> None:
    """Change the membership under random faults, then make every server a participant again and recover."""
    run.boot()
    changing = Changing(derive_random(run.seed, "changes"), len(run.world.peers))
    run.world.add_client("reconfigurer", changing.work)
    run.inject_faults()
    changing.active = False
    run.world.until(lambda: changing.whole, RECOVERY_MS_MAX, "a membership of all servers")
    run.recover()


RECONFIGURING = SeedScenario("reconfiguring", _shape, _play)
