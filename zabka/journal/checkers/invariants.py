"""The invariants of every history, as checkers that process one entry at a time.

Each checker is a small fold that reports the violations of each entry. `check` runs all checkers over a whole history;
the simulated world passes new entries to them after every step. A history is ordered: a later entry happened later. The
order is exact in the simulated world; histories of real processes are merged by wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from zabka.journal import events as e
from zabka.journal.events import Entry, Event, TopicPartition


class Violation(NamedTuple):
    """A violated invariant, and the entry that shows the violation."""

    invariant: str
    detail: str
    node: str
    node_seq: int
    mono_us: int


class Checker(Protocol):
    """Checks one invariant. A checker can restrict the event types that it receives with `watches`."""

    name: str

    @property
    def checked(self) -> int | None:
        """Number of entries that could have shown a violation.

        None for a checker that only reports problems that nodes themselves have detected.
        """
        ...

    def see(self, entry: Entry) -> Iterable[str]:
        """Process the next entry and return its violations."""
        ...


class OneLeaderPerEpoch:
    """At most one peer is ever established as leader of a ZAB epoch (Leadership1, Zab.tla)."""

    name = "one ZAB leader per epoch"
    watches = (e.LeaderEstablished,)

    def __init__(self) -> None:
        self.checked = 0
        self._leaders: dict[int, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare a new leader with the earlier leader of the same epoch."""
        event = entry.event
        if isinstance(event, e.LeaderEstablished):
            self.checked += 1
            first = self._leaders.setdefault(event.epoch, event.leader_id)
            if first != event.leader_id:
                yield f"epoch {event.epoch} was led by {first} and now by {event.leader_id}"


class CommittedPrefixesAgree:
    """All peers that apply a zxid apply the same transaction to the same tree, in zxid order."""

    name = "committed prefixes agree"
    watches = (e.TxnCommitted, e.NodeStarted, e.LearnerSynced)

    def __init__(self) -> None:
        self.checked = 0
        self._committed: dict[int, tuple[int, int, str, str, int, int]] = {}
        self._last: dict[str, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare a committed transaction with the transaction that other peers committed at the same zxid."""
        event = entry.event
        if isinstance(event, e.TxnCommitted):
            row = (event.session_id, event.cxid, event.operation, event.path, event.error, event.digest)
            first = self._committed.setdefault(event.zxid, row)
            self.checked += first is not row
            if first != row:
                yield f"zxid 0x{event.zxid:x} is {row} on {entry.node}, {first} elsewhere"
            last = self._last.get(entry.node, 0)
            if event.zxid <= last:
                yield f"{entry.node} applied 0x{event.zxid:x} after 0x{last:x}"
            self._last[entry.node] = event.zxid
        elif isinstance(event, e.NodeStarted):
            self._last.pop(entry.node, None)
        elif isinstance(event, e.LearnerSynced) and event.mode != "DIFF":
            self._last[entry.node] = event.to_zxid if event.mode == "SNAP" else 0


class DigestsAgree:
    """All peers have the same tree at the same zxid, according to the tree's digest.

    A journal of the control level contains digests only at checkpoints; a journal of the full level contains a digest
    per transaction. The checker accepts both.
    """

    name = "digests agree"
    watches = (e.TxnCommitted, e.ZxidCheckpoint)

    def __init__(self) -> None:
        self.checked = 0
        self._digests: dict[int, dict[str, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare a digest with the digests of other peers at the same zxid."""
        event = entry.event
        assert isinstance(event, e.TxnCommitted | e.ZxidCheckpoint)
        if isinstance(event, e.TxnCommitted) and not event.digest:
            return
        digests = self._digests.setdefault(event.zxid, {})
        before = digests.get(entry.node)
        digests[entry.node] = event.digest
        if before is None:
            self.checked += len(digests) > 1
        elif before == event.digest:
            return
        else:
            self.checked += 1
            yield f"{entry.node} stood at 0x{event.zxid:x} with digest {before:x}, now with {event.digest:x}"
        if any(digest != event.digest for digest in digests.values()):
            listed = ", ".join(f"{node} {digest:x}" for node, digest in sorted(digests.items()))
            yield f"at 0x{event.zxid:x} the digests differ: {listed}"


class AcknowledgedWritesSurvive:
    """An acknowledged write is in the log of every later leader, and no peer truncates it.

    There is one exception. A peer that joins a leader while a proposal of that leader is in progress may have to
    truncate the proposal and receive it again. The leader has the proposal, and did not count that peer's
    acknowledgement.
    """

    name = "no acknowledged write lost"
    watches = (e.WriteAcknowledged, e.PeerStateChanged, e.LeaderEstablished, e.TxnLogTruncated)

    def __init__(self) -> None:
        self.checked = 0
        self._acknowledged = 0
        self._last_zxid: dict[str, int] = {}
        self._accepted: dict[str, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare the log of a new leader, or a truncation, with the highest acknowledged zxid."""
        event = entry.event
        if isinstance(event, e.WriteAcknowledged):
            self._acknowledged = max(self._acknowledged, event.zxid)
        elif isinstance(event, e.PeerStateChanged):
            self._accepted[entry.node] = event.accepted_epoch
            if event.state == "LEADING" and event.phase != "BROADCAST":
                self._last_zxid[entry.node] = event.last_zxid
        elif isinstance(event, e.LeaderEstablished):
            # This leader's history must contain all writes that were acknowledged in older epochs.
            had = self._last_zxid.get(entry.node, 0)
            self.checked += 0 < self._acknowledged >> 32 < event.epoch
            if self._acknowledged >> 32 < event.epoch and had < self._acknowledged:
                yield (
                    f"{entry.node} leads epoch {event.epoch} with a history up to 0x{had:x}, "
                    f"but 0x{self._acknowledged:x} was acknowledged"
                )
        elif (
            isinstance(event, e.TxnLogTruncated)
            and event.to_zxid < self._acknowledged <= event.from_zxid
            and self._acknowledged >> 32 != self._accepted.get(entry.node)
        ):
            yield f"{entry.node} truncated to 0x{event.to_zxid:x}, but 0x{self._acknowledged:x} was acknowledged"


class EphemeralsEndWithSessions:
    """After the end of a session is applied, its ephemeral znodes are deleted, and none is created later."""

    name = "no ephemeral outlives its session"
    watches = (e.NodeStarted, e.LearnerSynced, e.EphemeralCreated, e.EphemeralDeleted, e.SessionClosed)

    def __init__(self) -> None:
        self.checked = 0
        self._closed: dict[int, int] = {}
        self._live: dict[str, dict[str, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Track the ephemeral znodes of each session on each node."""
        event = entry.event
        live = self._live.setdefault(entry.node, {})
        if isinstance(event, e.NodeStarted) or (isinstance(event, e.LearnerSynced) and event.mode != "DIFF"):
            live.clear()
        elif isinstance(event, e.EphemeralCreated):
            live[event.path] = event.session_id
            closed = self._closed.get(event.session_id)
            if closed is not None and event.zxid > closed:
                yield f"{event.path} was created for session 0x{event.session_id:x} after that session's end"
        elif isinstance(event, e.EphemeralDeleted):
            live.pop(event.path, None)
        elif isinstance(event, e.SessionClosed):
            self._closed.setdefault(event.session_id, event.zxid)
            for path in event.ephemerals:
                live.pop(path, None)
            self.checked += bool(event.ephemerals)
            left = [path for path, owner in live.items() if owner == event.session_id]
            if left:
                yield f"session 0x{event.session_id:x} ended on {entry.node}, but {left[0]} stays"


CLOSE_SESSION = "closeSession"


class EndedSessionsWriteNothing:
    """No transaction of a session has a higher zxid than the end of that session."""

    name = "no session writes after its end"
    watches = (e.TxnCommitted,)

    def __init__(self) -> None:
        self.checked = 0
        self._ended: dict[int, int] = {}
        """The zxid of each session's closeSession transaction."""
        self._last_write: dict[int, int] = {}
        """The highest zxid of each session's transactions, not counting its closeSession."""

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare the zxid of a session's end with the zxids of its other transactions.

        The result does not depend on the order in which nodes apply the transactions.
        """
        event = entry.event
        assert isinstance(event, e.TxnCommitted)
        session_id = event.session_id
        if event.error:
            return
        if event.operation == CLOSE_SESSION:
            if session_id not in self._ended:
                self.checked += 1
                self._ended[session_id] = event.zxid
        else:
            self._last_write[session_id] = max(event.zxid, self._last_write.get(session_id, 0))
        ended, last_write = self._ended.get(session_id), self._last_write.get(session_id, 0)
        if ended is not None and last_write > ended:
            yield f"session 0x{session_id:x} ended at 0x{ended:x} and wrote at 0x{last_write:x}"


class ControllerEpochsRise:
    """Controller epochs strictly increase, and no write with a lower epoch takes effect after a higher epoch began.

    The order is the ensemble's: the zxid of a write is compared with the zxid of the controller's election.
    """

    name = "controller epochs rise and fence"
    watches = (e.ControllerElected, e.LeaderElected, e.IsrChanged)

    def __init__(self) -> None:
        self.checked = 0
        self._elections: list[tuple[int, int, int]] = []  # (zxid, epoch, broker) in the order of their observation

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare controller elections with each other, and writes of partition states with the elections."""
        event = entry.event
        if isinstance(event, e.ControllerElected):
            self.checked += bool(self._elections)
            for zxid, epoch, broker in self._elections:
                if epoch == event.controller_epoch or (zxid < event.zxid) != (epoch < event.controller_epoch):
                    yield (
                        f"broker {event.broker_id} was elected at epoch {event.controller_epoch}, "
                        f"broker {broker} at epoch {epoch}"
                    )
            self._elections.append((event.zxid, event.controller_epoch, event.broker_id))
        elif isinstance(event, e.LeaderElected | e.IsrChanged) and event.zxid and event.controller_epoch:
            self.checked += len(self._elections) > 1
            for zxid, epoch, broker in self._elections:
                if epoch > event.controller_epoch and zxid < event.zxid:
                    yield (
                        f"{event.topic}-{event.partition} was written by controller epoch {event.controller_epoch} "
                        f"after broker {broker} had begun epoch {epoch}"
                    )


class OneLeaderPerLeaderEpoch:
    """In a leader epoch of a partition, at most one broker is the leader, and only in one of its processes.

    A broker that restarts needs a new leader epoch to lead the partition again.
    """

    name = "one leader per partition and leader epoch"
    watches = (e.NodeStarted, e.TopicDeleted, e.LeadershipTaken, e.LeaderElected)

    def __init__(self) -> None:
        self.checked = 0
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._lives: dict[str, int] = {}
        self._led_by: dict[tuple[str, int, int], tuple[str, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Compare a new leader with the earlier leader of the same leader epoch."""
        event = entry.event
        if isinstance(event, e.NodeStarted):
            self._lives[entry.node] = self._lives.get(entry.node, 0) + 1
        elif isinstance(event, e.TopicDeleted):
            for key in [key for key in self._leaders if key[0] == event.topic]:
                del self._leaders[key]
                self._led_by.pop(key, None)
        elif isinstance(event, e.LeadershipTaken | e.LeaderElected):
            leader = event.broker_id if isinstance(event, e.LeadershipTaken) else event.leader
            if leader >= 0:
                key = (event.topic, event.partition, event.leader_epoch)
                self.checked += key in self._leaders
                first = self._leaders.setdefault(key, leader)
                if first != leader:
                    yield (
                        f"{event.topic}-{event.partition} leader epoch {event.leader_epoch}: "
                        f"both {first} and {leader} lead"
                    )
            if isinstance(event, e.LeadershipTaken):
                key = (event.topic, event.partition, event.leader_epoch)
                life = (entry.node, self._lives.get(entry.node, 0))
                if self._led_by.setdefault(key, life)[0] == entry.node and self._led_by[key] != life:
                    yield (
                        f"{event.topic}-{event.partition} leader epoch {event.leader_epoch}: "
                        f"broker {event.broker_id} leads on after a restart"
                    )


class IsrWithinAssignment:
    """An ISR contains only assigned replicas, including the leader. Each write increments the partition epoch.

    If a write is logged after the assignment has changed, it is not compared with the new assignment.
    """

    name = "ISR within the assignment"
    watches = (e.TopicDeleted, e.LeaderElected, e.IsrChanged, e.AssignmentChanged)

    def __init__(self) -> None:
        self.checked = 0
        self._replicas: dict[TopicPartition, dict[int, None]] = {}
        self._assigned: dict[TopicPartition, int] = {}
        """The zxid of the last write of each partition's assignment."""
        self._writes: dict[tuple[TopicPartition, int], tuple[int, ...]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Check every write of a partition's state. Two writes with the same partition epoch must have the same ISR."""
        event = entry.event
        if isinstance(event, e.TopicDeleted):
            for key in [key for key in self._writes if key[0].topic == event.topic]:
                del self._writes[key]
            for name in [name for name in self._replicas if name.topic == event.topic]:
                del self._replicas[name]
                self._assigned.pop(name, None)
            return
        assert isinstance(event, e.LeaderElected | e.IsrChanged | e.AssignmentChanged)
        name = TopicPartition(event.topic, event.partition)
        if isinstance(event, e.AssignmentChanged):
            if event.zxid >= self._assigned.get(name, 0):
                self._replicas[name], self._assigned[name] = dict.fromkeys(event.replicas), event.zxid
            return
        is_late = event.zxid < self._assigned.get(name, 0)
        if isinstance(event, e.LeaderElected) and not is_late:
            # At the end of a reassignment, the controller already writes the target replicas as the assignment, while
            # the ISR still contains original replicas. Allow both.
            self._replicas.setdefault(name, {}).update(dict.fromkeys(event.replicas))
        replicas = self._replicas.get(name)
        if replicas is not None and not is_late:
            self.checked += 1
            strangers = [broker for broker in event.isr if broker not in replicas]
            if strangers:
                yield f"{name}: {strangers} in the ISR but not among the replicas {list(replicas)}"
        if event.leader >= 0 and event.leader not in event.isr:
            yield f"{name}: leader {event.leader} is not in the ISR {event.isr}"
        row = (event.leader, event.leader_epoch, *sorted(event.isr))
        first = self._writes.setdefault((name, event.partition_epoch), row)
        if first != row:
            yield f"{name}: partition epoch {event.partition_epoch} was written as {first} and as {row}"


_ID_IN_USE = "BrokerIdInUse"
"""Name of the problem that a broker reports while another process uses its broker id.

The broker retries, so no invariant is violated.
"""


class NothingSelfReported:
    """No node has reported an impossible state, such as a tree digest that differs from the leader's."""

    name = "no node and no check of the world reports a broken rule"
    watches = (e.InvariantViolated, e.ControllerEventFailed)
    checked = None

    def see(self, entry: Entry) -> Iterator[str]:
        """Return the problem that the node reports."""
        event = entry.event
        if isinstance(event, e.InvariantViolated):
            yield f"{entry.node} reports {event.invariant}: {event.detail}"
        elif isinstance(event, e.ControllerEventFailed) and not event.problem.startswith(_ID_IN_USE):
            yield f"{entry.node}: the controller could not process {event.event}: {event.problem}"


def default_checkers() -> list[Checker]:
    """Return a new checker for every invariant."""
    from zabka.journal.checkers.record_invariants import CommittedRecordsSurvive
    from zabka.journal.checkers.replication_invariants import (
        HighWatermarkWithinLog,
        LogsMatch,
        OnlyUncleanElectionsLeaveTheIsr,
    )

    return [
        OneLeaderPerEpoch(),
        CommittedPrefixesAgree(),
        DigestsAgree(),
        AcknowledgedWritesSurvive(),
        EphemeralsEndWithSessions(),
        EndedSessionsWriteNothing(),
        ControllerEpochsRise(),
        OneLeaderPerLeaderEpoch(),
        IsrWithinAssignment(),
        CommittedRecordsSurvive(),
        LogsMatch(),
        HighWatermarkWithinLog(),
        OnlyUncleanElectionsLeaveTheIsr(),
        NothingSelfReported(),
    ]


class Watchdog:
    """Runs all checkers over a history that grows."""

    def __init__(self, checkers: list[Checker] | None = None) -> None:
        self._checkers = default_checkers() if checkers is None else checkers
        self._watching: dict[type[Event], list[tuple[str, Callable[[Entry], Iterable[str]]]]] = {}
        self.violations: list[Violation] = []

    def checked(self) -> dict[str, int]:
        """Return the number of checks per invariant."""
        counts = [(checker.name, checker.checked) for checker in self._checkers]
        return {name: checked for name, checked in counts if checked is not None}

    def see(self, entry: Entry) -> None:
        """Process the next entry; add its violations to `violations`."""
        kind = type(entry.event)
        watching = self._watching.get(kind)
        if watching is None:
            checkers = [checker for checker in self._checkers if kind in getattr(checker, "watches", (kind,))]
            watching = self._watching[kind] = [(checker.name, checker.see) for checker in checkers]
        for name, see in watching:
            for detail in see(entry):
                self.violations.append(Violation(name, detail, entry.node, entry.node_seq, entry.mono_us))


def check(history: Iterable[Entry]) -> list[Violation]:
    """Return every violation in a history, in order of appearance."""
    watchdog = Watchdog()
    for entry in history:
        watchdog.see(entry)
    return watchdog.violations
