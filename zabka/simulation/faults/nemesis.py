"""The nemesis: injects one fault after another into a world, and undoes them.

The nemesis ends each fault after a while, and all remaining faults in `heal_all`; the world must then recover within a
bounded time.  `zabka.simulation.faults.chaos` chooses the kinds of faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from random import Random

from zabka.simulation.cluster.world import World
from zabka.simulation.faults.kafka_operator import KafkaOperator, operator_in
from zabka.simulation.faults.operator import Operator
from zabka.simulation.forked_seed import ForkedSeed

Action = Callable[["Nemesis"], None]
"""A kind of fault: a function that injects the fault once, into a randomly chosen target."""


class Nemesis:
    """Injects randomly chosen faults of the kinds `kinds` while `active`, one every `gap_ms` on average."""

    def __init__(self, world: World, random: Random, kinds: Sequence[Action], gap_ms: int) -> None:
        self.world = world
        self.random = random
        self.operator = Operator(world)
        self.active = False
        self.lasts_ms = world.settings.faults.lasts_ms
        """Shortest and longest duration in ms of a fault whose kind does not define a duration."""
        self._kinds = kinds
        self._gap_ms = gap_ms
        self._undo: dict[int, Callable[[], object]] = {}
        self._fault_number = 0

    @cached_property
    def kafka(self) -> KafkaOperator:
        """The operator that uses Kafka's tools; only for worlds with brokers."""
        return operator_in(self.world)

    def start(self) -> None:
        """Start injecting faults."""
        self.active = True
        self._schedule()

    def _schedule(self) -> None:
        self._align()
        self.world.scheduler.after(self.draw_gap_ms() * 1000, self._inject)

    def draw_gap_ms(self) -> int:
        """Draw the time until the next fault."""
        return self.random.randrange(1, 2 * self._gap_ms)

    def _inject(self) -> None:
        if not self.active:
            return
        self._align()
        self.inject()
        self._schedule()

    def _align(self) -> None:
        """In a fork of a run, use the random numbers that the original run drew for this fault (`ForkedSeed`)."""
        if isinstance(seed := self.world.seed, ForkedSeed):
            self.world.fault_number = seed.align(self.random, self.world.fault_number)

    def inject(self) -> None:
        """Inject one fault."""
        self._kinds[self.random.randrange(0, len(self._kinds))](self)

    def heal_all(self) -> None:
        """Stop injecting faults, and undo every active fault."""
        self.active = False
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    # -- methods for the faults --------------------------------------------------------------------------------------

    def until_healed(self, undo: Callable[[], object], lasts_ms: int = 0) -> None:
        """Call `undo` after `lasts_ms` (a random time if it is 0), or in `heal_all` if that happens earlier."""
        self._fault_number += 1
        number = self._fault_number
        self._undo[number] = undo
        lasts_ms = lasts_ms or self.draw_lasts_ms()

        def undo_once() -> None:
            if self._undo.pop(number, None) is not None:
                undo()

        self.world.scheduler.after(lasts_ms * 1000, undo_once)

    def draw_lasts_ms(self) -> int:
        """Draw the duration of a fault."""
        shortest, longest = self.lasts_ms
        return self.random.randrange(shortest, longest) if longest > shortest else shortest

    def pick(self, names: list[str]) -> str:
        """Draw one of these names."""
        return names[self.random.randrange(0, len(names))]

    def crash(self, names: list[str], power_loss: bool) -> None:
        """Kill the process of one of these nodes, and start it again later."""
        name = self.pick(names)
        if self.world.is_running(name):
            self.world.kill(name, power_loss=power_loss)
            self.until_healed(lambda: self.world.start(name))

    def later(self, delay_ms: int, inject: Callable[[], None]) -> None:
        """Call `inject` after `delay_ms`, unless `heal_all` is called before that."""

        def inject_if_active() -> None:
            if self.active:
                inject()

        self.world.scheduler.after(delay_ms * 1000, inject_if_active)


def all_of(undos: Iterable[Callable[[], object]]) -> Callable[[], None]:
    """Return a function that calls all functions in `undos`."""
    every = tuple(undos)

    def undo_all() -> None:
        for undo in every:
            undo()

    return undo_all
