"""All scenarios by name, and a function that runs one."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.scenarios import core_player, world_player
from zabka.simulation.scenarios.everyday_outages import EVERYDAY_OUTAGES
from zabka.simulation.scenarios.group_outages import GROUP_OUTAGES
from zabka.simulation.scenarios.histories import HISTORIES
from zabka.simulation.scenarios.kafka_controller_outages import CONTROLLER_OUTAGES
from zabka.simulation.scenarios.kafka_replication_outages import REPLICATION_OUTAGES
from zabka.simulation.scenarios.read_only import READ_ONLY_SERVICE
from zabka.simulation.scenarios.scenario import AnyScenario, CoreScenario, Verdict
from zabka.simulation.scenarios.sessions import SESSIONS
from zabka.simulation.scenarios.transaction_outages import TRANSACTION_OUTAGES
from zabka.simulation.scenarios.zab_broadcast import BROADCAST
from zabka.simulation.scenarios.zab_synchronisation import SYNCHRONISATION
from zabka.simulation.settings import BadSetting, split_settings

_ALL: tuple[AnyScenario, ...] = (
    *BROADCAST,
    *SYNCHRONISATION,
    *HISTORIES,
    *SESSIONS,
    *READ_ONLY_SERVICE,
    *CONTROLLER_OUTAGES,
    *REPLICATION_OUTAGES,
    *TRANSACTION_OUTAGES,
    *GROUP_OUTAGES,
    *EVERYDAY_OUTAGES,
)
LIBRARY = {scenario.name: scenario for scenario in _ALL}


def seeded(scenario: AnyScenario, seed: int) -> AnyScenario:
    """Return a copy of the scenario with another seed.

    Scenarios for the bare protocol have no seed and are returned unchanged.
    """
    return scenario if isinstance(scenario, CoreScenario) else msgspec.structs.replace(scenario, seed=seed)


def configured(scenario: AnyScenario, settings: Iterable[str]) -> AnyScenario:
    """Return a copy of the scenario with these `KEY=VALUE` settings.

    The new settings override the scenario's own settings, but not the settings that enable its bug. Raises BadSetting.
    """
    own, broker_keys = split_settings(settings)
    if not own and not broker_keys:
        return scenario
    if isinstance(scenario, CoreScenario):
        raise BadSetting(f"{scenario.name} is a script over the bare protocol, which has nothing to set")
    for key in ("peers", "brokers"):
        if key in own:
            raise BadSetting(f"{key}={own[key]}: {scenario.name} names its nodes, so their number is its own")
    keys, peer_keys = {**scenario.keys, **broker_keys}, {**scenario.peer_keys, **own}
    return msgspec.structs.replace(scenario, keys=keys, peer_keys=peer_keys)


def play(scenario: AnyScenario, tap: MessageTap | None = None, tap_of_bug: MessageTap | None = None) -> Verdict:
    """Run the scenario's script and return the verdict.

    `tap` receives the messages of the run, and `tap_of_bug` the messages of the run with the bug. Scenarios of the bare
    protocol do not use taps.
    """
    if isinstance(scenario, CoreScenario):
        return core_player.play(scenario)
    return world_player.play(scenario, tap, tap_of_bug)
