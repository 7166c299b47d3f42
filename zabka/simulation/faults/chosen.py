"""Faults as somebody chose them: which kinds, how often, how long, where `chaos` draws all of that.

Two runs of one seed with different settings are to suffer the same misfortunes.  So each fault has a stream of its own,
named by its number, and the pauses between faults have another one: what one fault draws, or cannot do because its
victim is down already, shifts nothing in the next.
"""

from __future__ import annotations

from zabka.simulation.faults.broker_faults import BROKER_FAULTS
from zabka.simulation.faults.chaos import FAULTS
from zabka.simulation.faults.nemesis import Action, Nemesis
from zabka.simulation.faults.rack_faults import RACK_FAULTS
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.settings import BadSetting, WorldSettings
from zabka.simulation.world import World

GAP_MS = 2_000
"""Between faults on average, where nobody says."""


def known_kinds(settings: WorldSettings) -> dict[str, Action]:
    """Every fault that such a cluster may suffer, by its name."""
    if not settings.brokers:
        return FAULTS
    return {**FAULTS, **BROKER_FAULTS, **(RACK_FAULTS if settings.racks else {})}


def check_kinds(settings: WorldSettings) -> None:
    """Raises BadSetting where a fault was chosen that this cluster cannot suffer."""
    known = known_kinds(settings)
    for name, _ in settings.harm.kinds:
        if name not in known:
            wanting = " (it needs racks=…)" if name in RACK_FAULTS and settings.brokers else ""
            raise BadSetting(f"harm.kinds: there is no {name!r} here{wanting}; there are {', '.join(sorted(known))}")


class ChosenNemesis(Nemesis):
    """Does the faults that were chosen; the same ones at the same times, whatever else is set."""

    def __init__(self, world: World, seed: int) -> None:
        harm = world.settings.harm
        known = known_kinds(world.settings)
        kinds = [known[name] for name, weight in harm.kinds for _ in range(weight)]
        super().__init__(world, derive_random(seed, "chosen"), kinds, harm.gap_ms or GAP_MS)
        self._seed = seed
        self._gaps = derive_random(seed, "chosen/gaps")
        self._strikes = 0

    def draw_gap_ms(self) -> int:
        """As long as the stream of pauses says."""
        return self._gaps.randrange(1, 2 * self._gap_ms)

    def strike(self) -> None:
        """One fault, out of a stream of its own."""
        self._strikes += 1
        self.random = derive_random(self._seed, f"chosen/{self._strikes}")
        super().strike()
