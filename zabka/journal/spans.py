"""Spans: how long each part of a cluster was in one state, computed by a fold together with the cluster's state.

At every event each row has the value that the folded state gives it (`cells`). A span is the longest run of events
during which that value stays the same. It begins at the time (`ClusterState.at_us`) of the event that set the value,
and ends when the next span begins or when the row is removed. The rows are grouped in lanes:

- `controller`: `active`, `dead` (the controller is killed or paused, and its session still owns /controller) or
  `nobody`; the value contains the broker, its controller epoch and the cause of the controller's loss.
- `belief:broker-N`: the controller in that broker's last report is `right`, `stale` or `ahead`, compared with what the
  ensemble knows; `silent` while the broker is down or paused, or has not reported yet.
- `isr:TOPIC-P`, one row per replica: `leader`, `in_sync` or `out` of the ISR as the controller last wrote it, `gone`
  while its broker's process is down; and a separate row, `leaderless`, while there is no live leader.
- `peer:N`: its role (`DOWN` while its process is down), with its phase and epochs.
- `process:NODE`: `running`, `paused`, `down` or `unknown`.
- `group:ID`: the consumer group is `stable`, `rebalancing` or `empty` as its coordinator last reported it; `silent`
  while that broker is down or paused. The value contains the coordinator, and the generation unless it rebalances.
- `faults`, one row per fault: its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from zabka.journal import events as e
from zabka.journal.cluster_state import BrokerView, ClusterState, FaultView, PartitionView, PeerView
from zabka.journal.events import Entry, Event
from zabka.journal.fold import apply

NO_REPLICA = -1
"""Replica number of the row `leaderless` in an ISR lane, which is about the partition and not about a replica."""


class Row(NamedTuple):
    """A row: a lane, and a replica or fault in that lane (empty if the lane has one row)."""

    lane: str
    of: str = ""


class Cell(NamedTuple):
    """State of a row at one time. `value` is JSON."""

    state: str
    value: Any = None


class Span(msgspec.Struct, frozen=True, array_like=True):
    """State of a row during an interval.

    `to_us` is None until the span ends. `seq` is the sequence number of the event that started it.
    """

    lane: str
    of: str
    from_us: int
    to_us: int | None
    state: str
    value: Any
    seq: int


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """Time and sequence number of the event that started a row's current span."""

    lane: str
    of: str
    from_us: int
    seq: int


CONTROLLER = Row("controller")
_DEAD = frozenset({"down", "paused"})
_MUTE = frozenset({"down", "paused", "unknown"})
_AT_REST = frozenset({"Stable", "Empty"})
"""States of a group that does not rebalance."""
_ABOUT_NODES: frozenset[type[Event]] = frozenset(
    {
        e.NodeStarted, e.NodeStopped, e.ProcessChanged, e.FaultInjected, e.FaultRemoved, e.PeerStateChanged,
        e.EpochAccepted, e.EpochAdopted, e.ZxidCheckpoint, e.BrokerRegistered, e.BrokerSessionChanged,
        e.ControllerBelieved, e.ControllerResigned, e.WriteFenced, e.RequestFenced,
    }
)  # fmt: skip
"""Event types that can change the state of a node, or be the first event of a node."""
_ABOUT_A_PARTITION: frozenset[type[Event]] = frozenset({e.LeaderElected, e.AssignmentChanged, e.IsrChanged})
_ABOUT_A_TOPIC: frozenset[type[Event]] = frozenset({e.TopicCreated, e.TopicDeleted})


# ---- the rows of a state ---------------------------------------------------------------------------------------------


def cells(state: ClusterState) -> dict[Row, Cell]:
    """Return the current cell of every row: the controller, nodes, partitions and consumer groups."""
    found = {CONTROLLER: _controller(state)}
    found.update(_nodes(state))
    for partition in state.partitions.values():
        found.update(_partition(state, partition))
    found.update({_group_row(group_id): _group(state, group) for group_id, group in state.groups.items()})
    return found


def _controller(state: ClusterState) -> Cell:
    if state.controller_id < 0 or not state.controller_terms:
        return Cell("none")
    term = state.controller_terms[-1]
    held = {"broker_id": term.broker_id, "controller_epoch": term.controller_epoch}
    if term.holder_lost_us is None:
        return Cell("active", held)
    return Cell("dead", {**held, "lost_by": term.holder_lost_by})


def _nodes(state: ClusterState) -> Iterator[tuple[Row, Cell]]:
    for peer in state.peers.values():
        yield Row(f"peer:{peer.id}"), _peer(peer)
        yield Row(f"process:peer-{peer.id}"), Cell(peer.process)
    for broker in state.brokers.values():
        yield Row(f"belief:broker-{broker.id}"), _belief(state, broker)
        yield Row(f"process:broker-{broker.id}"), Cell(broker.process)
    for fault in state.faults.values():
        yield Row("faults", fault.fault_id), _fault(fault)


def _peer(peer: PeerView) -> Cell:
    if peer.process == "down":
        return Cell("DOWN", {"phase": None, "accepted_epoch": peer.accepted_epoch, "epoch": peer.current_epoch})
    return Cell(peer.state, {"phase": peer.phase, "accepted_epoch": peer.accepted_epoch, "epoch": peer.current_epoch})


def _belief(state: ClusterState, broker: BrokerView) -> Cell:
    reported = {"controller_id": broker.believed_controller_id, "controller_epoch": broker.believed_controller_epoch}
    if broker.process in _MUTE or not broker.believed_since_us:
        return Cell("silent", reported)
    if broker.believed_controller_epoch > state.controller_epoch:
        return Cell("ahead", reported)
    # If there is no controller, a broker that knows no controller is right, whatever the last controller epoch was.
    right = broker.believed_controller_id == state.controller_id and (
        state.controller_id < 0 or broker.believed_controller_epoch == state.controller_epoch
    )
    return Cell("right" if right else "stale", reported)


def _group_row(group_id: str) -> Row:
    return Row(f"group:{group_id}")


def _group(state: ClusterState, group: e.GroupChanged) -> Cell:
    coordinator = {"coordinator": group.broker_id}
    if _process_of(state, group.broker_id) in _DEAD:
        return Cell("silent", coordinator)
    if group.state not in _AT_REST:
        return Cell("rebalancing", coordinator)
    value = {**coordinator, "generation": group.generation_id, "members": len(group.members)}
    return Cell(group.state.lower(), value)


def _fault(fault: FaultView) -> Cell:
    return Cell(fault.kind, msgspec.to_builtins(fault))


def _partition(state: ClusterState, partition: PartitionView) -> Iterator[tuple[Row, Cell]]:
    if not partition.replicas:
        # Only replicas have reported the partition. The controller has not written its state yet.
        return
    lane = f"isr:{partition.topic}-{partition.partition}"
    for replica in partition.replicas:
        role = "leader" if replica == partition.leader else "in_sync" if replica in partition.isr else "out"
        value = {"replica": replica, "role": role, "leader_epoch": partition.leader_epoch}
        gone = _process_of(state, replica) == "down"
        yield Row(lane, str(replica)), Cell("gone" if gone else role, value)
    if partition.leader < 0 or _process_of(state, partition.leader) in _DEAD:
        yield Row(lane, str(NO_REPLICA)), Cell("leaderless", {"replica": NO_REPLICA, "leader": partition.leader})


def _process_of(state: ClusterState, broker_id: int) -> str:
    broker = state.brokers.get(broker_id)
    return "unknown" if broker is None else broker.process


# ---- the fold --------------------------------------------------------------------------------------------------------


class Spans:
    """Folds a history into a state and its spans."""

    def __init__(self, state: ClusterState | None = None, begun: list[Begun] | None = None) -> None:
        """Continue from a state and the starts of its open spans. By default, start before the first event."""
        self.state = state or ClusterState()
        self._closed: list[Span] = []
        self._open: dict[Row, tuple[Cell, int, int]] = {}
        self._faults: tuple[str, ...] = ()
        self._processes: dict[int, str] = {}
        self._rows_of: dict[str, list[Row]] = {}
        if begun:
            since = {Row(each.lane, each.of): (each.from_us, each.seq) for each in begun}
            at = (self.state.at_us, self.state.seq)
            for row, cell in cells(self.state).items():
                self._open[row] = (cell, *since.get(row, at))
            self._note_rows()

    def _note_rows(self) -> None:
        self._faults = tuple(self.state.faults)
        self._processes = {broker.id: broker.process for broker in self.state.brokers.values()}
        for row in self._open:
            if row.lane.startswith("isr:"):
                self._rows_of.setdefault(row.lane, []).append(row)

    def apply(self, entry: Entry) -> None:
        """Apply the next entry of the history."""
        state, kind = self.state, type(entry.event)
        term_before = (state.controller_id, state.controller_epoch)
        faults = len(state.faults)
        apply(state, entry)
        self._set(CONTROLLER, _controller(state))
        # Update the nodes if the entry may have changed them. If a paused node writes an event, its pause has ended.
        if (
            kind in _ABOUT_NODES
            or faults != len(state.faults)
            or term_before != (state.controller_id, state.controller_epoch)
        ):
            self._look_at_nodes()
        if kind in _ABOUT_A_PARTITION:
            event: Any = entry.event
            self._look_at_partition(event.topic, event.partition)
        elif kind in _ABOUT_A_TOPIC:
            self._look_at_topic(entry.event)
        elif isinstance(entry.event, e.GroupChanged):
            self._look_at_group(entry.event.group_id)

    def _look_at_nodes(self) -> None:
        state = self.state
        for row, cell in _nodes(state):
            self._set(row, cell)
        for fault_id in self._faults:
            if fault_id not in state.faults:
                self._end(Row("faults", fault_id))
        self._faults = tuple(state.faults)
        processes = {broker.id: broker.process for broker in state.brokers.values()}
        if processes != self._processes:
            self._processes = processes
            for partition in list(state.partitions.values()):
                self._look_at_partition(partition.topic, partition.partition)
            for group_id in state.groups:
                self._look_at_group(group_id)

    def _look_at_group(self, group_id: str) -> None:
        row, group = _group_row(group_id), self.state.groups.get(group_id)
        if group is not None:
            self._set(row, _group(self.state, group))
        elif row in self._open:
            self._end(row)

    def _look_at_topic(self, event: Any) -> None:
        lanes = [lane for lane in self._rows_of if lane.rpartition("-")[0] == f"isr:{event.topic}"]
        numbers = [int(lane.rpartition("-")[2]) for lane in lanes]
        for number in dict.fromkeys((*numbers, *sorted(getattr(event, "assignment", {})))):
            self._look_at_partition(event.topic, number)

    def _look_at_partition(self, topic: str, number: int) -> None:
        lane = f"isr:{topic}-{number}"
        partition = self.state.partitions.get(f"{topic}-{number}")
        now = {} if partition is None else dict(_partition(self.state, partition))
        for row in self._rows_of.pop(lane, ()):
            if row not in now:
                self._end(row)
        if now:
            self._rows_of[lane] = list(now)
        for row, cell in now.items():
            self._set(row, cell)

    def _set(self, row: Row, cell: Cell) -> None:
        before = self._open.get(row)
        if before is None or before[0] != cell:
            if before is not None:
                self._end(row)
            self._open[row] = (cell, self.state.at_us, self.state.seq)

    def _end(self, row: Row) -> None:
        cell, from_us, seq = self._open.pop(row)
        self._closed.append(Span(*row, from_us, self.state.at_us, *cell, seq))

    def take_closed(self) -> list[Span]:
        """Return the spans that ended since the last call, in order of their ends."""
        closed, self._closed = self._closed, []
        return closed

    def lasting(self) -> list[Span]:
        """Return the spans that have not ended."""
        return [Span(*row, from_us, None, *cell, seq) for row, (cell, from_us, seq) in self._open.items()]

    def begun(self) -> list[Begun]:
        """Return the starts of the spans that have not ended.

        Another `Spans` that gets them can continue from this state.
        """
        return [Begun(*row, from_us, seq) for row, (_, from_us, seq) in self._open.items()]
