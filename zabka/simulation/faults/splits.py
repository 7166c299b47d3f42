"""Splits of the ensemble that last: a minority of the peers is on its own for long enough to serve reads alone."""

from __future__ import annotations

from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.world import World

SPLIT_EVERY_MS = 12_000
SPLIT_MS_MIN, SPLIT_MS_MAX = 5_000, 10_000


class Splits:
    """Again and again a few peers lose the others for long enough to serve reads alone, at times with one client's
    machine.  It works while `active`; the split that holds when that ends is still healed."""

    def __init__(self, world: World, client: str) -> None:
        self._world = world
        self._client = client
        self._random = derive_random(world.seed, "splits")
        self.active = True
        self._heal()

    def _heal(self) -> None:
        if self.active:
            self._world.scheduler.after(self._random.randrange(1, SPLIT_EVERY_MS) * 1000, self._split)

    def _split(self) -> None:
        if not self.active:
            return
        names = self._world.peer_names()
        first = self._random.randrange(0, len(names))
        turned = names[first:] + names[:first]
        size = 1 + self._random.randrange(0, len(names) // 2)
        few, most = turned[:size], turned[size:]
        if self._random.random() < 0.5:
            few.append(self._client)
        undos = [self._world.cut(a, b) for a in few for b in most]

        def end_split() -> None:
            for undo in undos:
                undo()
            self._heal()

        self._world.scheduler.after(self._random.randrange(SPLIT_MS_MIN, SPLIT_MS_MAX) * 1000, end_split)
