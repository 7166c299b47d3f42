"""`--set KEY=VALUE` for the simulated world: ZooKeeper's and Kafka's own keys."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from simulation.setting_keys import BadSetting as BadSetting
from simulation.setting_keys import own_settings, split_settings
from simulation.world import WorldSettings


def world_settings(settings: Iterable[str]) -> WorldSettings:
    """The world that `KEY=VALUE` settings describe.  Raises BadSetting."""
    own, broker_keys = split_settings(settings)
    return msgspec.structs.replace(WorldSettings(), **own_settings(own), broker_keys=broker_keys)
