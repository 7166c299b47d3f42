"""Random faults of a disk and of the process that uses it, in runs on the simulated file system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from zabka.simulation.filesystem.volume import Volume

COMMON = ("power", "kill", "full", "sync fails", "write fails", "read fails")
"""Types of faults that all kinds of runs use. Each run omits some of them."""
IN_MID_OPERATION = 0.7
"""Probability that a power loss occurs between two file operations.

Otherwise it occurs between two actions of the run.
"""
_NONE: Mapping[str, Callable[[], None]] = MappingProxyType({})


class Measure(NamedTuple):
    """Limits of the faults: operations until a power loss, free bytes on a full disk, and paths whose operations can
    fail.
    """

    operations: int
    room_bytes: int
    within: Sequence[str]


class DiskTroubles:
    """Injects the selected types of faults into a volume.

    `lose_power` and `kill` end the process that uses the volume. `own` are the types of faults that exist only in this
    kind of run.
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
        """Choose a random fault, count it, and inject it.

        Do nothing if the run omits all types.
        """
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
