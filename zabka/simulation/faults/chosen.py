"""Faults that a user configured: kinds, frequency and duration are settings, while `chaos` draws them at random.

Two runs of one seed must get the same faults even if other settings differ.  So each fault has a random stream of its
own, named by the fault's number, and the pauses between faults have another stream.  The next fault is therefore the
same, no matter how many random numbers a fault draws or whether it is skipped because its target is already down.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.faults.broker_faults import BROKER_FAULTS
from zabka.simulation.faults.chaos import FAULTS
from zabka.simulation.faults.nemesis import Action, Nemesis
from zabka.simulation.faults.rack_faults import RACK_FAULTS
from zabka.simulation.faults.request_faults import REQUEST_FAULTS
from zabka.simulation.faults.transaction_faults import TRANSACTION_FAULTS
from zabka.simulation.settings import BadSetting, WorldSettings

GAP_MS = 2_000
"""Average time between faults, unless the settings define one."""


def known_kinds(settings: WorldSettings) -> dict[str, Action]:
    """Return all faults that are possible in a cluster with these settings, keyed by name."""
    if not settings.brokers:
        return FAULTS
    racks = RACK_FAULTS if settings.racks else {}
    return {**FAULTS, **BROKER_FAULTS, **TRANSACTION_FAULTS, **REQUEST_FAULTS, **racks}


def check_kinds(settings: WorldSettings) -> None:
    """Raise BadSetting if a configured fault is not possible in this cluster."""
    known = known_kinds(settings)
    for name, _ in settings.faults.kinds:
        if name not in known:
            wanting = " (it needs racks=…)" if name in RACK_FAULTS and settings.brokers else ""
            raise BadSetting(f"faults.kinds: there is no {name!r} here{wanting}; there are {', '.join(sorted(known))}")


class NumberedNemesis(Nemesis):
    """Injects numbered faults that do not depend on each other: each has its own time and its own random stream.

    With `only`, inject only the faults with these numbers.
    """

    def __init__(
        self, world: World, seed: int, kinds: Sequence[Action], gap_ms: int, only: Collection[int] | None = None
    ) -> None:
        super().__init__(world, derive_random(seed, "chosen"), kinds, gap_ms)
        self.injected: list[int] = []
        """Numbers of the injected faults, without those that found no target."""
        self._seed = seed
        self._gaps = derive_random(seed, "chosen/gaps")
        self._only = only
        self._injections = 0

    def draw_gap_ms(self) -> int:
        """Draw the pause until the next fault from the random stream for pauses."""
        return self._gaps.randrange(1, 2 * self._gap_ms)

    def inject(self) -> None:
        """Inject the next fault, with random numbers from a stream of its own."""
        self._injections += 1
        if self._only is not None and self._injections not in self._only:
            return
        self.random = derive_random(self._seed, f"chosen/{self._injections}")
        before = self.world.faults
        super().inject()
        if self.world.faults > before:
            self.injected.append(self._injections)


class ChosenNemesis(NumberedNemesis):
    """Injects the kinds of faults that the settings name.  Changes of other settings do not change the faults."""

    def __init__(self, world: World, seed: int) -> None:
        faults = world.settings.faults
        known = known_kinds(world.settings)
        kinds = [known[name] for name, weight in faults.kinds for _ in range(weight)]
        super().__init__(world, seed, kinds, faults.gap_ms or GAP_MS)
