"""Measures failovers: from the loss of a process until another process has taken over its role."""

from __future__ import annotations

import msgspec

from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.pipeline.campaign.partition_times import PartitionClock

CONTROLLER, PARTITION = "controller", "partition"
ELECTED, RETURNED = "elected", "returned"
TAKES = frozenset(
    [
        e.BrokerRegistered, e.EphemeralCreated, e.SessionClosed, e.ControllerElected, e.ControllerReady,
        e.LeaderElected, e.LeadershipTaken, e.TopicDeleted,
    ]
)  # fmt: skip
"""Event types that this module evaluates."""


class Failover(msgspec.Struct):
    """One failover. Times are milliseconds since the loss of the process, or None if the journal has no such event.

    `ended_by` is elected (another process took over), returned (the lost process came back first and continues) or None
    (the history, the controller term, or the topic ended first, so only a lower bound of the duration is known).
    """

    kind: str
    subject: str
    lost: str
    cause: str
    began_us: int
    detect_ms: float | None = None
    """Time until the session of the lost process was closed."""
    elect_ms: float | None = None
    """Time until another process was elected as controller or partition leader."""
    total_ms: float | None = None
    """Time until the new controller is ready, or until the new partition leader has taken over its partition."""
    ended_by: str | None = None


class Failovers:
    """Finds every failover that the loss of a process caused.

    A live leader that is partitioned from the ensemble does not count, because no journal records when its clients were
    first affected.
    """

    def __init__(self, clock: PartitionClock) -> None:
        self._clock = clock
        self.found: list[Failover] = []
        self._open: dict[str, Failover] = {}
        self._deposed: set[str] = set()
        """Subjects (controller or partition) of open failovers in which the failed process has lost its role.

        The role is that of the controller or of the partition's leader.
        """
        self._controller = -1
        self._sessions: dict[int, int] = {}

    def lost(self, node: str, cause: str, at_us: int) -> None:
        """Record that a process was lost."""
        role, _, number = node.partition("-")
        if role != "broker":
            return
        broker = int(number)
        if broker == self._controller:
            self._begin(Failover(CONTROLLER, "controller", node, cause, at_us))
        for name in self._clock.led_by(broker):
            self._begin(Failover(PARTITION, name, node, cause, at_us))

    def _begin(self, failover: Failover) -> None:
        # If the successor is lost before it has taken over, the same outage continues.
        if failover.subject not in self._open:
            self._deposed.discard(failover.subject)
            self._open[failover.subject] = failover
            self.found.append(failover)

    def see(self, entry: Entry) -> None:
        """Process the next entry. `PartitionClock` must have processed it before."""
        event = entry.event
        if type(event) not in TAKES:
            return
        if isinstance(event, e.BrokerRegistered):
            self._sessions[event.session_id] = event.broker_id
        elif isinstance(event, e.EphemeralCreated) and event.path.startswith("/brokers/ids/"):
            self._sessions[event.session_id] = int(event.path.rpartition("/")[2])
        elif isinstance(event, e.SessionClosed):
            self._closed(entry, event)
        elif isinstance(event, e.ControllerElected):
            self._controller_elected(entry, event)
        elif isinstance(event, e.ControllerReady):
            self._end("controller", f"broker-{event.broker_id}", entry.mono_us)
        elif isinstance(event, e.LeaderElected):
            self._leader_elected(entry, event)
        elif isinstance(event, e.LeadershipTaken):
            self._end(f"{event.topic}-{event.partition}", f"broker-{event.broker_id}", entry.mono_us)
        elif isinstance(event, e.TopicDeleted):
            # Drop open failovers of the topic, because a topic that is created later with the same name is another
            # topic.
            for subject in [subject for subject in self._open if subject.rpartition("-")[0] == event.topic]:
                del self._open[subject]

    def went_on(self, node: str) -> None:
        """Record that a paused process resumed. It still has the roles that no other process took during the pause.

        A leader whose partition now has no leader, or a controller without a session, does not get its role back.
        """
        for subject, failover in list(self._open.items()):
            if failover.lost == node and subject not in self._deposed:
                failover.ended_by = RETURNED
                del self._open[subject]

    def _closed(self, entry: Entry, event: e.SessionClosed) -> None:
        broker = self._sessions.get(event.session_id)
        for failover in self._open.values():
            if failover.lost == f"broker-{broker}" and failover.detect_ms is None:
                failover.detect_ms = _ms(failover, entry.mono_us)
                if failover.kind == CONTROLLER:
                    # The znode /controller was deleted with the controller's session.
                    self._deposed.add(failover.subject)

    def _leader_elected(self, entry: Entry, event: e.LeaderElected) -> None:
        subject = f"{event.topic}-{event.partition}"
        failover = self._open.get(subject)
        if failover is not None and failover.lost != f"broker-{event.leader}":
            self._deposed.add(subject)
        if failover is not None and failover.elect_ms is None and event.leader >= 0:
            failover.elect_ms = _ms(failover, entry.mono_us)

    def _controller_elected(self, entry: Entry, event: e.ControllerElected) -> None:
        self._controller = event.broker_id
        failover = self._open.get("controller")
        if failover is not None and failover.lost != f"broker-{event.broker_id}":
            self._deposed.add("controller")
        if failover is not None and failover.elect_ms is None:
            failover.elect_ms = _ms(failover, entry.mono_us)

    def _end(self, subject: str, node: str, at_us: int) -> None:
        failover = self._open.pop(subject, None)
        if failover is not None:
            failover.total_ms = _ms(failover, at_us)
            failover.ended_by = RETURNED if failover.lost == node else ELECTED


def _ms(failover: Failover, at_us: int) -> float:
    return (at_us - failover.began_us) / 1000
