"""The scenario `swarm-protocol`: a run of the ZAB code alone (`BareEnsemble`) with random steps.

In `zabka.simulation.steps` nothing happens by itself, so a choice sequence chooses each delivery, each fsync and each
crash. A run of fifty steps takes some hundredths of a second. Each step uses STEP_WORDS words of the choice sequence's
stream `steps`: one selects the kind of step, and one selects a step among the possible steps of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from zabka.simulation.choices import WORD_BITS
from zabka.simulation.draws import derive_random
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
from zabka.simulation.steps.bare_ensemble import BareEnsemble

STEPS = "steps"
STEP_WORDS = 2
LENGTH_MIN, LENGTH_MAX = 10, 120
SNAP_COUNTS = (3, 1_000, 1_000)
FAULT_STAYS = 0.7
RANKS_MAX = 2
"""Number of log lengths that features distinguish, counted from the shortest log.

All longer logs count as equally long.
"""


class Quiet:
    """Disks and link directions that a run holds until it releases them, named as in the step `Run`.

    Election messages use separate connections, which are never held.
    """

    def __init__(self) -> None:
        self.held: dict[str, None] = {}

    def allows(self, step: FileSteps) -> bool:
        """Return whether a step is possible while the disks and links in `held` are held."""
        if isinstance(step, Deliver):
            return way(step.source, step.target) not in self.held
        if isinstance(step, SyncDisk):
            return f"disk {step.peer}" not in self.held
        return True

    def held_back(self, step: FileSteps) -> FileSteps:
        """Return the step. A `Run` step is returned with all held disks and links added to its `hold`."""
        return Run((*step.hold, *self.held)) if isinstance(step, Run) else step

    def follow(self, step: FileSteps) -> None:
        """Update the held links and disks after a step: remove the links that the step broke, add the links that a
        `Run` held.
        """
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

    def turn(self, cores: BareEnsemble, which: int) -> str:
        """Hold a disk or links, or release them if they are held. Return a description."""
        choices = _choices(cores)
        choice = choices[which * len(choices) >> WORD_BITS]
        if all(each in self.held for each in choice):
            self.held = {each: None for each in self.held if each not in choice}
            return f"let go {', '.join(choice)}"
        self.held |= dict.fromkeys(choice)
        return f"hold {', '.join(choice)}"

    def let_go(self) -> str:
        """Release all held disks and links. Return a description."""
        self.held = {}
        return "let everything go"


def _choices(cores: BareEnsemble) -> list[tuple[str, ...]]:
    """Return the groups to hold together: one disk, all links of a peer, or one direction of a link."""
    found: list[tuple[str, ...]] = []
    for peer in cores.voters:
        others = [other for other in cores.voters if other != peer]
        around = tuple(each for other in others for each in (way(peer, other), way(other, peer)))
        found += [(f"disk {peer}",), around, around, *((way(peer, other),) for other in others)]
    return found


def _writes(cores: BareEnsemble) -> Iterator[CoreSteps]:
    for peer in serving(cores):
        yield Write(peer)


def _syncs(cores: BareEnsemble) -> Iterator[CoreSteps]:
    for peer in serving(cores):
        yield Sync(peer)


def _run(cores: BareEnsemble) -> Iterator[CoreSteps]:
    yield Run()


def hold(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Placeholder for `Quiet.turn` in the list of step kinds. It yields no steps."""
    yield from ()


def let_go(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Placeholder in the list of step kinds for `Quiet.let_go`; yields no steps."""
    yield from ()


def _patience_ends(cores: BareEnsemble) -> Iterator[CoreSteps]:
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
    """The result of a run. `places` maps each feature to the number of steps drawn before the run first reached it."""

    problems: list[str]
    taken: list[StepTaken]
    places: dict[int, int]
    cores: BareEnsemble


class _Syncs:
    """Checks that the reply to a sync includes every write that was acknowledged before the sync was sent."""

    def __init__(self, cores: BareEnsemble) -> None:
        self._cores = cores
        self._told: dict[int, int] = {}
        self._seen = 0
        self._highest = 0

    def asked(self) -> None:
        """Note which writes are acknowledged at the time when a sync is sent."""
        self._told[self._cores.asked] = self._highest

    def look(self) -> Iterator[str]:
        """Check the replies that arrived after the last call, and yield problems."""
        for number, zxid in self._cores.answered[self._seen :]:
            promised = self._told.get(number, 0)
            if zxid < promised:
                yield f"behind a sync: it shows 0x{zxid:x}, and 0x{promised:x} had been answered before it was asked"
            self._highest = max(self._highest, zxid)
        self._seen = len(self._cores.answered)


def play_protocol(seed: int) -> Played:
    """Run steps that a seed or a choice sequence selects."""
    shape = derive_random(seed, "shape")
    peers, snap_count = (3, 3, 5)[shape.randrange(0, 3)], SNAP_COUNTS[shape.randrange(0, 3)]
    cores = BareEnsemble(peers, snap_count, cumulative=shape.random() < 0.9, keeps_journal=True)
    return play_drawn(seed, cores, SOMETIMES)


def play_drawn(
    seed: int,
    cores: BareEnsemble,
    sometimes: Sequence[Possible],
    before_the_end: Callable[[], None] = lambda: None,
    always: Sequence[Possible] = ALWAYS,
    before: Stretch = (),
) -> Played:
    """Perform the steps `before` on these servers, and then randomly selected steps.

    Each kind of step in `sometimes` is omitted from some runs. After these steps, `before_the_end` is called and all
    faults end.
    """
    kinds = derive_random(seed, "kinds")
    possible = [*always, *(each for each in sometimes if kinds.random() < FAULT_STAYS)]
    length, choices = derive_random(seed, "length").randrange(LENGTH_MIN, LENGTH_MAX), derive_random(seed, STEPS)
    taken: list[StepTaken] = []
    places: dict[int, int] = {}
    syncs = _Syncs(cores)
    quiet = Quiet()
    first: Stretch = (Start(), Elect(cores.voters), *before)
    for number in range(-len(first), length):
        kind, which = (choices.getrandbits(WORD_BITS), choices.getrandbits(WORD_BITS)) if number >= 0 else (0, 0)
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


def _stretch(cores: BareEnsemble, quiet: Quiet, possible: Possible, which: int) -> Stretch:
    """Return the steps that `which` selects among the possible ones, or no steps if none is possible."""
    stretches = [each if isinstance(each, tuple) else (each,) for each in possible(cores)]
    found = [stretch for stretch in stretches if all(map(quiet.allows, stretch))]
    return found[which * len(found) >> WORD_BITS] if found else ()


def _states(cores: BareEnsemble, step: FileSteps) -> Iterator[int]:
    """Yield features of the state after a step.

    They cover the files on each disk, the role of each server, its log end compared with the other logs and with the
    last commit, and whether its disk has pending operations.
    """
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
