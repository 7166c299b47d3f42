"""The most common scenarios: random faults in a cluster, random faults in an ensemble alone, and no faults.

`requests` is `chaos` in a whole cluster with request faults in addition.
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
    """Return settings for a world without brokers, with a random number of peers and random ZooKeeper settings."""
    return msgspec.structs.replace(
        settings,
        brokers=0,
        peers=(1, 3, 3, 3, 5, 5, 7)[random.randrange(0, 7)],
        snap_count=(8, 50, 400)[random.randrange(0, 3)],
        sync_limit=random.randrange(2, 6),
    )


def _calm(run: SeedRun) -> None:
    """Run the workloads without faults."""
    run.boot()
    run.world.run(run.world.settings.faults.duration_ms)
    run.recover()


def _chaos(run: SeedRun) -> None:
    """Inject a random mix of faults, then wait for recovery."""
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
"""Settings for faults and clients that each scenario accepts, keyed by scenario name."""


def check_played(scenario: str, settings: WorldSettings, keys: Iterable[str]) -> None:
    """Raise BadSetting if a scenario does not accept one of these settings, or has no fault of a chosen kind."""
    given = [key for key in keys if key in PLAYED_KEYS]
    for key in given:
        if key not in PLAYED.get(scenario, ()):
            takers = ", ".join(name for name, played in PLAYED.items() if key in played)
            raise BadSetting(f"{key}: {scenario} decides by itself what it does; the scenario that takes it: {takers}")
    if given:
        check_kinds(msgspec.structs.replace(settings, brokers=0) if scenario == ENSEMBLE.name else settings)
