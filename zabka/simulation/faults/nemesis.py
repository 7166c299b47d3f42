"""The nemesis: does one fault after the other to a world, and undoes them.

Each fault ends by itself after a while; `heal_all` ends what is left, and the world must then recover within bounded
time.  Which faults it may do is drawn elsewhere (`zabka.simulation.faults.chaos`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from random import Random

from zabka.simulation.faults.kafka_operator import KafkaOperator, operator_in
from zabka.simulation.faults.operator import Operator
from zabka.simulation.world import World

Action = Callable[["Nemesis"], None]
"""A kind of fault: does it once, to whom the nemesis draws."""


class Nemesis:
    """Draws and applies faults of these kinds while `active`, one every `gap_ms` on average."""

    def __init__(self, world: World, random: Random, kinds: Sequence[Action], gap_ms: int) -> None:
        self.world = world
        self.random = random
        self.operator = Operator(world)
        self.active = False
        self.lasts_ms = world.settings.harm.lasts_ms
        """How long a fault lasts that has no measure of its own: drawn from the first to the second."""
        self._kinds = kinds
        self._gap_ms = gap_ms
        self._undo: dict[int, Callable[[], object]] = {}
        self._fault_number = 0

    @cached_property
    def kafka(self) -> KafkaOperator:
        """What an administrator of brokers does; for worlds that have some."""
        return operator_in(self.world)

    def start(self) -> None:
        """Begin to do harm."""
        self.active = True
        self._schedule()

    def _schedule(self) -> None:
        self.world.scheduler.after(self.draw_gap_ms() * 1000, self._strike)

    def draw_gap_ms(self) -> int:
        """Draw how long it is until the next fault."""
        return self.random.randrange(1, 2 * self._gap_ms)

    def _strike(self) -> None:
        if not self.active:
            return
        self.strike()
        self._schedule()

    def strike(self) -> None:
        """Do one fault."""
        self._kinds[self.random.randrange(0, len(self._kinds))](self)

    def heal_all(self) -> None:
        """Stop, and undo every fault that still holds."""
        self.active = False
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    # -- one fault ---------------------------------------------------------------------------------------------------

    def until_healed(self, undo: Callable[[], object], lasts_ms: int = 0) -> None:
        """Undo it after that time, or after one that is drawn; or at the end, if that comes first."""
        self._fault_number += 1
        number = self._fault_number
        self._undo[number] = undo
        lasts_ms = lasts_ms or self.draw_lasts_ms()

        def undo_once() -> None:
            if self._undo.pop(number, None) is not None:
                undo()

        self.world.scheduler.after(lasts_ms * 1000, undo_once)

    def draw_lasts_ms(self) -> int:
        """Draw how long a fault lasts."""
        shortest, longest = self.lasts_ms
        return self.random.randrange(shortest, longest) if longest > shortest else shortest

    def pick(self, names: list[str]) -> str:
        """Draw one of these."""
        return names[self.random.randrange(0, len(names))]

    def crash(self, names: list[str], power_loss: bool) -> None:
        """Kill the process of one of these nodes, and start it again later."""
        name = self.pick(names)
        if self.world.is_running(name):
            self.world.kill(name, power_loss=power_loss)
            self.until_healed(lambda: self.world.start(name))

    def later(self, delay_ms: int, strike: Callable[[], None]) -> None:
        """Strike once more after that time, unless all is being healed by then."""

        def strike_if_active() -> None:
            if self.active:
                strike()

        self.world.scheduler.after(delay_ms * 1000, strike_if_active)


def all_of(undos: Iterable[Callable[[], object]]) -> Callable[[], None]:
    """What undoes them all."""
    every = tuple(undos)

    def undo_all() -> None:
        for undo in every:
            undo()

    return undo_all
