"""Exhaustive search in a small scope: every order of steps of the bare protocol, within bounds.

From a fresh ensemble every state is followed by every step that is possible in it: the next packet of any direction,
the next fsync of any disk, a write, a crash in the midst of any disk's work, a restart, an election among any quorum,
the end of somebody's patience once nothing else can happen.  States from which the same can happen are visited once.

States are taken in the order of how far their history strays from the plain schedule (`strays`: how often it did not
take the first delivery or fsync that was possible); crashes, writes, restarts and elections stray by nothing.  A search
that ends by its bound on states is therefore complete up to some number of strays, and says which.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from itertools import combinations

import msgspec

from simulation.cores import Cores
from simulation.scenarios.core_player import recover
from simulation.scenarios.core_steps import (
    CoreSteps,
    Crash,
    Deliver,
    Elect,
    GiveUp,
    Start,
    StepFailed,
    SyncDisk,
    Write,
    looking,
)
from simulation.scenarios.scenario import CoreScenario

RECOVERY_EVERY = 50
"""Of how many states one is healed and must recover."""


class Bounds(msgspec.Struct, frozen=True):
    """The scope of a search."""

    peers: int = 3
    writes: int = 2
    crashes: int = 1
    states_max: int = 100_000
    strays_max: int = 1_000_000


class Exploration(msgspec.Struct):
    """What a search came to.  `complete_strays` is the number of strays up to which every state was visited, -1 for
    none; `exhausted` says that there was nothing left to visit within the scope."""

    bounds: Bounds
    states: int
    steps: int
    recovered: int
    complete_strays: int
    exhausted: bool
    found: list[tuple[list[str], list[CoreSteps]]]
    wall_s: float

    def scenario(self) -> CoreScenario:
        """The first failure as a scenario."""
        problems, steps = self.found[0]
        return CoreScenario(
            "explored", "Found by the exhaustive search", problems[0], peers=self.bounds.peers, steps=tuple(steps)
        )


class _State:
    """A state of the search, the steps that led to it, and what it has left."""

    __slots__ = ("cores", "crashes", "steps", "strays", "writes")

    def __init__(self, cores: Cores, steps: tuple[CoreSteps, ...], strays: int, writes: int, crashes: int) -> None:
        self.cores, self.steps, self.strays = cores, steps, strays
        self.writes, self.crashes = writes, crashes


def explore(bounds: Bounds, progress: Callable[[int, int], None] = lambda states, strays: None) -> Exploration:
    """Visit every state within the bounds, or until the first failure."""
    begin = time.perf_counter()
    first = _State(Cores(bounds.peers), (Start(),), 0, bounds.writes, bounds.crashes)
    Start().play(first.cores)
    frontier = [(0, 0, first)]
    seen: dict[bytes, None] = {}
    order, steps, recovered, strays = 0, 0, 0, 0
    found: list[tuple[list[str], list[CoreSteps]]] = []
    while frontier and not found and len(seen) < bounds.states_max:
        strays, _, state = heapq.heappop(frontier)
        digest = state.cores.digest() + bytes((state.writes, state.crashes))
        if digest in seen:
            continue
        seen[digest] = None
        progress(len(seen), strays)
        for following in _successors(state, bounds):
            steps += 1
            problems = following.cores.problems
            if not problems and steps % RECOVERY_EVERY == 0:
                recovered += 1
                problems = recover(following.cores.fork())
            if problems:
                found.append((problems, list(following.steps)))
                break
            order -= 1  # Of equals the latest first: deep before broad, and fewer states to keep.
            heapq.heappush(frontier, (following.strays, order, following))
    exhausted = not frontier and not found
    complete = strays if exhausted else strays - 1
    wall_s = time.perf_counter() - begin
    return Exploration(bounds, len(seen), steps, recovered, complete, exhausted, found, wall_s)


def _successors(state: _State, bounds: Bounds) -> Iterator[_State]:
    ordinary = list(ordinary_steps(state.cores))
    for number, step in enumerate(ordinary):
        strays = state.strays + (number > 0)
        if strays <= bounds.strays_max:
            yield from _after(state, step, strays)
    for step in elections(state.cores):
        yield from _after(state, step, state.strays)
    if state.writes:
        for peer in serving(state.cores):
            yield from _after(state, Write(peer), state.strays)
    if state.crashes:
        for step in crashes(state.cores):
            yield from _after(state, step, state.strays)
    for step in restarts(state.cores):
        yield from _after(state, step, state.strays)
    if not ordinary:
        for peer in patient(state.cores):
            yield from _after(state, GiveUp(peer), state.strays)


def _after(state: _State, step: CoreSteps, strays: int) -> Iterator[_State]:
    cores = state.cores.fork()
    try:
        step.play(cores)
    except StepFailed:
        return  # An election among these comes to nothing: not a step that can be taken.
    writes = state.writes - isinstance(step, Write)
    crashes_left = state.crashes - isinstance(step, Crash)
    yield _State(cores, (*state.steps, step), strays, writes, crashes_left)


# -- what can happen -------------------------------------------------------------------------------------------------


def ordinary_steps(cores: Cores) -> Iterator[CoreSteps]:
    """Every delivery and every fsync that is possible."""
    for source in cores.voters:
        for target in cores.voters:
            if source != target and cores.is_up(target) and cores.next_to(source, target) is not None:
                yield Deliver(source, target)
    for peer in cores.voters:
        if cores.is_up(peer) and cores.nodes[peer].queue:
            yield SyncDisk(peer)


def elections(cores: Cores) -> Iterator[CoreSteps]:
    """Every quorum in which somebody looks for a leader."""
    up = tuple(peer for peer in cores.voters if cores.is_up(peer))
    for size in range(len(cores.voters) // 2 + 1, len(up) + 1):
        for members in combinations(up, size):
            if looking(cores, members):
                yield Elect(members)


def crashes(cores: Cores) -> Iterator[CoreSteps]:
    """Every process, and every point of its disk's work."""
    for peer in cores.voters:
        if cores.is_up(peer):
            for written in range(len(cores.nodes[peer].queue) + 1):
                yield Crash((peer,), written)


def restarts(cores: Cores) -> Iterator[CoreSteps]:
    """Every process that is down."""
    for peer in cores.voters:
        if cores.nodes[peer].peer is None:
            yield Start((peer,))


def serving(cores: Cores) -> Iterator[int]:
    """Whoever takes a client's write."""
    for peer in cores.voters:
        process = cores.nodes[peer].peer
        if cores.is_up(peer) and process is not None and process.status().serving:
            yield peer


def patient(cores: Cores) -> Iterator[int]:
    """Whoever follows or leads and does not serve."""
    for peer in cores.voters:
        process = cores.nodes[peer].peer
        if process is not None and not process.status().serving and peer not in looking(cores, (peer,)):
            yield peer
