"""A run of the bare protocol in which every step is drawn: the scenario `swarm-protocol`.

Nothing happens by itself among `zabka.simulation.cores`, so that a tape chooses each delivery, each fsync and each
crash; a run of fifty steps takes hundredths of a second.  A step is STEP_WORDS words of the stream `steps`: what kind,
and which of those that are possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from zabka.simulation.cores.cores import Cores
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.tape import WORD_BITS
from zabka.simulation.scenarios.core_player import recover
from zabka.simulation.scenarios.core_steps import (
    Break,
    CoreSteps,
    Crash,
    Deliver,
    Elect,
    GiveUp,
    Isolate,
    Run,
    Start,
    Sync,
    SyncDisk,
    Write,
)
from zabka.simulation.scenarios.file_steps import FileSteps, Vanish
from zabka.simulation.scenarios.scenario import StepTaken
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.story import step_text
from zabka.simulation.search.explore_steps import (
    breaks,
    crashes,
    elections,
    losses,
    ordinary_steps,
    patient,
    restarts,
    serving,
    timeouts,
)
from zabka.simulation.search.stretches import Possible, Stretch, blips, uneven_writes, way

STEPS = "steps"
STEP_WORDS = 2
LENGTH_MIN, LENGTH_MAX = 10, 120
SNAP_COUNTS = (3, 1_000, 1_000)
FAULT_STAYS = 0.7
RANKS_MAX = 2
"""Of more logs of different lengths the longest count as one."""


class Quiet:
    """What is held back until it is let go: disks, and directions of links, as `Run` names them.  Elections have
    connections of their own."""

    def __init__(self) -> None:
        self.held: dict[str, None] = {}

    def allows(self, step: FileSteps) -> bool:
        """May that happen?"""
        if isinstance(step, Deliver):
            return way(step.source, step.target) not in self.held
        if isinstance(step, SyncDisk):
            return f"disk {step.peer}" not in self.held
        return True

    def held_back(self, step: FileSteps) -> FileSteps:
        """That step, in which what is held back stays so."""
        return Run((*step.hold, *self.held)) if isinstance(step, Run) else step

    def follow(self, step: FileSteps) -> None:
        """A link that is broken holds nothing back any more; what a step holds back stays so."""
        if isinstance(step, Break):
            self._forget(way(step.one, step.other), way(step.other, step.one))
        elif isinstance(step, Crash | Isolate | Vanish):
            gone = {str(peer): None for peer in (step.peers if isinstance(step, Crash) else (step.peer,))}
            self._forget(*(each for each in self.held if any(end in gone for end in each.split(" > "))))
        elif isinstance(step, Run):
            self.held |= dict.fromkeys(step.hold)

    def _forget(self, *ways: str) -> None:
        for each in ways:
            self.held.pop(each, None)

    def turn(self, cores: Cores, which: int) -> str:
        """Hold one of them back, or let it go; what that is in words."""
        choices = _choices(cores)
        choice = choices[which * len(choices) >> WORD_BITS]
        if all(each in self.held for each in choice):
            self.held = {each: None for each in self.held if each not in choice}
            return f"let go {', '.join(choice)}"
        self.held |= dict.fromkeys(choice)
        return f"hold {', '.join(choice)}"

    def let_go(self) -> str:
        """Let all of them go; what that is in words."""
        self.held = {}
        return "let everything go"


def _choices(cores: Cores) -> list[tuple[str, ...]]:
    """What may be held back together: a disk, all links of a peer, one direction."""
    found: list[tuple[str, ...]] = []
    for peer in cores.voters:
        others = [other for other in cores.voters if other != peer]
        around = tuple(each for other in others for each in (way(peer, other), way(other, peer)))
        found += [(f"disk {peer}",), around, around, *((way(peer, other),) for other in others)]
    return found


def _writes(cores: Cores) -> Iterator[CoreSteps]:
    for peer in serving(cores):
        yield Write(peer)


def _syncs(cores: Cores) -> Iterator[CoreSteps]:
    for peer in serving(cores):
        yield Sync(peer)


def _run(cores: Cores) -> Iterator[CoreSteps]:
    yield Run()


def hold(cores: Cores) -> Iterator[CoreSteps]:
    """Stands for what `Quiet.turn` does."""
    yield from ()


def let_go(cores: Cores) -> Iterator[CoreSteps]:
    """Stands for the end of all that is held back."""
    yield from ()


def _patience_ends(cores: Cores) -> Iterator[CoreSteps]:
    for peer in patient(cores):
        yield GiveUp(peer)


ALWAYS: tuple[Possible, ...] = (
    _run, ordinary_steps, ordinary_steps, ordinary_steps, _writes, _run, hold, elections, elections, restarts,
)  # fmt: skip
SOMETIMES: tuple[Possible, ...] = (
    _syncs, crashes, crashes, losses, breaks, blips, blips, uneven_writes, uneven_writes, _patience_ends, timeouts,
    timeouts, hold, ordinary_steps, _writes,
)  # fmt: skip


class Played(NamedTuple):
    """What came of a run; `places` are the kinds of states, each with how many steps were drawn before it."""

    problems: list[str]
    taken: list[StepTaken]
    places: dict[int, int]
    cores: Cores


class _Syncs:
    """A sync that is answered shows whatever anybody had been told when it was asked."""

    def __init__(self, cores: Cores) -> None:
        self._cores = cores
        self._told: dict[int, int] = {}
        self._seen = 0
        self._highest = 0

    def asked(self) -> None:
        """A sync was just asked for."""
        self._told[self._cores.asked] = self._highest

    def look(self) -> Iterator[str]:
        """At what was answered since the last time."""
        for number, zxid in self._cores.answered[self._seen :]:
            promised = self._told.get(number, 0)
            if zxid < promised:
                yield f"behind a sync: it shows 0x{zxid:x}, and 0x{promised:x} had been answered before it was asked"
            self._highest = max(self._highest, zxid)
        self._seen = len(self._cores.answered)


def play_protocol(seed: int) -> Played:
    """Draw the steps of a seed, or of a tape, and take them."""
    shape = derive_random(seed, "shape")
    peers, snap_count = (3, 3, 5)[shape.randrange(0, 3)], SNAP_COUNTS[shape.randrange(0, 3)]
    cores = Cores(peers, snap_count, cumulative=shape.random() < 0.9, keeps_journal=True)
    return play_drawn(seed, cores, SOMETIMES)


def play_drawn(
    seed: int,
    cores: Cores,
    sometimes: Sequence[Possible],
    before_the_end: Callable[[], None] = lambda: None,
    always: Sequence[Possible] = ALWAYS,
    before: Stretch = (),
) -> Played:
    """Draw the steps among these servers, which have taken those `before`, and take them: each of `sometimes` is left
    out of some runs.  Then, behind `before_the_end`, everything heals."""
    kinds = derive_random(seed, "kinds")
    possible = [*always, *(each for each in sometimes if kinds.random() < FAULT_STAYS)]
    length, tape = derive_random(seed, "length").randrange(LENGTH_MIN, LENGTH_MAX), derive_random(seed, STEPS)
    taken: list[StepTaken] = []
    places: dict[int, int] = {}
    syncs = _Syncs(cores)
    quiet = Quiet()
    first: Stretch = (Start(), Elect(cores.voters), *before)
    for number in range(-len(first), length):
        kind, which = (tape.getrandbits(WORD_BITS), tape.getrandbits(WORD_BITS)) if number >= 0 else (0, 0)
        chosen = possible[kind * len(possible) >> WORD_BITS]
        if chosen is hold or (chosen is let_go and quiet.held):
            text = quiet.turn(cores, which) if chosen is hold else quiet.let_go()
            taken.append(StepTaken(cores.now_ms, text, len(cores.journal)))
            continue
        for drawn in first[number:][:1] if number < 0 else _stretch(cores, quiet, chosen, which):
            step = quiet.held_back(drawn)
            taken.append(StepTaken(cores.now_ms, step_text(step), len(cores.journal)))
            try:
                step.play(cores)
            except StepFailed:
                break
            quiet.follow(step)
            if isinstance(step, Sync):
                syncs.asked()
            cores.problems += syncs.look()
            for state in _states(cores, step):
                places.setdefault(state, max(number + 1, 0))
            if cores.problems:
                return Played(cores.problems, taken, places, cores)
    before_the_end()
    problems = recover(cores)
    return Played([*problems, *syncs.look()], taken, places, cores)


def _stretch(cores: Cores, quiet: Quiet, possible: Possible, which: int) -> Stretch:
    """What is chosen of what is possible."""
    stretches = [each if isinstance(each, tuple) else (each,) for each in possible(cores)]
    found = [stretch for stretch in stretches if all(map(quiet.allows, stretch))]
    return found[which * len(found) >> WORD_BITS] if found else ()


def _states(cores: Cores, step: FileSteps) -> Iterator[int]:
    """The state that the step led to: how each disk's files are, who is what, whose log is how far and whether it has
    what is committed, whose disk has something to do."""
    nodes = []
    ends = [max(node.disk.history()[-1:], default=0) for node in cores.nodes.values()]
    ranks = {end: min(rank, RANKS_MAX) for rank, end in enumerate(sorted(set(ends)))}
    highest, committed = max(ends), cores.monitor.last_committed
    for node, end in zip(cores.nodes.values(), ends, strict=True):
        status = node.status
        role = (status.state.value, status.serving) if status is not None and node.is_up else ()
        epochs = node.disk.accepted - node.disk.current
        holds = ranks[end], (end > committed) - (end < committed)
        nodes.append((role, holds, epochs > 0, bool(node.queue), node.application is None))
        outline = node.disk.outline()
        if outline:
            yield crc32(repr((role, end == highest, outline)).encode()) | 8 << 40
    state = (type(step).__name__, sorted(map(repr, nodes)), min(2, len(cores.links)))
    yield crc32(repr(state).encode()) | 5 << 40
