"""Every scenario there is, by name, and how to play one."""

from __future__ import annotations

import msgspec

from simulation.scenarios import core_player, world_player
from simulation.scenarios.kafka_controller_outages import CONTROLLER_OUTAGES
from simulation.scenarios.kafka_replication_outages import REPLICATION_OUTAGES
from simulation.scenarios.read_only import READ_ONLY_SERVICE
from simulation.scenarios.scenario import AnyScenario, CoreScenario, Verdict
from simulation.scenarios.sessions import SESSIONS
from simulation.scenarios.zab_broadcast import BROADCAST
from simulation.scenarios.zab_synchronisation import SYNCHRONISATION

_ALL: tuple[AnyScenario, ...] = (
    *BROADCAST,
    *SYNCHRONISATION,
    *SESSIONS,
    *READ_ONLY_SERVICE,
    *CONTROLLER_OUTAGES,
    *REPLICATION_OUTAGES,
)
LIBRARY = {scenario.name: scenario for scenario in _ALL}


def seeded(scenario: AnyScenario, seed: int) -> AnyScenario:
    """The same in another world; over the bare protocol nothing is left to a seed."""
    return scenario if isinstance(scenario, CoreScenario) else msgspec.structs.replace(scenario, seed=seed)


def play(scenario: AnyScenario) -> Verdict:
    """Play it to its verdict."""
    if isinstance(scenario, CoreScenario):
        return core_player.play(scenario)
    return world_player.play(scenario)
