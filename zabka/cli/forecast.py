"""Forecast of the death of a live node: futures of a mirrored world, each in a forked process of its own.

The world is built once. Each future is a fork(2) of the process that has built it, so all futures have the same past,
and building it costs the time of one. A future draws other random numbers from the moment of the fork on, and kills the
node at another time between two heartbeats.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence

import msgspec

from zabka.cli.futures import LARGE_PERCENTILE, wilson
from zabka.compose.launch import PARENT, die_with_parent
from zabka.journal.events import Entry
from zabka.pipeline.campaign.lives import Lives
from zabka.pipeline.campaign.partition_times import TAKES, PartitionClock, Window
from zabka.pipeline.campaign.record_losses import RecordLosses
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.garbage import collect_seldom
from zabka.simulation.forked_seed import ForkedSeed
from zabka.simulation.mirror.live_state import LiveState, Mirrored, NoMirror, mirrored
from zabka.simulation.mirror.mirrored_world import MirroredWorld

SEED = 1
BUDGET_S = 8.0
FUTURES_MAX = 200
JOBS_MAX = 4
LAST_S = 10.0
"""Time after the budget in which the futures that have begun can end. The API allows the process twice that time."""
REST_MS = 10_000
"""Virtual time that a future runs after the latest time at which ZooKeeper and the ISRs have noticed the death."""
SETTLED_MS = 1_500
"""Virtual time that a future still runs after nothing more is awaited: late losses must be seen."""
STEP_MS = 50
_MIN_ISR = "min.insync.replicas"
_EVERY_US = 1 << 62
_READ_BYTES = 1 << 16


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of one future.  Times are in milliseconds since the death; None if that did not happen in the future."""

    lost: int
    controller_ms: int | None
    writable_ms: int | None
    quorum_ms: int | None
    unwritable: tuple[str, ...]
    """Partitions that could be written before, and cannot at the end of the future."""
    problems: int
    """Number of violated invariants, which point to a bug of zabka."""


class Share(msgspec.Struct, frozen=True):
    """Number of futures with an outcome, and the 95 % confidence interval of their share."""

    count: int
    low: float
    high: float


class Times(msgspec.Struct, frozen=True):
    """Distribution of a time in milliseconds over the futures.  `never` counts the futures that did not reach it."""

    median_ms: int | None
    p90_ms: int | None
    longest_ms: int | None
    never: int


class Forecast(msgspec.Struct, frozen=True):
    """Distribution over the futures of a live state in which a node dies.  It is final if `ended`."""

    killed: str
    acks: str
    read_at_us: int
    futures: int
    horizon_ms: int
    took_ms: int
    ended: bool
    lost: Share
    controller: Times
    writable: Times
    quorum: Times
    unwritable: dict[str, int]
    """Number of futures at whose end a partition cannot be written, by partition."""
    problems: int
    limits: tuple[str, ...]
    """What of the live state the futures do not have."""


class Aftermath:
    """Follows a world's journal, and measures what a death leads to from the moment `died` on."""

    def __init__(self, mirror: MirroredWorld) -> None:
        self._world, self._names = mirror.world, mirror.live_names
        settings = mirror.source.settings
        self._lives, self._losses = Lives(), RecordLosses()
        min_isr = int(settings.broker_keys.get(_MIN_ISR, "1"))
        self._clock = PartitionClock(Window(0, _EVERY_US), self._lives, min_isr, settings.workload.acks)
        self._died_us: int | None = None
        self._before: frozenset[str] = frozenset()
        self._lost_before = 0
        self.controller_ms: int | None = None
        self.writable_ms: int | None = None
        self.quorum_ms: int | None = None
        for entry in self._world.record.entries:
            self._see(entry)
        self._world.record.listeners.append(self._see)

    def _see(self, entry: Entry) -> None:
        takes = type(entry.event) in TAKES or self._lives.stands_still(entry.node)
        self._clock.before(entry)
        self._lives.see(entry)
        self._clock.see(entry)
        self._losses.see(entry)
        if self._died_us is not None:
            self._measure(takes)

    def will_die(self) -> None:
        """Remember the state before the death: partitions that cannot be written already do not count."""
        self._before = frozenset(self._clock.unwritable())
        self._lost_before = sum(self._losses.lost().values())

    def has_died(self) -> None:
        """Begin to measure. The node is dead."""
        self._died_us = self._world.scheduler.now_us
        self.measure()

    def measure(self) -> None:
        """Take note of the times that have been reached by now."""
        self._measure(takes=True)

    def _measure(self, takes: bool) -> None:
        assert self._died_us is not None
        since_ms = (self._world.scheduler.now_us - self._died_us) // 1000
        if self.controller_ms is None and self._has_controller():
            self.controller_ms = since_ms
        if self.quorum_ms is None and self._world.leader() is not None:
            self.quorum_ms = since_ms
        if takes and self.writable_ms is None and not self._unwritable():
            self.writable_ms = since_ms

    def _has_controller(self) -> bool:
        terms = self._world.record.state.controller_terms
        last = terms[-1] if terms else None
        return last is not None and last.ready_us is not None and last.until_us is None and last.holder_lost_us is None

    def _unwritable(self) -> list[str]:
        return [name for name in self._clock.unwritable() if name in self._names and name not in self._before]

    def is_over(self) -> bool:
        """Return whether nothing more is awaited: all is well, or the rest waits for a node that does not return."""
        if self.controller_ms is None or self.quorum_ms is None:
            return False
        return all(self._clock.leader(name) < 0 for name in self._unwritable())

    def outcome(self) -> Outcome:
        """Return the outcome of the future at its end."""
        lost = sum(self._losses.lost().values()) - self._lost_before
        left = tuple(sorted(self._names[name] for name in self._unwritable()))
        problems = len(self._world.record.violations)
        writable = None if left else self.writable_ms
        return Outcome(lost, self.controller_ms, writable, self.quorum_ms, left, problems)


def horizon_ms(source: Mirrored) -> int:
    """Return the virtual time for which a future runs at most."""
    settings = source.settings
    return settings.session_timeout_ms + settings.replica_lag_time_max_ms + REST_MS


def play(mirror: MirroredWorld, aftermath: Aftermath, killed: str, number: int) -> Outcome:
    """Kill the node in the future `number` of a mirrored world, and return the outcome.  The world is used up."""
    world, settings = mirror.world, mirror.source.settings
    assert isinstance(world.seed, ForkedSeed)
    world.seed.begin_future(number)
    # A node dies at any time between two of its heartbeats, and between two ticks of the ensemble.
    phase_ms = max(settings.session_timeout_ms // 3, settings.tick_time_ms)
    world.run(derive_random(SEED, f"moment {number}").randrange(phase_ms))
    aftermath.will_die()
    world.kill(mirror.source.name(killed))
    aftermath.has_died()
    end_ms = world.now_ms + horizon_ms(mirror.source)
    while world.now_ms < end_ms:
        world.run(STEP_MS)
        aftermath.measure()
        if aftermath.is_over():
            end_ms = min(end_ms, world.now_ms + SETTLED_MS)
            world.run(max(0, end_ms - world.now_ms))
            if aftermath.is_over():
                break
            end_ms = world.now_ms + horizon_ms(mirror.source)
    return aftermath.outcome()


def forecasts(
    state: LiveState, killed: str, acks: int, *, budget_s: float, jobs: int, count: int
) -> Generator[Forecast]:
    """Yield the distribution after each future; the last one is final.

    No future begins after `count` futures or `budget_s` seconds, and those that run then have LAST_S more. Raises
    NoMirror, also if no future has ended by then.
    """
    began_s = time.monotonic()
    source = mirrored(state, killed, acks)
    collect_seldom()
    deadline_s = began_s + budget_s

    def check_time() -> None:
        if time.monotonic() > deadline_s:
            raise NoMirror("the simulated cluster could not be built in time. Allow more time")

    mirror = MirroredWorld(ForkedSeed(SEED, future=0), source, check_time)
    try:
        mirror.build()
        yield from _counted(mirror, killed, began_s, deadline_s, jobs, count)
    finally:
        mirror.world.end_world()
        gc.unfreeze()


def _counted(
    mirror: MirroredWorld, killed: str, began_s: float, deadline_s: float, jobs: int, count: int
) -> Generator[Forecast]:
    aftermath = Aftermath(mirror)
    gc.freeze()
    found: list[Outcome] = []
    late = 0
    for outcome in _forked(lambda number: play(mirror, aftermath, killed, number), deadline_s, jobs, count):
        if outcome is None:
            late += 1
            continue
        found.append(outcome)
        yield _distribution(found, mirror, killed, round(1000 * (time.monotonic() - began_s)), ended=False)
    if not found:
        raise NoMirror("no future ended in time. Allow more time")
    last = _distribution(found, mirror, killed, round(1000 * (time.monotonic() - began_s)), ended=True)
    yield last if not late else msgspec.structs.replace(last, limits=(_late(late), *last.limits))


def _late(count: int) -> str:
    futures = "1 future" if count == 1 else f"{count} futures"
    return f"{futures} did not end in time: the distribution is without them, and they may be the slowest ones."


def _forked(call: Callable[[int], Outcome], deadline_s: float, jobs: int, count: int) -> Iterator[Outcome | None]:
    """Yield the results of `call` for the numbers from 1, each from a forked process.

    At most `jobs` processes exist at once. None begins after the deadline: a process that is killed would be one with a
    slow future, and the distribution would then lack these. Those that still run LAST_S later are killed, with None as
    their result.
    """
    running: dict[int, tuple[int, bytes]] = {}
    number = 0
    try:
        while True:
            while len(running) < jobs and number < count and time.monotonic() < deadline_s:
                number += 1
                pid, reading = _fork(call, number)
                running[reading] = (pid, b"")
            left_s = deadline_s + LAST_S - time.monotonic()
            if not running or left_s <= 0:
                break
            readable, _, _ = select.select(list(running), [], [], left_s)
            for reading in readable:
                part = os.read(reading, _READ_BYTES)
                pid, before = running[reading]
                if part:
                    running[reading] = (pid, before + part)
                    continue
                del running[reading]
                os.close(reading)
                _, status = os.waitpid(pid, 0)
                if status == 0:
                    yield msgspec.json.decode(before, type=Outcome)
                else:
                    raise NoMirror(f"a future failed with status {os.waitstatus_to_exitcode(status)}: see the messages")
        for _ in running:
            yield None
    finally:
        for reading, (pid, _) in running.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reading)


def _fork(call: Callable[[int], Outcome], number: int) -> tuple[int, int]:
    """Start a process that runs `call`.  Return its pid and the descriptor from which its result can be read."""
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.environ[PARENT] = str(parent)
        die_with_parent(signal.SIGKILL)
        os.close(reading)
        os.write(writing, msgspec.json.encode(call(number)))
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _distribution(
    found: Sequence[Outcome], mirror: MirroredWorld, killed: str, took_ms: int, *, ended: bool
) -> Forecast:
    source, acks = mirror.source, mirror.source.settings.workload.acks
    losing = sum(each.lost > 0 for each in found)
    low, high = wilson(losing, len(found))
    names = sorted({name for each in found for name in each.unwritable})
    return Forecast(
        killed=killed,
        acks="all" if acks == -1 else str(acks),
        read_at_us=source.state.read_at_us,
        futures=len(found),
        horizon_ms=horizon_ms(source),
        took_ms=took_ms,
        ended=ended,
        lost=Share(losing, round(low, 4), round(high, 4)),
        controller=times([each.controller_ms for each in found]),
        writable=times([each.writable_ms for each in found]),
        quorum=times([each.quorum_ms for each in found]),
        unwritable={name: sum(name in each.unwritable for each in found) for name in names},
        problems=sum(each.problems > 0 for each in found),
        limits=(*mirror.differences, *source.limits),
    )


def times(found: Sequence[int | None]) -> Times:
    """Return the distribution of times; None counts as never.

    Percentiles are of all futures: a percentile that falls on a future that never got there is None.
    """
    known = sorted(each for each in found if each is not None)

    def at(share: float) -> int | None:
        place = -int(-share * len(found) // 1) - 1
        return known[place] if 0 <= place < len(known) else None

    return Times(at(0.5), at(LARGE_PERCENTILE), known[-1] if known else None, len(found) - len(known))
