"""Incidents. An incident is a first cause, such as a fault, with everything that resulted from it.

Theory of operation
===================

Each decision in a journal names its cause, and `causes` follows these references to the first cause. An incident is a
first cause together with the decisions that lead back to it:

    fault → detection → expiry of sessions → failover of the controller → partitions without a leader → lost records.

A chain that ends at the start of a node continues with the fault that stopped this node, because the actions of the
restarted node are part of the same incident. A chain that ends at a timer, because the journals do not show why a node
was silent, begins an incident at that decision. A request is a first cause of an incident only if it left a partition
without a leader or lost records. A fault without any effect is not an incident. The stop of a whole cluster and the
deletion of a topic are not incidents either.

No journal links the waiting time of a client to its cause: workloads only report how long their writes waited. The
waiting time is assigned to the incident that affected partitions of the workload's topic for the longest part of it.

Times are the `wall_us` of the entries. The table `incidents` and `zabka pipeline show incidents` use this module, with
entries whose `wall_us` is the time on the common clock of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from zabka.journal import events as e
from zabka.journal.causes import Causes, End
from zabka.journal.cluster_state import Loss
from zabka.journal.controller_gaps import gap_before
from zabka.journal.event import Level, TopicPartition, snake
from zabka.journal.events import BY_NAME, Entry, Event
from zabka.journal.losses import LostRecords, covered, lost_by_partition
from zabka.journal.sentences import Sentences
from zabka.journal.spans import NO_REPLICA, Spans

SHOWN_MAX = 10
"""Maximum number of partitions that a sentence lists."""
_PROGRESS = (e.ReplicaProgressed, e.ZxidCheckpoint, e.ConsumerProgressed, e.SnapshotTaken, e.GroupChanged)
KINDS = tuple(name for name, kind in BY_NAME.items() if kind.level is Level.NORMAL and not issubclass(kind, _PROGRESS))
"""Event types from which incidents are computed: all types of the normal level, except reports of progress."""
_STOPPED = ("down", "paused")
_STOPS = ("crash", "power_loss", "pause")
_ACKNOWLEDGING = ("all", "1")
_DETECTS = (
    e.SessionExpired, e.SessionClosed, e.IsrProposed, e.IsrChanged, e.LeaderElected, e.ControllerResigned,
    e.PeerStateChanged,
)  # fmt: skip
_ORDERLY = ("stop", "restart")
HOST_SHUTDOWN = "shutdown of the host agent"
"""Value of `ProcessChanged.requester` when a host agent stops all processes of its host."""
_EFFECTS = (*_DETECTS, e.ControllerElected, e.LeaderEstablished, e.RecordsLost)


class Expiry(NamedTuple):
    """A broker whose session expired, and the time when the ensemble's leader declared it expired."""

    node: str
    at_us: int


class Failover(NamedTuple):
    """A change of the controller. `gap_us` is the time without a controller; None if no journal reports it."""

    previous_broker_id: int
    broker_id: int
    controller_epoch: int
    gap_us: int | None
    at_us: int


class Outage(NamedTuple):
    """A period in which a partition had no live leader; `to_us` is None until it ends."""

    partition: str
    from_us: int
    to_us: int | None


class Removal(NamedTuple):
    """The removal of a replica from an ISR. `to_us` is the time when the replica rejoined, None until then."""

    partition: str
    replica: int
    from_us: int
    to_us: int | None

    def lasts_at(self, at_us: int) -> bool:
        """Return whether the replica was outside the ISR at that time."""
        return self.from_us < at_us and (self.to_us is None or at_us <= self.to_us)


class Stall(NamedTuple):
    """A period in which a workload waited for a write, and the number of records that failed.

    The workload reports it as `WorkloadProgressed.waited_ms`.
    """

    workload_id: str
    topic: str
    acks: str
    from_us: int
    to_us: int | None
    failed: int


class Missing(NamedTuple):
    """Acknowledged records of a topic that a workload did not find when it read its records back."""

    topic: str
    span: e.LostSpan

    def count_in(self, losses: Iterable[Loss]) -> int:
        """Return an upper bound for how many of these missing records are among the lost records in `losses`.

        A range of lost offsets can also contain records that are not missing here.
        """
        span = self.span
        own = (loss for loss in losses if (loss.topic, loss.partition) == (self.topic, span.partition))
        shared = [
            (max(span.first_offset, each.first_offset), min(span.last_offset, each.last_offset) + 1) for each in own
        ]
        return min(span.count, covered([(first, end) for first, end in shared if first < end]))

    def without(self, count: int) -> Missing:
        """Return a copy in which the number of missing records is reduced by `count`."""
        return self._replace(span=msgspec.structs.replace(self.span, count=self.span.count - count))


class Incident(msgspec.Struct):
    """A first cause and its effects. `detected` is the first decision of another node that resulted from it."""

    number: int
    cause: Entry
    until_us: int
    """Time of the last decision whose chain of causes leads back to the root cause."""
    detected: Entry | None = None
    expiries: list[Expiry] = []
    failovers: list[Failover] = []
    outages: list[Outage] = []
    removals: list[Removal] = []
    unclean: list[str] = []
    """Partitions whose leader was elected in an unclean election."""
    stalls: list[Stall] = []
    losses: list[Loss] = []
    requester: str = ""
    """Name of the requester of the fault or stop; empty if no journal reports it."""
    acknowledged: int | None = None
    """Number of lost records that brokers had acknowledged to workloads; None if no workload wrote to these topics."""

    @property
    def from_us(self) -> int:
        """Time when the incident began."""
        return self.cause.wall_us

    @property
    def to_us(self) -> int | None:
        """Time when leaders, controller, ISRs and clients had all recovered; None if any of them has not."""
        ends = [outage.to_us for outage in self.outages]
        ends += [removal.to_us for removal in self.removals]
        ends += [stall.to_us for stall in self.stalls]
        known = [end for end in ends if end is not None]
        return max([self.until_us, *known]) if len(known) == len(ends) else None

    @property
    def lost(self) -> dict[str, LostRecords]:
        """Lost records of each partition."""
        return lost_by_partition(self.losses, {})


def incidents(entries: Sequence[Entry]) -> list[Incident]:
    """Return the incidents of a history, in the order of their first causes.

    `entries` must be in the order of the history.
    """
    history = _History(entries)
    return history.incidents()


class _Decided(NamedTuple):
    """A decision and its first cause. `recovers` is true if the chain contains the restart of a stopped node."""

    entry: Entry
    root: Entry
    end: End
    recovers: bool


class _History:
    """One pass over a history. It collects decisions, outages, ISR removals and waits; `incidents` combines them."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._causes = Causes()
        self._spans = Spans()
        self._owners: dict[int, str] = {}
        self._stops: dict[str, list[Entry]] = {}
        self._orderly: dict[str, list[Entry]] = {}
        """Requested stops and restarts of each node, as the agent of its host reports them."""
        self._deleted: set[tuple[str, int]] = set()
        """Deleted topics, each as a pair of its name and the time when it was deleted."""
        self._effects: list[Entry] = []
        self._removals: list[tuple[Entry, Removal]] = []
        self._losses: dict[tuple[str, int], Loss] = {}
        self._workloads: dict[str, _Workload] = {}
        self._found: dict[tuple[str, int], Incident] = {}
        for place, entry in enumerate(entries):
            self._see(msgspec.structs.replace(entry, seq=place + 1))

    def _see(self, entry: Entry) -> None:
        event = entry.event
        self._causes.see(entry)
        isr = self._isr_of(event)
        self._spans.apply(entry)
        if isinstance(event, _EFFECTS):
            self._effects.append(entry)
        match event:
            case e.BrokerRegistered(broker_id=number, session_id=session_id):
                self._owners[session_id] = f"broker-{number}"
            case e.ProcessChanged(target=node, process=process) if process in _STOPPED:
                self._stops.setdefault(node, []).append(entry)
                if event.action in _ORDERLY:
                    self._orderly.setdefault(node, []).append(entry)
            case e.FaultInjected(kind=kind, target=node, source=source) if kind in _STOPS and source == node:
                self._stops.setdefault(node, []).append(entry)
            case e.LeaderElected() | e.IsrChanged():
                self._note_isr(entry, f"{event.topic}-{event.partition}", isr, event.isr)
            case e.TopicDeleted(topic=topic):
                self._deleted.add((topic, entry.wall_us))
                for place, (by, removal) in enumerate(self._removals):
                    if removal.to_us is None and removal.partition.rpartition("-")[0] == topic:
                        self._removals[place] = (by, removal._replace(to_us=entry.wall_us))
            case e.RecordsLost():
                self._losses[entry.node, entry.node_seq] = self._spans.state.losses[-1]
            case e.WorkloadProgressed():
                self._workloads.setdefault(event.workload_id, _Workload(event)).see(entry.wall_us, event)

    def _isr_of(self, event: Event) -> list[int]:
        """Return the partition's ISR before the event.

        If the event is a write that was logged late, return the ISR in the event, so that the event changes nothing.
        """
        if not isinstance(event, e.LeaderElected | e.IsrChanged):
            return []
        view = self._spans.state.partitions.get(str(TopicPartition(event.topic, event.partition)))
        return [] if view is None else view.isr if view.partition_epoch < event.partition_epoch else event.isr

    def _note_isr(self, entry: Entry, partition: str, before: Sequence[int], isr: Sequence[int]) -> None:
        for place, (by, removal) in enumerate(self._removals):
            if removal.partition == partition and removal.to_us is None and removal.replica in isr:
                self._removals[place] = (by, removal._replace(to_us=entry.wall_us))
        for replica in before:
            if replica not in isr:
                self._removals.append((entry, Removal(partition, replica, entry.wall_us, None)))

    # ---- first causes -----------------------------------------------------------------------------------------

    def _decided(self, entry: Entry) -> _Decided:
        chain = self._causes.chain(entry)
        last, recovers = chain.steps[-1], False
        event = last.event
        back = (
            last.node if isinstance(event, e.NodeStarted)
            else event.target if isinstance(event, e.ProcessChanged) and event.process not in _STOPPED
            else None
        )  # fmt: skip
        if back is not None:
            stops = [stop for stop in self._stops.get(back, ()) if self._causes.place(stop) < self._causes.place(last)]
            last, recovers = (stops[-1], True) if stops else (last, False)
        end = End.FAULT if last in self._stops.get(back or "", ()) else chain.end
        return _Decided(entry, last, end, recovers)

    def _incident(self, decided: _Decided) -> Incident:
        """Return the incident of the decision's root cause; create it if it does not exist.

        Extend the incident so that it lasts at least until the time of the decision.
        """
        root = decided.root
        key = (root.node, root.node_seq)
        if key not in self._found:
            self._found[key] = Incident(0, root, root.wall_us, requester=self._requester(root))
        found = self._found[key]
        found.until_us = max(found.until_us, decided.entry.wall_us)
        return found

    def _requester(self, root: Entry) -> str:
        """Return the requester of a fault or of the orderly stop of a node.

        The agent of a node's host reports the stop after the node itself has reported it.
        """
        event = root.event
        if isinstance(event, e.NodeStopped):
            place = self._causes.place(root)
            stops = [stop for stop in self._orderly.get(root.node, ()) if self._causes.place(stop) > place]
            event = stops[0].event if stops else event
        return event.requester if isinstance(event, e.FaultInjected | e.ProcessChanged) else ""

    def _is_candidate(self, decided: _Decided) -> bool:
        """Return whether a decision with this first cause can be part of an incident."""
        event = decided.root.event
        if isinstance(event, e.FaultInjected):
            return True
        if isinstance(event, e.ProcessChanged):
            return event.process in _STOPPED
        if isinstance(decided.entry.event, e.PeerStateChanged | e.LeaderEstablished):
            # The formation of an ensemble is not an incident.
            return False
        return decided.end in (End.TIMER, End.UNKNOWN, End.FAULT)

    # ---- the incidents ----------------------------------------------------------------------------------------

    def incidents(self) -> list[Incident]:
        """Return the incidents, numbered from 1."""
        self._add_outages()
        self._add_effects()
        self._add_removals()
        self._join_returns()
        self._add_failovers()
        self._add_stalls()
        found = [each for each in self._found.values() if _matters(each)]
        self._add_acknowledged(found)
        found.sort(key=lambda each: self._causes.place(each.cause))
        for number, each in enumerate(found, start=1):
            each.number = number
            each.outages.sort(key=lambda outage: (outage.from_us - (outage.to_us or self._end_us), outage.partition))
        return found

    @property
    def _end_us(self) -> int:
        return self._spans.state.at_us

    def _add_outages(self) -> None:
        open_since: dict[str, tuple[int, int, int | None]] = {}
        whole: list[tuple[str, tuple[int, int, int | None]]] = []
        rows = [*self._spans.take_closed(), *self._spans.lasting()]
        for span in sorted((row for row in rows if row.of == str(NO_REPLICA)), key=lambda row: (row.from_us, row.seq)):
            before = open_since.get(span.lane)
            if before is not None and before[2] == span.from_us:
                # The leader was already down when the controller wrote that there is no leader, so this is the same
                # outage.
                open_since[span.lane] = (before[0], before[1], span.to_us)
                continue
            if before is not None:
                whole.append((span.lane, before))
            open_since[span.lane] = (span.seq, span.from_us, span.to_us)
        for lane, (seq, from_us, to_us) in (*whole, *open_since.items()):
            begun = self._entries[seq - 1]
            # Skip new partitions, which have no leader yet.
            if (to_us is None or to_us > from_us) and not isinstance(begun.event, e.TopicCreated | e.AssignmentChanged):
                decided = self._decided(begun)
                partition = lane.removeprefix("isr:")
                is_deleted = to_us is not None and (partition.rpartition("-")[0], to_us) in self._deleted
                if not (is_deleted and decided.end is End.REQUEST):
                    self._incident(decided).outages.append(Outage(partition, from_us, to_us))

    def _add_effects(self) -> None:
        for entry in self._effects:
            decided = self._decided(entry)
            loss = self._losses.get((entry.node, entry.node_seq))
            if loss is None and not self._is_candidate(decided):
                continue
            event = entry.event
            if isinstance(event, e.SessionExpired) and self._owners.get(event.session_id) is None:
                continue
            found = self._incident(decided)
            if loss is not None:
                found.losses.append(loss)
            if isinstance(event, e.SessionExpired):
                found.expiries.append(Expiry(self._owners[event.session_id], entry.wall_us))
            elif isinstance(event, e.LeaderElected) and event.unclean:
                found.unclean.append(f"{event.topic}-{event.partition}")
            is_of_itself = entry.node == getattr(decided.root.event, "target", "")
            detects = isinstance(event, _DETECTS) and not decided.recovers and entry is not decided.root
            if found.detected is None and detects and not is_of_itself:
                found.detected = entry

    def _add_removals(self) -> None:
        for entry, removal in self._removals:
            decided = self._decided(entry)
            if self._is_candidate(decided):
                self._incident(decided).removals.append(removal)

    def _join_returns(self) -> None:
        """Merge an incident that is only an ISR removal into the incident that keeps the same replica out of other
        ISRs.

        The removal followed a timer, and no journal contains a link to the other incident. The two incidents belong
        together because the replica had left other ISRs in the other incident, and had not rejoined them at the time of
        the removal.
        """
        for key, each in list(self._found.items()):
            if not isinstance(each.cause.event, e.IsrProposed) or each.outages or not each.removals:
                continue
            replicas = {removal.replica for removal in each.removals}
            for other in self._found.values():
                if other is not each and any(
                    removal.replica in replicas and removal.lasts_at(each.from_us) for removal in other.removals
                ):
                    other.removals += each.removals
                    other.until_us = max(other.until_us, each.until_us)
                    del self._found[key]
                    break

    def _add_failovers(self) -> None:
        terms = self._spans.state.controller_terms
        elected = {entry.event.controller_epoch: entry for entry in self._effects
                   if isinstance(entry.event, e.ControllerElected)}  # fmt: skip
        for place, term in enumerate(terms):
            entry = elected.get(term.controller_epoch)
            if place == 0 or entry is None:
                continue
            decided = self._decided(entry)
            if self._is_candidate(decided):
                gap = gap_before(terms, place)
                gap_us = None if gap is None else gap.total_us
                made = Failover(
                    terms[place - 1].broker_id, term.broker_id, term.controller_epoch, gap_us, term.since_us
                )
                self._incident(decided).failovers.append(made)

    def _add_stalls(self) -> None:
        for workload in self._workloads.values():
            for stall in workload.stalls():
                to_us = self._end_us if stall.to_us is None else stall.to_us
                best = max(
                    self._found.values(),
                    key=lambda each: _shared_us(each, stall.topic, stall.from_us, to_us),
                    default=None,
                )
                if best is not None and _shared_us(best, stall.topic, stall.from_us, to_us) > 0:
                    best.stalls.append(stall)

    def _add_acknowledged(self, found: Iterable[Incident]) -> None:
        """Count how many of the lost records were acknowledged. An offset that was lost twice counts for the first
        incident.
        """
        last = [report for each in self._workloads.values() if (report := each.last).acks in _ACKNOWLEDGING]
        topics = {report.topic for report in last}
        missing = [Missing(report.topic, span) for report in last for span in report.missing]
        for incident in found:
            if not topics.isdisjoint(loss.topic for loss in incident.losses):
                counts = [each.count_in(incident.losses) for each in missing]
                incident.acknowledged = sum(counts)
                missing = [each.without(count) for each, count in zip(missing, counts, strict=True)]


def _matters(incident: Incident) -> bool:
    """Return whether the incident is reported.

    It is reported if it caused an outage, a loss, a failover, an ISR removal or an expired session, or if another node
    reacted to an injected fault or to a change of a process.
    """
    if incident.requester == HOST_SHUTDOWN:
        return False
    if incident.outages or incident.losses or incident.failovers or incident.removals or incident.expiries:
        return True
    return isinstance(incident.cause.event, e.FaultInjected | e.ProcessChanged) and incident.detected is not None


def _shared_us(incident: Incident, topic: str, from_us: int, to_us: int) -> int:
    """Return the length of the time within this period during which the incident affected partitions of the topic."""
    ends = [(outage.partition, outage.to_us) for outage in incident.outages]
    ends += [(removal.partition, removal.to_us) for removal in incident.removals]
    affected = [end or to_us for partition, end in ends if partition.rpartition("-")[0] == topic]
    return max((min(to_us, end) - max(from_us, incident.from_us) for end in affected), default=0)


class _Workload:
    """The reports of a workload, and the periods in which it waited.

    Such a period is a sequence of reports with a growing `waited_ms`.
    """

    def __init__(self, first: e.WorkloadProgressed) -> None:
        self.last = first
        """The workload's last report."""
        self._last = msgspec.structs.replace(first, waited_ms=0, failed=0)
        self._open: Stall | None = None
        self._stalls: list[Stall] = []

    def see(self, at_us: int, report: e.WorkloadProgressed) -> None:
        """Add a report of the workload."""
        self.last = report
        grown_us, failed = 1000 * (report.waited_ms - self._last.waited_ms), report.failed - self._last.failed
        if report.waited_ms < 0:
            # Reports of older versions do not contain the waiting time.
            return
        self._last = report
        if grown_us > 0 and self._open is None:
            self._open = Stall(report.workload_id, report.topic, report.acks, at_us - grown_us, at_us, failed)
        elif self._open is not None:
            to_us = at_us if grown_us > 0 else self._open.to_us
            self._open = self._open._replace(to_us=to_us, failed=self._open.failed + failed)
            if grown_us <= 0:
                self._stalls.append(self._open)
                self._open = None

    def stalls(self) -> Iterator[Stall]:
        """Yield the periods in which the workload waited.

        The last period has not ended if a record still has no reply.
        """
        yield from self._stalls
        if self._open is not None:
            is_waiting = self._last.sent > self._last.acknowledged + self._last.failed
            yield self._open._replace(to_us=None) if is_waiting else self._open


# ---- as text -----------------------------------------------------------------------------------------------------


def headline(incident: Incident, sentences: Sentences) -> str:
    """Return a headline with the time and the root cause of an incident."""
    cause = incident.cause
    sentence = sentences.sentence(cause.node, cause.event)
    return f"{_time(cause.wall_us)} {sentence} ({cause.node}#{cause.node_seq})"


def summary(incident: Incident, sentences: Sentences) -> list[str]:
    """Return sentences about an incident: requester, detection, expiry, failover, damage and recovery."""
    requested = [f"requested by {incident.requester}"] if incident.requester else []
    return [*requested, *_course(incident, sentences), *_damage(incident), _recovery(incident)]


def _course(incident: Incident, sentences: Sentences) -> Iterator[str]:
    if (by := incident.detected) is not None:
        sentence = sentences.sentence(by.node, by.event)
        yield f"detected after {_ms(by.wall_us - incident.from_us)} by {by.node}: {sentence} ({by.node}#{by.node_seq})"
    for expiry in incident.expiries:
        yield f"session of {expiry.node} expired after {_ms(expiry.at_us - incident.from_us)}"
    for failover in incident.failovers:
        gap = "" if failover.gap_us is None else f"no controller for {_ms(failover.gap_us)}; "
        change = f"broker {failover.broker_id} is controller after broker {failover.previous_broker_id}"
        yield f"{gap}{change} (controller epoch {failover.controller_epoch})"


def _damage(incident: Incident) -> Iterator[str]:
    by_length: dict[str, list[str]] = {}
    for outage in incident.outages:
        by_length.setdefault(_length(outage), []).append(outage.partition)
    for length, partitions in by_length.items():
        yield f"without a leader for {length}: {_listed(partitions)}"
    if incident.unclean:
        yield f"unclean elections: {_listed(incident.unclean)}"
    yield from _smaller_isrs(incident.removals)
    for stall in incident.stalls:
        failed = f", {stall.failed:,} records failed" if stall.failed else ""
        workload = f"workload {stall.workload_id} ({stall.topic}, acks={stall.acks})"
        yield f"clients: {workload} waited {_length(stall)}{failed}"
    if incident.lost:
        yield _lost(incident)


def _smaller_isrs(removals: Iterable[Removal]) -> Iterator[str]:
    """Yield a phrase for each broker that left ISRs, with the longest time that it was outside one of them.

    The phrase also lists the partitions of these ISRs.
    """
    of_replica: dict[int, list[Removal]] = {}
    for removal in removals:
        of_replica.setdefault(removal.replica, []).append(removal)
    for replica, own in of_replica.items():
        partitions = sorted({removal.partition for removal in own})
        longest = max(own, key=lambda row: math.inf if row.to_us is None else row.to_us - row.from_us)
        at_most = "at most " if len(own) > 1 and longest.to_us is not None else ""
        yield f"ISRs without broker {replica} for {at_most}{_length(longest)}: {_listed(partitions)}"


def _lost(incident: Incident) -> str:
    lost = incident.lost
    records, committed = (sum(getattr(each, name) for each in lost.values()) for name in LostRecords._fields)
    known = [f"at least {committed:,} of them committed"] if committed else []
    if incident.acknowledged:
        known.append(f"{incident.acknowledged:,} acknowledged to workloads")
    of_each = _listed(f"{each.records:,} of {name}" for name, each in lost.items())
    where = f" of {next(iter(lost))}" if len(lost) == 1 else ""
    return f"lost: {', '.join([f'{records:,} records{where}', *known])}" + ("" if where else f": {of_each}")


def _recovery(incident: Incident) -> str:
    if incident.to_us is None:
        return "not recovered yet"
    return f"recovered after {_ms(incident.to_us - incident.from_us)}"


def _length(span: Outage | Removal | Stall) -> str:
    return "a time that still lasts" if span.to_us is None else _ms(span.to_us - span.from_us)


def _listed(each: Iterable[str]) -> str:
    listed = list(each)
    more = f", and {len(listed) - SHOWN_MAX:,} more" if len(listed) > SHOWN_MAX else ""
    return ", ".join(listed[:SHOWN_MAX]) + more


def _ms(us: int) -> str:
    return f"{us // 1000:,} ms"


def _time(us: int) -> str:
    """Format a time as the time of day in UTC."""
    ms = us // 1000 % 86_400_000
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}Z"


def kind_of(incident: Incident) -> str:
    """Return the kind of the incident's first cause.

    It is the kind of the fault, the action on the process, or the type of the event.
    """
    event = incident.cause.event
    if isinstance(event, e.FaultInjected):
        return event.kind
    return event.action if isinstance(event, e.ProcessChanged) else snake(type(event).__name__)


def target_of(incident: Incident) -> str:
    """Return the node that the first cause affects; for a link, both of its nodes."""
    event = incident.cause.event
    if isinstance(event, e.FaultInjected) and event.source != event.target:
        return f"{event.source} {event.target}"
    if isinstance(event, e.FaultInjected | e.ProcessChanged):
        return event.target
    return incident.cause.node
