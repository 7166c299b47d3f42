"""The scenarios that most seeds are run with: chaos in the whole cluster, chaos among the peers alone, and none.

`requests` is the chaos of the whole cluster with faults of single requests among the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from zabka.simulation.faults.chosen import check_kinds
from zabka.simulation.faults.request_faults import REQUEST_FAULTS
from zabka.simulation.seeds.seed_run import SeedRun, SeedScenario
from zabka.simulation.settings import PLAYED_KEYS, BadSetting, WorldSettings


def _as_wished(settings: WorldSettings, random: Random) -> WorldSettings:
    return settings


def _peers_alone(settings: WorldSettings, random: Random) -> WorldSettings:
    """Return a world without brokers whose size and shape depend on the seed."""
    return msgspec.structs.replace(
        settings,
        brokers=0,
        peers=(1, 3, 3, 3, 5, 5, 7)[random.randrange(0, 7)],
        snap_count=(8, 50, 400)[random.randrange(0, 3)],
        sync_limit=random.randrange(2, 6),
    )


def _calm(run: SeedRun) -> None:
    """Run without faults."""
    run.boot()
    run.world.run(run.world.settings.faults.duration_ms)
    run.recover()


def _chaos(run: SeedRun) -> None:
    """Inject a random mix of faults, then recover."""
    run.boot()
    run.inject_faults()
    run.recover()


CHAOS = SeedScenario("chaos", _as_wished, _chaos, transactions_chance=0.14)
CALM = SeedScenario("calm", _as_wished, _calm, draws_topics=False)
REQUESTS = SeedScenario("requests", _as_wished, _chaos, more_faults=REQUEST_FAULTS, transactions_chance=0.14)
ENSEMBLE = SeedScenario("ensemble", _peers_alone, _chaos)

PLAYED: dict[str, tuple[str, ...]] = {
    CHAOS.name: PLAYED_KEYS,
    CALM.name: (*(key for key in PLAYED_KEYS if not key.startswith("faults.")), "faults.ms"),
    ENSEMBLE.name: tuple(key for key in PLAYED_KEYS if key.startswith("faults.")),
}
"""For each scenario that accepts settings for faults and clients, the keys that it accepts."""


def check_played(scenario: str, settings: WorldSettings, keys: Iterable[str]) -> None:
    """Raise BadSetting if a scenario does not accept one of these keys, or has no such fault."""
    given = [key for key in keys if key in PLAYED_KEYS]
    for key in given:
        if key not in PLAYED.get(scenario, ()):
            takers = ", ".join(name for name, played in PLAYED.items() if key in played)
            raise BadSetting(f"{key}: {scenario} decides by itself what it does; the scenario that takes it: {takers}")
    if given:
        check_kinds(msgspec.structs.replace(settings, brokers=0) if scenario == ENSEMBLE.name else settings)
