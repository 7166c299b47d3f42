"""The scenarios that most seeds are run with: chaos in the whole cluster, chaos among the peers alone, and none."""

from __future__ import annotations

from random import Random

import msgspec

from simulation.seeds.seed_run import HARM_MS, SeedRun, SeedScenario
from simulation.settings import WorldSettings


def _as_wished(settings: WorldSettings, random: Random) -> WorldSettings:
    return settings


def _peers_alone(settings: WorldSettings, random: Random) -> WorldSettings:
    """The peers alone, in another size and shape for each seed."""
    return msgspec.structs.replace(
        settings,
        brokers=0,
        peers=(1, 3, 3, 3, 5, 5, 7)[random.randrange(0, 7)],
        snap_count=(8, 50, 400)[random.randrange(0, 3)],
        sync_limit=random.randrange(2, 6),
    )


def _calm(run: SeedRun) -> None:
    """Nothing goes wrong."""
    run.boot()
    run.world.run(HARM_MS)
    run.recover()


def _chaos(run: SeedRun) -> None:
    """A random mix of faults, then recovery."""
    run.boot()
    run.harm()
    run.recover()


CHAOS = SeedScenario("chaos", _as_wished, _chaos)
CALM = SeedScenario("calm", _as_wished, _calm, draws_topics=False)
ENSEMBLE = SeedScenario("ensemble", _peers_alone, _chaos)
