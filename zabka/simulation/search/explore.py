"""Exhaustive search within bounds: runs every order of steps of the bare protocol.

In every state, every possible step is tried: the next packet on any connection in either direction, the next fsync of
any disk, a client's write at any server that accepts writes, a crash at any point of a disk's pending operations that
leads to a different content of the disk, a restart, the loss of packets that a dead server had sent, an election among
any quorum, and a timeout once no packet or fsync is pending. States are visited breadth first, so the first
counter-example is a shortest one.

All invariants are checked at every step, for every order that leads to a state, because the history that they need (the
monitor) is part of the state. If no step is possible, there must be an established leader and all peers must have the
same history. Such an end must be reachable from every state without another fault.

These measures keep three servers feasible:

- The result of an input depends only on the server's own state and the input. `CachedTransitions` computes each result
  once. So a state of the ensemble is a few numbers, and most steps are table look-ups (like SPIN's
  collapse compression).
- Parts that cannot affect behaviour are left out of a state (`zabka.simulation.steps.canonical`). Election rounds count
  from the lowest round of the running servers: rounds are only compared with one another, and a starting server has the
  lowest round.
- An election is one step: its members exchange votes in the order sent until none of them is LOOKING, and other
  servers receive no votes. `elections` limits how often a peer begins to lead, because the search would never end
  if elections could always overtake the packets of the previous leader. Elections beyond the limit are counted (`cut`)
  but not followed.

No order of steps is omitted. The persistent and sleep sets of partial-order reduction (Godefroid, 1996; Flanagan and
Godefroid, 2005) would save only states that an invariant over two disks might distinguish. Sleep sets alone save only
transitions, of which each state has two or three.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain

import msgspec

from zabka.ensemble.zab.messages import PeerState
from zabka.simulation.scenarios.core_player import play_steps, unsettled
from zabka.simulation.scenarios.core_steps import CoreSteps, Elect, GiveUp, Run, Start, Write
from zabka.simulation.scenarios.scenario import CoreScenario
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.search import explore_steps
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.links import CoreLinks
from zabka.simulation.steps.transitions import CachedTransitions

PROGRESS_EVERY = 100


class Begin(StrEnum):
    """How a search begins: with newly started processes, or with a leader that all other peers follow."""

    POWER_ON = "power-on"
    LEADER = "leader"


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of a search: the number of servers, and the maximum number of each kind of event.

    `timeouts` limits timeouts of servers with intact links; a server whose peer is lost always times out. `breaks`
    limits broken connections. `elections` limits elections after which a peer begins to lead; -1 allows one more than
    the faults can cause. `losses` allows the loss of packets that a server had sent before it died or closed the
    connection.
    """

    peers: int = 3
    writes: int = 2
    crashes: int = 1
    timeouts: int = 0
    breaks: int = 0
    elections: int = -1
    losses: bool = True
    begin: Begin = Begin.LEADER
    states_max: int = 10_000_000

    def first_steps(self) -> tuple[CoreSteps, ...]:
        """Return the steps to the state in which the search begins."""
        if self.begin is Begin.POWER_ON:
            return (Start(),)
        return Start(), Elect(tuple(range(1, self.peers + 1))), Run()

    def allowance(self) -> Left:
        """Return how many events of each kind are allowed, before the first step."""
        needed = self.crashes + self.timeouts + self.breaks + (self.begin is Begin.POWER_ON)
        elections_max = needed + 1 if self.elections < 0 else self.elections
        return Left(self.writes, self.crashes, self.timeouts, self.breaks, elections_max)


class Left(msgspec.Struct, frozen=True):
    """Number of events of each kind that the search still allows."""

    writes: int
    crashes: int
    timeouts: int
    breaks: int
    elections: int


class Exploration(msgspec.Struct):
    """The result of a search.

    If `exhausted`, every state within the bounds was visited; otherwise every state up to `depth` steps from the start
    was visited. `settled` counts states in which only writes and faults were possible, `cut` the elections beyond the
    limit, and `turns` how often the effect of an input on a single server was computed. If there are `problems`,
    `steps` reproduces them.
    """

    bounds: Bounds
    states: int
    transitions: int
    depth: int
    settled: int
    cut: int
    turns: int
    exhausted: bool
    problems: list[str]
    steps: tuple[CoreSteps, ...]
    cpu_s: float

    def scenario(self) -> CoreScenario:
        """Return the failure as a scenario that can be run."""
        return CoreScenario(
            "explored", "Found by the exhaustive search", self.problems[0], peers=self.bounds.peers, steps=self.steps
        )


class _Space:
    """All visited states, and for each state the step that led to it.

    The parts of a state are numbered: its nodes, its connections, its monitor, and the faults that are still allowed. A
    state is stored as the numbers of its parts.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.turns = CachedTransitions()
        self.begin = BareEnsemble(bounds.peers, turns=self.turns)
        self.states: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self._parents = array("I")
        self._taken = array("H")
        self._steps: dict[CoreSteps, int] = {}
        self._networks: dict[tuple[object, ...], int] = {}
        self._links: list[CoreLinks] = []
        self._remainders: list[Left] = []
        self._layout = struct.Struct(f"<{bounds.peers + 3}I")

    def pack(self, cores: BareEnsemble, left: Left) -> bytes:
        """Encode a state in a few bytes.  States with the same possible behaviour have the same encoding."""
        cores.reset_rounds()
        network = self._networks.setdefault(tuple([link.key() for link in cores.links]), len(self._links))
        if network == len(self._links):
            self._links.append(cores.links)
        if left not in self._remainders:
            self._remainders.append(left)
        remainder = self._remainders.index(left)
        numbers = [self.turns.keep_node(node).number for node in cores.nodes.values()]
        return self._layout.pack(*numbers, network, self.turns.keep_monitor(cores.monitor).number, remainder)

    def unpack(self, index: int) -> tuple[BareEnsemble, Left]:
        """Decode a state, to continue the search from it."""
        *nodes, network, monitor, remainder = self._layout.unpack(self.states[index])
        cores = self.begin.fork()
        cores.nodes = {peer: self.turns.nodes[number - 1] for peer, number in zip(cores.voters, nodes, strict=True)}
        cores.links = self._links[network]
        cores.monitor = self.turns.monitors[monitor - 1]
        left = self._remainders[remainder]
        cores.asked = self.bounds.writes - left.writes
        return cores, left

    def add(self, packed: bytes, parent: int, step: CoreSteps) -> int:
        """Return the number of a state.  If the state is new, the search will visit it later."""
        index = self._known.setdefault(packed, len(self.states))
        if index == len(self.states):
            self.states.append(packed)
            self._parents.append(parent)
            self._taken.append(self._steps.setdefault(step, len(self._steps)))
        return index

    def path(self, index: int) -> tuple[CoreSteps, ...]:
        """Return a shortest sequence of steps that leads to that state."""
        known = list(self._steps)
        steps: list[CoreSteps] = []
        while index:
            steps.append(known[self._taken[index]])
            index = self._parents[index]
        return (*self.bounds.first_steps(), *reversed(steps))


class _Search:
    """A search in progress."""

    def __init__(self, bounds: Bounds) -> None:
        self.space = _Space(bounds)
        self.bounds = bounds
        self.transitions = self.settled = self.cut = self.depth = self.visited = 0
        self.problems: list[str] = []
        self.steps = bounds.first_steps()
        self._level_ends = 1
        # One element for each visited state: whether it is an end state, and which states follow it without another
        # fault.
        self._ends = bytearray()
        self._ways = array("I")
        self._ways_end = array("Q")

    def run(self, progress: Callable[[int, int, int], None]) -> bool:
        """Visit all states. Return False if the limit on states or an interruption ended the search early."""
        space = self.space
        cores = space.begin.fork()
        self.problems = play_steps(cores, self.steps)
        if self.problems:
            return False
        space.add(space.pack(cores, self.bounds.allowance()), 0, Start())
        try:
            while self.visited < len(space.states) and not self.problems:
                if len(space.states) > self.bounds.states_max:
                    return False
                if self.visited % PROGRESS_EVERY == 0:
                    progress(self.visited, self.depth, len(space.states) - self.visited)
                self._visit(self.visited)
        except KeyboardInterrupt:
            return False
        if not self.problems:
            self._check_that_all_can_settle()
        return not self.problems

    def _visit(self, index: int) -> None:
        if index == self._level_ends:
            self.depth, self._level_ends = self.depth + 1, len(self.space.states)
        cores, left = self.space.unpack(index)
        ends, cut_before = True, self.cut
        for step, after in possible(cores, left, self.bounds):
            twin = cores.fork()
            try:
                step.play(twin)
            except StepFailed:
                continue  # The election fails, so this step is not possible.
            free = after is left
            ends &= not free
            if isinstance(step, Elect) and _controller_terms(twin) != _controller_terms(cores):
                after = msgspec.structs.replace(left, elections=left.elections - 1)
                if after.elections < 0:
                    self.cut += 1
                    continue
            self.transitions += 1
            if twin.problems:
                self.problems, self.steps = twin.problems, (*self.space.path(index), step)
                return
            following = self.space.add(self.space.pack(twin, after), index, step)
            if free:
                self._ways.append(following)
        if ends:
            self.settled += 1
            self.problems, self.steps = unsettled(cores), self.space.path(index)
        self._ends.append(ends or self.cut > cut_before)
        self._ways_end.append(len(self._ways))
        self.visited += 1

    def _check_that_all_can_settle(self) -> None:
        """Check that every state can reach an end state, or an election beyond the limit, without more faults."""
        good, changed = self._ends, True
        while changed:
            changed = False
            for index in range(len(good) - 1, -1, -1):
                if not good[index]:
                    start = self._ways_end[index - 1] if index else 0
                    if any(good[following] for following in self._ways[start : self._ways_end[index]]):
                        good[index] = changed = True
        stuck = good.find(0)
        if stuck >= 0:
            self.problems = ["liveness: from here on the servers never come to rest"]
            self.steps = self.space.path(stuck)


def explore(bounds: Bounds, progress: Callable[[int, int, int], None] = lambda *_: None) -> Exploration:
    """Run a search.

    `progress` is called from time to time with the number of visited states, the depth, and the number of states to
    visit. KeyboardInterrupt ends the search, which then returns the results so far.
    """
    begin_s = time.process_time()
    search = _Search(bounds)
    exhausted = search.run(progress)
    return Exploration(
        bounds=bounds,
        states=len(search.space.states),
        transitions=search.transitions,
        depth=search.depth,
        settled=search.settled,
        cut=search.cut,
        turns=search.space.turns.missed,
        exhausted=exhausted,
        problems=search.problems,
        steps=search.steps if search.problems else (),
        cpu_s=time.process_time() - begin_s,
    )


def _controller_terms(cores: BareEnsemble) -> list[tuple[int, int]]:
    """Return the peers that are LEADING, each with the election round in which it was elected."""
    statuses = [node.status for node in cores.nodes.values()]
    return [(each.peer_id, each.round) for each in statuses if each is not None and each.state is PeerState.LEADING]


def possible(cores: BareEnsemble, left: Left, bounds: Bounds) -> Iterator[tuple[CoreSteps, Left]]:
    """Yield every possible step, each with the numbers of events that are still allowed after it.

    A step that is not limited leaves these numbers unchanged (`left` itself).
    """
    ordinary = list(explore_steps.ordinary_steps(cores))
    for step in chain(
        ordinary,
        explore_steps.losses(cores) if bounds.losses else (),
        explore_steps.elections(cores),
        explore_steps.restarts(cores),
        () if ordinary else map(GiveUp, explore_steps.patient(cores)),
    ):
        yield step, left
    for bounded, steps in _BOUNDED.items():
        so_many = getattr(left, bounded)
        if so_many:
            one_less = msgspec.structs.replace(left, **{bounded: so_many - 1})
            for step in steps(cores):
                yield step, one_less


def _writes(cores: BareEnsemble) -> Iterator[CoreSteps]:
    return map(Write, explore_steps.serving(cores))


_BOUNDED: dict[str, Callable[[BareEnsemble], Iterator[CoreSteps]]] = {
    "writes": _writes,
    "crashes": explore_steps.crashes,
    "breaks": explore_steps.breaks,
    "timeouts": explore_steps.timeouts,
}
"""Functions that yield the steps of kinds that are limited in number.

The key of each function is the field of `Left` with the number of such steps that are still allowed.
"""
