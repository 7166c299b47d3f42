"""Seeded faults of one disk and of the process that uses it, for runs on the simulated file system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from zabka.simulation.filesystem.volume import Volume

COMMON = ("power", "kill", "full", "sync fails", "write fails", "read fails")
"""Faults possible in every kind of run. Each run omits some of them."""
IN_MID_OPERATION = 0.7
"""Fraction of power losses that occur between two operations of the process instead of between two actions of the
run.
"""
_NONE: Mapping[str, Callable[[], None]] = MappingProxyType({})


class Measure(NamedTuple):
    """Limits of faults: operations until a power loss, bytes of space on a full disk, and paths with failing
    operations.
    """

    operations: int
    room_bytes: int
    within: Sequence[str]


class DiskTroubles:
    """Injects faults of `kinds` into a volume. `lose_power` and `kill` end its process. `own` contains the run's own
    kinds of faults.
    """

    def __init__(
        self, random: Random, volume: Volume, kinds: Sequence[str], measure: Measure,
        *, lose_power: Callable[[], None], kill: Callable[[], None], own: Mapping[str, Callable[[], None]] = _NONE,
    ) -> None:  # fmt: skip
        self._random = random
        self._volume = volume
        self._kinds = kinds
        self._measure = measure
        self._lose_power = lose_power
        self._by_kind = {"kill": kill, "power": self._power_goes, "full": self._fill, **own}

    def befall(self, reached: Counter[str]) -> None:
        """Draw, count and inject one fault. Do nothing if the run omits all kinds."""
        if not self._kinds:
            return
        kind = self._random.choice(self._kinds)
        reached[kind] += 1
        if kind in self._by_kind:
            self._by_kind[kind]()
        else:
            within = self._measure.within
            path = within[0] if len(within) == 1 else self._random.choice(within)
            self._volume.fail_next(kind.removesuffix(" fails"), within=path)

    def _power_goes(self) -> None:
        if self._random.random() < IN_MID_OPERATION:
            self._volume.lose_power_after(self._random.randrange(0, self._measure.operations))
        else:
            self._lose_power()

    def _fill(self) -> None:
        self._volume.room_bytes = self._random.randrange(0, self._measure.room_bytes)
