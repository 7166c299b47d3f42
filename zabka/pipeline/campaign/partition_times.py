"""For how long each partition accepted writes, and for how long it was under-replicated."""

from __future__ import annotations

import msgspec

from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.pipeline.campaign.lives import TAKES as LIVES
from zabka.pipeline.campaign.lives import Lives

TAKES = LIVES | {
    e.LeaderElected, e.IsrChanged, e.AssignmentChanged, e.TopicDeleted, e.ConfigChanged, e.FaultRemoved,
}  # fmt: skip
"""Event types that can end a period with constant conditions."""
_MIN_ISR = "min.insync.replicas"
_ALL_BROKERS = "brokers/<default>"


class Window(msgspec.Struct, frozen=True):
    """The measured period; `end_us` is exclusive."""

    begin_us: int
    end_us: int

    def clip(self, moment_us: int) -> int:
        """Return this time if it is in the window, otherwise the nearer end of the window."""
        return min(self.end_us, max(self.begin_us, moment_us))

    def overlap_us(self, begin_us: int, end_us: int) -> int:
        """Return how much of a period is in the window."""
        return max(0, min(self.end_us, end_us) - max(self.begin_us, begin_us))


class PartitionTimes(msgspec.Struct):
    """Times of one partition within the window, in microseconds. `window_us` is the time for which it existed."""

    partition: str
    window_us: int = 0
    writable_us: int = 0
    """Time during which the partition had a leader whose process was running.

    With acks=all, the ISR must also have min.insync.replicas members. Each member must be running, and its link to the
    leader must not be partitioned.
    """
    under_replicated_us: int = 0
    """Time during which the ISR was smaller than the assignment."""
    under_min_isr_us: int = 0


class _State:
    def __init__(self, name: str, since_us: int) -> None:
        self.times = PartitionTimes(name)
        self.since_us = since_us
        self.zxid = -1
        self.leader = -1
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()


class PartitionClock:
    """Sums up the times of all partitions of the clients' topics.

    Pass every entry to it after `Lives` has processed the entry.
    """

    def __init__(self, window: Window, lives: Lives, min_insync_replicas: int, acks: int) -> None:
        self._window = window
        self._lives = lives
        self._usual = self._needed = min_insync_replicas
        self._acks = acks
        self._states: dict[str, _State] = {}
        self._gone: list[PartitionTimes] = []
        self._cuts: dict[str, frozenset[str]] = {}
        """The two nodes of each partitioned link, by fault id."""
        self._of_topics: dict[str, int] = {}
        """min.insync.replicas of each topic that overrides it."""

    def leader(self, partition: str) -> int:
        """Return the leader in the last committed state that the journal contains; -1 if there is none."""
        found = self._states.get(partition)
        return -1 if found is None else found.leader

    def led_by(self, broker: int) -> list[str]:
        """Return the partitions whose leader is this broker."""
        return [name for name, state in self._states.items() if state.leader == broker]

    def before(self, entry: Entry) -> None:
        """End the periods that can end with this entry. Call this method before any other code processes the entry."""
        if type(entry.event) in TAKES or self._lives.stands_still(entry.node):
            for state in self._states.values():
                self._pass(state, entry.mono_us)

    def see(self, entry: Entry) -> None:
        """Process the next entry."""
        event = entry.event
        if type(event) not in TAKES:
            return
        if isinstance(event, e.TopicDeleted):
            self._of_topics.pop(event.topic, None)
            for name in [name for name in self._states if name.rpartition("-")[0] == event.topic]:
                self._gone.append(self._states.pop(name).times)
        elif isinstance(event, e.LeaderElected | e.IsrChanged | e.AssignmentChanged):
            self._take(entry, event)
        elif isinstance(event, e.FaultInjected):
            if event.kind == "cut":
                self._cuts[event.fault_id] = frozenset((event.source, event.target))
        elif isinstance(event, e.FaultRemoved):
            self._cuts.pop(event.fault_id, None)
        elif isinstance(event, e.ConfigChanged) and event.entity == _ALL_BROKERS:
            self._needed = int(event.config.get(_MIN_ISR, self._usual))
        elif isinstance(event, e.ConfigChanged) and event.entity.startswith("topics/"):
            self._configure(event.entity.partition("/")[2], event.config.get(_MIN_ISR))

    def _configure(self, topic: str, min_isr: str | None) -> None:
        if min_isr is None:
            self._of_topics.pop(topic, None)
        else:
            self._of_topics[topic] = int(min_isr)

    def _take(self, entry: Entry, event: e.LeaderElected | e.IsrChanged | e.AssignmentChanged) -> None:
        if event.topic.startswith("__"):
            return
        name = f"{event.topic}-{event.partition}"
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = _State(name, entry.mono_us)
        if isinstance(event, e.AssignmentChanged):
            state.replicas = tuple(event.replicas)
            return
        if event.zxid and event.zxid < state.zxid:
            return
        state.zxid = max(state.zxid, event.zxid)
        state.leader, state.isr = event.leader, tuple(event.isr)
        if isinstance(event, e.LeaderElected):
            state.replicas = tuple(event.replicas)

    def _pass(self, state: _State, now_us: int) -> None:
        span_us = self._window.overlap_us(state.since_us, now_us)
        state.since_us = now_us
        if span_us == 0:
            return
        times = state.times
        times.window_us += span_us
        times.under_min_isr_us += span_us * self._is_under_min(state)
        times.under_replicated_us += span_us * (len(state.isr) < len(state.replicas))
        times.writable_us += span_us * self._is_writable(state)

    def unwritable(self) -> list[str]:
        """Return the partitions that cannot take records after the last entry."""
        return [name for name, state in self._states.items() if not self._is_writable(state)]

    def _is_writable(self, state: _State) -> bool:
        if state.leader < 0 or not self._lives.works(f"broker-{state.leader}"):
            return False
        return self._acks != -1 or not (self._is_under_min(state) or self._is_stalled(state))

    def _is_under_min(self, state: _State) -> bool:
        asked_for = self._of_topics.get(state.times.partition.rpartition("-")[0], self._needed)
        # A broker never requires more replicas than the partition has.
        return len(state.isr) < min(asked_for, len(state.replicas) or asked_for)

    def _is_stalled(self, state: _State) -> bool:
        """Return whether the leader waits for an ISR member that is down, paused or partitioned from the leader."""
        leader = f"broker-{state.leader}"
        members = [f"broker-{member}" for member in state.isr if member != state.leader]
        return any(
            not self._lives.works(member) or frozenset((leader, member)) in self._cuts.values() for member in members
        )

    def close(self, end_us: int) -> list[PartitionTimes]:
        """Close all periods at the end of the history, and return the times of every partition."""
        for state in self._states.values():
            self._pass(state, end_us)
        return [*self._gone, *(state.times for state in self._states.values())]
