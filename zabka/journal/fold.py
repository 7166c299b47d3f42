"""Computes the cluster's state at any point of its history, as a fold over the entries before that point.

`apply` processes one entry; each handler assigns the values that the event states. To compute an earlier state, process
fewer entries. `api/web/fold.js` does the same in the dashboard; the journals of `tests/golden` check that both compute
the same states.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from zabka.journal import events as e
from zabka.journal.cluster_state import (
    BrokerView,
    ClusterState,
    ControllerTermView,
    FaultView,
    HeldOffsetView,
    Loss,
    PeerView,
    RoleView,
    TransactionView,
)
from zabka.journal.events import Entry, Event
from zabka.journal.losses import note_reached, note_report

CONTROLLER_TERMS_MAX = 1000
LOSSES_MAX = 1000
_STOPS_A_NODE = {"crash": "down", "power_loss": "down", "pause": "paused"}
"""Process states after faults of the simulated world, where no host agent reports the state of processes."""
_ENDS_WITH_A_START = frozenset({*_STOPS_A_NODE, "stop"})


def apply(state: ClusterState, entry: Entry) -> None:
    """Apply the next entry of the history."""
    if entry.seq > state.seq:
        state.seq = entry.seq
    if entry.wall_us > state.at_us:
        state.at_us = entry.wall_us
    if (
        state.controller_terms
        and state.controller_terms[-1].holder_lost_us is not None
        and entry.node == f"broker-{state.controller_id}"
    ):
        # A paused process writes nothing, so the controller's process is running again. (No other event reports that a
        # simulated process has resumed.)
        state.holder_back(state.controller_id)
    if state.faults:
        _unfreeze_writer(state, entry)
    handler = _HANDLERS.get(type(entry.event))
    if handler is not None:
        handler(state, entry, entry.event)


def fold(history: Iterable[Entry]) -> ClusterState:
    """Return the state after all entries of a history."""
    state = ClusterState()
    for entry in history:
        apply(state, entry)
    return state


_Handler = Callable[[ClusterState, Entry, Any], None]
_HANDLERS: dict[type[Event], _Handler] = {}


def _on(kind: type[Event]) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        _HANDLERS[kind] = handler
        return handler

    return register


_NODE_NUMBER = re.compile(r"[0-9]{1,10}")
"""Matches the number in a node's name. Ids have 31 bits, so a longer number is not the id of a node."""


def _node_id(node: str) -> tuple[str, int]:
    role, _, number = node.rpartition("-")
    return role, int(number) if _NODE_NUMBER.fullmatch(number) else -1


def _unfreeze_writer(state: ClusterState, entry: Entry) -> None:
    for fault in state.faults.values():
        if fault.kind == "pause" and fault.source == fault.target == entry.node:
            del state.faults[fault.fault_id]
            _process(state, entry, entry.node, "running", None, "resume")
            return


def _writing_peer(state: ClusterState, entry: Entry) -> PeerView:
    """Return the state of the peer that wrote the entry.

    If the peer is unknown because older lines of the history were removed, create it as running, with an unknown ZAB
    state.
    """
    number = _node_id(entry.node)[1]
    found = state.peers.get(number)
    if found is None:
        found = state.peers[number] = PeerView(number, state="UNKNOWN", phase="UNKNOWN", process="running")
    return found


def _named_broker(state: ClusterState, entry: Entry, broker_id: int) -> BrokerView:
    """Return the state of the broker that an entry is about.

    If the broker is unknown, create it: as running if it wrote the entry itself, otherwise with an unknown process
    state.
    """
    found = state.brokers.get(broker_id)
    if found is None:
        process = "running" if entry.node == f"broker-{broker_id}" else "unknown"
        found = state.brokers[broker_id] = BrokerView(broker_id, process=process)
    return found


@_on(e.NodeStarted)
def _node_started(state: ClusterState, entry: Entry, event: e.NodeStarted) -> None:
    for fault in [f for f in state.faults.values() if f.source == f.target == entry.node]:
        if fault.kind in _ENDS_WITH_A_START:
            del state.faults[fault.fault_id]
    if event.role == "peer":
        state.peers[event.id] = PeerView(event.id, state="LOOKING", process="running", pid=state.peer(event.id).pid)
    elif event.role == "broker":
        before = state.broker(event.id)
        state.brokers[event.id] = BrokerView(
            event.id,
            process="running",
            pid=before.pid,
            registered=before.registered,
            session_id=before.session_id,
            process_since_us=entry.wall_us,
        )
        for partition in state.partitions.values():
            # Discard the report that an offset is held back, because the broker's new process reports it again.
            if partition.held is not None and partition.held.broker_id == event.id:
                partition.held = None
        # The controller's previous process has ended, perhaps without an event, if the agent of its host ended at the
        # same time.
        state.holder_lost(event.id, entry.wall_us, "exited")


@_on(e.NodeStopped)
def _node_stopped(state: ClusterState, entry: Entry, event: e.NodeStopped) -> None:
    _process(state, entry, entry.node, "down", None, "stop")


@_on(e.ProcessChanged)
def _process_changed(state: ClusterState, entry: Entry, event: e.ProcessChanged) -> None:
    _process(state, entry, event.target, event.process, event.pid, event.action)


def _process(state: ClusterState, entry: Entry, node: str, process: str, pid: int | None, action: str) -> None:
    role, number = _node_id(node)
    if role == "peer":
        peer = state.peer(number)
        if (peer.process, process) == ("down", "running"):
            peer.state = "LOOKING"
        peer.process, peer.pid = process, pid
        if process == "down":
            # The peer's epochs and zxid are on its disk, so keep them. Its role, phase and leader ended with the
            # process.
            peer.state, peer.phase, peer.leader_id = "DOWN", "ELECTION", -1
            if state.zab_leader_id == number:
                state.zab_leader_id = -1
    elif role == "broker":
        broker = state.broker(number)
        if (broker.process, process) == ("down", "running"):
            # Reset the belief of the broker's previous process, because the new process has not reported one yet.
            broker.believed_controller_id, broker.believed_controller_epoch, broker.believed_since_us = -1, 0, 0
        if broker.process != process:
            broker.process_since_us = entry.wall_us
        broker.process, broker.pid = process, pid
        if process == "down":
            broker.is_controller, broker.session_state = False, "closed"
        if process == "running":
            state.holder_back(number)
        else:
            state.holder_lost(number, entry.wall_us, action)


@_on(e.PeerStateChanged)
def _peer_state_changed(state: ClusterState, entry: Entry, event: e.PeerStateChanged) -> None:
    peer = _writing_peer(state, entry)
    peer.state, peer.phase, peer.leader_id, peer.round = event.state, event.phase, event.leader_id, event.round
    peer.accepted_epoch, peer.current_epoch = event.accepted_epoch, event.current_epoch
    peer.last_zxid = event.last_zxid
    if event.state != "LEADING" and state.zab_leader_id == peer.id:
        state.zab_leader_id = -1


@_on(e.EpochAccepted)
def _epoch_accepted(state: ClusterState, entry: Entry, event: e.EpochAccepted) -> None:
    _writing_peer(state, entry).accepted_epoch = event.accepted_epoch


@_on(e.EpochAdopted)
def _epoch_adopted(state: ClusterState, entry: Entry, event: e.EpochAdopted) -> None:
    _writing_peer(state, entry).current_epoch = event.current_epoch


@_on(e.LeaderEstablished)
def _leader_established(state: ClusterState, entry: Entry, event: e.LeaderEstablished) -> None:
    if event.epoch >= state.zab_epoch:
        state.zab_epoch, state.zab_leader_id = event.epoch, event.leader_id
        state.zab_leader_since_us = entry.wall_us


@_on(e.ZxidCheckpoint)
def _zxid_checkpoint(state: ClusterState, entry: Entry, event: e.ZxidCheckpoint) -> None:
    peer = _writing_peer(state, entry)
    peer.last_zxid, peer.digest = event.zxid, event.digest


@_on(e.SessionClosed)
def _session_closed(state: ClusterState, entry: Entry, event: e.SessionClosed) -> None:
    # Every peer reports the closed session. Only the first report changes the state.
    for broker in state.brokers.values():
        if broker.session_id == event.session_id and broker.registered:
            broker.registered = False
            if broker.id == state.controller_id and "/controller" in event.ephemerals:
                expired = event.caused_by.startswith("expiry")
                state.end_controller_term(entry.wall_us, "session_expired" if expired else "session_closed")


@_on(e.BrokerRegistered)
def _broker_registered(state: ClusterState, entry: Entry, event: e.BrokerRegistered) -> None:
    broker = _named_broker(state, entry, event.broker_id)
    broker.registered, broker.broker_epoch, broker.session_id = True, event.broker_epoch, event.session_id
    if entry.node != f"broker-{event.broker_id}":
        # Another node wrote the event, so this broker has no journal here, and no agent here manages its process.
        broker.process = "unknown"


@_on(e.BrokerSessionChanged)
def _broker_session_changed(state: ClusterState, entry: Entry, event: e.BrokerSessionChanged) -> None:
    _named_broker(state, entry, event.broker_id).session_state = event.state


@_on(e.ControllerBelieved)
def _controller_believed(state: ClusterState, entry: Entry, event: e.ControllerBelieved) -> None:
    broker = _named_broker(state, entry, event.broker_id)
    broker.believed_controller_id, broker.believed_controller_epoch = event.controller_id, event.controller_epoch
    broker.is_controller, broker.believed_since_us = event.is_controller, entry.wall_us


@_on(e.ControllerElected)
def _controller_elected(state: ClusterState, entry: Entry, event: e.ControllerElected) -> None:
    if event.controller_epoch <= state.controller_epoch:
        return
    state.end_controller_term(entry.wall_us, "superseded")
    state.controller_id, state.controller_epoch = event.broker_id, event.controller_epoch
    state.controller_zk_version = event.zk_version
    # If a broker has no journal here, its first decision is unknown; the closest known time is its election.
    ready_us = None if entry.node == f"broker-{event.broker_id}" else entry.wall_us
    term = ControllerTermView(
        event.broker_id, event.controller_epoch, event.zk_version, entry.wall_us, ready_us=ready_us
    )
    state.controller_terms.append(term)
    del state.controller_terms[:-CONTROLLER_TERMS_MAX]


@_on(e.ControllerReady)
def _controller_ready(state: ClusterState, entry: Entry, event: e.ControllerReady) -> None:
    if state.controller_terms and state.controller_terms[-1].controller_epoch == event.controller_epoch:
        state.controller_terms[-1].ready_us = entry.wall_us


@_on(e.ControllerResigned)
def _controller_resigned(state: ClusterState, entry: Entry, event: e.ControllerResigned) -> None:
    _named_broker(state, entry, event.broker_id).is_controller = False
    if state.controller_id == event.broker_id and state.controller_epoch == event.controller_epoch:
        state.end_controller_term(entry.wall_us, event.reason)


@_on(e.WriteFenced)
def _write_fenced(state: ClusterState, entry: Entry, event: e.WriteFenced) -> None:
    _named_broker(state, entry, event.broker_id).fenced_writes += 1


@_on(e.RequestFenced)
def _request_fenced(state: ClusterState, entry: Entry, event: e.RequestFenced) -> None:
    # Count the rejected request for the broker that sent it, if known, because that broker was outdated.
    if event.sender_id >= 0:
        _named_broker(state, entry, event.sender_id).fenced_requests += 1


@_on(e.TopicCreated)
def _topic_created(state: ClusterState, entry: Entry, event: e.TopicCreated) -> None:
    if state.topics.get(event.topic, event.topic_id) != event.topic_id:
        # The topic was deleted and created again, but the controller died before it logged the deletion. Discard the
        # old state.
        _forget_topic(state, event.topic)
    state.topics[event.topic] = event.topic_id
    for number in sorted(event.assignment):
        state.partition(event.topic, number).replicas = event.assignment[number]


@_on(e.TopicDeleted)
def _topic_deleted(state: ClusterState, entry: Entry, event: e.TopicDeleted) -> None:
    _forget_topic(state, event.topic)


def _forget_topic(state: ClusterState, topic: str) -> None:
    state.topics.pop(topic, None)
    state.configs.pop(f"topics/{topic}", None)
    for name in [n for n, p in state.partitions.items() if p.topic == topic]:
        del state.partitions[name]


@_on(e.ConfigChanged)
def _config_changed(state: ClusterState, entry: Entry, event: e.ConfigChanged) -> None:
    state.configs[event.entity] = event.config


@_on(e.LeaderElected)
def _leader_elected(state: ClusterState, entry: Entry, event: e.LeaderElected) -> None:
    partition = state.partition(event.topic, event.partition)
    if (event.leader_epoch, event.partition_epoch) < (partition.leader_epoch, partition.partition_epoch):
        return
    partition.leader, partition.leader_epoch, partition.isr = event.leader, event.leader_epoch, event.isr
    partition.replicas, partition.partition_epoch, partition.unclean = (
        event.replicas,
        event.partition_epoch,
        event.unclean,
    )
    partition.eligible = event.eligible


@_on(e.AssignmentChanged)
def _assignment_changed(state: ClusterState, entry: Entry, event: e.AssignmentChanged) -> None:
    partition = state.partition(event.topic, event.partition)
    partition.replicas = event.replicas
    for offsets in (partition.high_watermarks, partition.log_end_offsets):
        for broker_id in [b for b in offsets if b not in event.replicas]:
            del offsets[broker_id]


@_on(e.IsrChanged)
def _isr_changed(state: ClusterState, entry: Entry, event: e.IsrChanged) -> None:
    partition = state.partition(event.topic, event.partition)
    if event.partition_epoch < partition.partition_epoch:
        return
    partition.isr, partition.leader, partition.leader_epoch = event.isr, event.leader, event.leader_epoch
    partition.partition_epoch, partition.eligible = event.partition_epoch, event.eligible


@_on(e.LeadershipTaken)
def _leadership_taken(state: ClusterState, entry: Entry, event: e.LeadershipTaken) -> None:
    partition = state.partition(event.topic, event.partition)
    partition.roles[event.broker_id] = RoleView(event.leader_epoch, True, event.high_watermark)
    note_reached(partition, event.leader_epoch, event.high_watermark)
    if partition.held is not None and partition.held.broker_id != event.broker_id:
        # Discard the old leader's report that a last stable offset is held back. The new leader sends its own.
        partition.held = None


@_on(e.FollowershipTaken)
def _followership_taken(state: ClusterState, entry: Entry, event: e.FollowershipTaken) -> None:
    roles = state.partition(event.topic, event.partition).roles
    roles[event.broker_id] = RoleView(event.leader_epoch, False)


@_on(e.ReplicaProgressed)
def _replica_progressed(state: ClusterState, entry: Entry, event: e.ReplicaProgressed) -> None:
    for topic, number, high_watermark, log_end_offset in event.replicas:
        partition = state.partition(topic, number)
        if (role := partition.roles.get(event.broker_id)) is not None:
            note_report(partition, role, high_watermark)
        partition.high_watermarks[event.broker_id] = high_watermark
        partition.log_end_offsets[event.broker_id] = log_end_offset


@_on(e.LastStableOffsetHeld)
def _stable_offset_held(state: ClusterState, entry: Entry, event: e.LastStableOffsetHeld) -> None:
    state.partition(event.topic, event.partition).held = HeldOffsetView(
        event.broker_id,
        event.last_stable_offset,
        event.high_watermark,
        event.producer_id,
        event.producer_epoch,
        since_us=entry.wall_us - event.held_ms * 1000,
    )


@_on(e.LastStableOffsetReleased)
def _stable_offset_released(state: ClusterState, entry: Entry, event: e.LastStableOffsetReleased) -> None:
    state.partition(event.topic, event.partition).held = None


@_on(e.ReplicaLoaded)
def _replica_loaded(state: ClusterState, entry: Entry, event: e.ReplicaLoaded) -> None:
    partition = state.partition(event.topic, event.partition)
    partition.high_watermarks[event.broker_id] = event.high_watermark
    partition.log_end_offsets[event.broker_id] = event.log_end_offset


@_on(e.LogTruncated)
def _log_truncated(state: ClusterState, entry: Entry, event: e.LogTruncated) -> None:
    state.partition(event.topic, event.partition).log_end_offsets[event.broker_id] = event.log_end_offset


@_on(e.RecordsLost)
def _records_lost(state: ClusterState, entry: Entry, event: e.RecordsLost) -> None:
    committed = max(event.committed_at_least, event.below_high_watermark)
    partition = state.partitions.get(f"{event.topic}-{event.partition}")
    if partition is not None and event.leader_epoch in partition.reached:
        committed = max(committed, min(event.count, partition.reached[event.leader_epoch] - event.first_offset))
    state.losses.append(
        Loss(
            at_us=entry.wall_us,
            broker_id=event.broker_id,
            topic=event.topic,
            partition=event.partition,
            first_offset=event.first_offset,
            last_offset=event.last_offset,
            count=event.count,
            below_high_watermark=event.below_high_watermark,
            cause=event.cause,
            committed_at_least=committed,
            seq=entry.seq,
            topic_id=event.topic_id,
        )
    )
    del state.losses[:-LOSSES_MAX]


@_on(e.LossesAcknowledged)
def _losses_acknowledged(state: ClusterState, entry: Entry, event: e.LossesAcknowledged) -> None:
    state.losses_acknowledged_seq = max(state.losses_acknowledged_seq, event.through_seq)
    state.lost_acknowledged.update(event.producers)


@_on(e.FaultInjected)
def _fault_injected(state: ClusterState, entry: Entry, event: e.FaultInjected) -> None:
    state.faults[event.fault_id] = FaultView(
        event.fault_id, event.kind, event.source, event.target, event.both_ways, event.delay_ms
    )
    stopped = _STOPS_A_NODE.get(event.kind)
    if stopped is not None and event.source == event.target:
        _process(state, entry, event.target, stopped, None, event.kind)


@_on(e.FaultRemoved)
def _fault_removed(state: ClusterState, entry: Entry, event: e.FaultRemoved) -> None:
    state.faults.pop(event.fault_id, None)


@_on(e.WorkloadProgressed)
def _workload_progressed(state: ClusterState, entry: Entry, event: e.WorkloadProgressed) -> None:
    state.workloads[event.workload_id] = event


@_on(e.ConsumerProgressed)
def _consumer_progressed(state: ClusterState, entry: Entry, event: e.ConsumerProgressed) -> None:
    state.consumers[event.workload_id] = event


@_on(e.GroupChanged)
def _group_changed(state: ClusterState, entry: Entry, event: e.GroupChanged) -> None:
    if event.state == "Dead":
        state.groups.pop(event.group_id, None)
    else:
        state.groups[event.group_id] = event


_OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""States of a transactional id in which it has an open transaction."""


@_on(e.TransactionChanged)
def _transaction_changed(state: ClusterState, entry: Entry, event: e.TransactionChanged) -> None:
    if event.state not in _OPEN:
        state.transactions.pop(event.transactional_id, None)
        return
    state.transactions[event.transactional_id] = TransactionView(
        event.transactional_id,
        event.broker_id,
        event.state,
        event.producer_id,
        event.producer_epoch,
        event.partitions,
        client_id=event.client_id,
        started_ms=event.started_ms,
        timeout_ms=event.timeout_ms,
        reported_us=entry.wall_us,
    )
