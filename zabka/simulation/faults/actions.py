"""Steps of a run that the search builds.  Each step is a record of a few 64-bit words of a choice sequence.

A step waits (for a while, or until something has changed) and then performs one action.  It always uses ACTION_NUMBERS
words of the choice sequence's stream ACTIONS, so that the search can omit, repeat or move a step without changing other
steps.  A step of zeros does not wait and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import NamedTuple

from zabka.journal.events import ControllerElected, Entry, IsrChanged, LeaderElected, PeerStateChanged, TopicPartition
from zabka.simulation.choices import WORD_BITS
from zabka.simulation.cluster.world import World
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.faults.roles import Cast

ACTIONS = "acts"
"""Name of the choice sequence's stream that contains the steps."""
ACTION_NUMBERS = 8
WAITS_MS = (0, 0, 20, 100, 300, 1_000, 1_800, 3_000, 6_000)
UNTIL_MS = (300, 2_000, 6_000, 9_000)
DELAYS_MS = (60, 300, 800, 1_500, 3_000, 6_000, 9_000)
LASTS_MS = (100, 400, 1_200, 3_000, 7_000, 12_000)
AWAITED = (IsrChanged, LeaderElected, ControllerElected, PeerStateChanged)


class ActionNumbers:
    """The words of one step, each converted to a number where it is used."""

    def __init__(self, random: Random) -> None:
        self._words = [random.getrandbits(WORD_BITS) for _ in range(ACTION_NUMBERS)]

    def below(self, place: int, stop: int) -> int:
        """Return the step's word at index `place`, scaled to a number below `stop`."""
        return self._words[place] * stop >> WORD_BITS

    def at(self, place: int) -> Callable[[int], int]:
        """Return a function that scales the step's word at index `place` to a number below the function's argument."""
        return partial(self.below, place)

    def time_ms(self, place: int, times_ms: Sequence[int]) -> int:
        """Return one of these times, lengthened by up to half.  The step's word at index `place` determines both."""
        scaled = self._words[place] * len(times_ms)
        time_ms = times_ms[scaled >> WORD_BITS]
        return time_ms + (time_ms // 2 * (scaled & ((1 << WORD_BITS) - 1)) >> WORD_BITS)


WAIT, HOW_LONG, WHAT, WHO, WHICH, OTHERS, MEASURE, LASTS = range(ACTION_NUMBERS)
"""Indexes of the words of a step, named after their purpose."""


class Performed(NamedTuple):
    """A performed step: its time, its description, and the length of the journal at that time."""

    at_ms: int
    text: str
    entries: int


SearchAction = Callable[["Stage", ActionNumbers], str]
"""Performs one action.  Returns its description, or an empty string if the action was not possible."""


class Stage:
    """A world in which a run performs its steps, and the faults that are active in it."""

    def __init__(self, world: World, focus: TopicPartition) -> None:
        self.world = world
        self.focus = focus
        self.cast = Cast(world, focus)
        self.performed: list[Performed] = []
        self.begun: list[int] = []
        """Number of journal entries at the start of each step."""
        self._links: list[Callable[[], None]] = []
        self._broken: dict[int, Callable[[], None]] = {}
        self._repairs = 0
        self._awaited = 0
        world.record.listeners.append(self._count_awaited)

    def _count_awaited(self, entry: Entry) -> None:
        self._awaited += isinstance(entry.event, AWAITED)

    def subject(self, words: ActionNumbers) -> str:
        """Return the name of the node that the step affects."""
        return self.cast.one(words.at(WHO), words.at(WHICH))

    def objects(self, words: ActionNumbers, but: str) -> list[str]:
        """Return the nodes that the step separates from the node `but`."""
        return self.cast.some(but, words.at(OTHERS), words.at(MEASURE))

    def on_links(self, undo: Callable[[], None]) -> None:
        """Register a function that undoes a link fault; the next `heal_links` calls it."""
        self._links.append(undo)

    def heal_links(self) -> None:
        """Undo all link faults."""
        links, self._links = self._links, []
        for undo in links:
            undo()

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Run `action` after that delay."""
        self.world.scheduler.after(delay_ms * 1000, action)

    def until_repaired(self, repair: Callable[[], None], for_ms: int) -> None:
        """Call `repair` after `for_ms`, or in `heal_all` if that happens earlier."""
        self._repairs += 1
        number = self._repairs
        self._broken[number] = repair

        def due() -> None:
            if self._broken.pop(number, None) is not None:
                repair()

        self.after(for_ms, due)

    def until_all_heals(self, undo: Callable[[], None]) -> None:
        """Register `undo`, which `heal_all` calls."""
        self._repairs += 1
        self._broken[self._repairs] = undo

    def heal_all(self) -> None:
        """Heal all links, repair all disks, resume paused nodes and start stopped ones."""
        self.heal_links()
        broken, self._broken = self._broken, {}
        for repair in broken.values():
            repair()
        for name in self.world.node_names():
            if self.world.is_paused(name):
                self.world.resume(name)
        self.world.start()

    def perform_step(self, words: ActionNumbers, actions: Sequence[SearchAction]) -> None:
        """Wait, and then perform an action. The words of the step select the waiting time and the action."""
        before_ms = self.world.now_ms
        self.begun.append(len(self.world.record.entries))
        said = self._wait(words)
        done = actions[words.below(WHAT, len(actions))](self, words)
        if done or self.world.now_ms > before_ms:
            text = f"{said}; {done}" if done else said
            self.performed.append(Performed(self.world.now_ms, text, len(self.world.record.entries)))

    def _wait(self, words: ActionNumbers) -> str:
        if words.below(WAIT, 8) < 5:
            wait_ms = words.time_ms(HOW_LONG, WAITS_MS)
            self.world.run(wait_ms)
            return f"wait {wait_ms} ms"
        heard, begin_ms = self._awaited, self.world.now_ms
        with suppress(Deadlock):
            self.world.until(lambda: self._awaited > heard, words.time_ms(HOW_LONG, UNTIL_MS))
        return f"wait {self.world.now_ms - begin_ms} ms for a change"
