"""Invariants of records: every committed or acknowledged record is in the log of every later leader.

The checker builds a model of every replica's log from the journal alone: batches appended and replicated, and offsets
truncated. A batch is identified by its offsets and checksum; after its compaction, only by its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zabka.journal import events as e
from zabka.journal.checkers.logged_batch import LoggedBatch, logged
from zabka.journal.events import Entry, TopicPartition, topic_partition

_APPENDS = (e.RecordsAppended, e.RecordsReplicated)
_FORGETTING = ("power_loss", "disk_replaced")


class _Durable(NamedTuple):
    """A batch that must not be lost, with the reason, and the first leader epoch whose leader must have the batch."""

    batch: LoggedBatch
    why: str
    leader_epoch: int


class _Loss:
    """Batches that a replica lost in one power loss, and the replicas that were in sync at that time or later."""

    __slots__ = ("batches", "disk_was_replaced", "in_sync", "is_known", "left_isr")

    def __init__(self, in_sync: dict[int, int], is_known: bool) -> None:
        self.batches: dict[LoggedBatch, None] = {}
        self.in_sync = in_sync
        """Brokers that still count as in sync after the power loss.

        For each of them, the value is the zxid of the write since which it counts as in sync.
        """
        self.is_known = is_known
        """Whether the journal has every write of the partition's state since the power loss."""
        self.left_isr = False
        """Whether the replica was outside the ISR and not eligible at some time since the power loss."""
        self.disk_was_replaced = False
        """Whether the broker can return without this log, because its disk was replaced."""


class _Partition:
    """State of one partition: its replicas' logs, its acknowledged and committed batches, and the last state
    written.
    """

    __slots__ = (
        "compacted_to",
        "durable",
        "elected",
        "isr",
        "logs",
        "losses",
        "marks",
        "partition_epoch",
        "recovering",
        "unclean",
        "unloaded",
        "unlogged",
        "zxid",
    )

    def __init__(self) -> None:
        self.logs: dict[int, list[LoggedBatch]] = {}
        self.marks: dict[int, int] = {}
        self.durable: dict[int, _Durable] = {}
        self.unclean = -1
        """Leader epoch of the last unclean election.

        An earlier leader may not know of that election; the records that it acknowledges later may be lost.
        """
        self.recovering = False
        """Whether no leader has changed the ISR since the unclean election."""
        self.isr: tuple[int, ...] = ()
        self.zxid = 0
        self.partition_epoch = -1
        self.elected: dict[int, int] = {}
        """The zxid of the write that started each leader epoch."""
        self.unlogged: dict[int, list[range]] = {}
        """Offset ranges that brokers found in this log although the journal does not contain their batches.

        A failed append leaves the bytes that it has already written in the log, which may include whole batches.
        """
        self.unloaded: dict[int, _Loss] = {}
        """Loss of each broker after a power loss, until the broker loads this log or creates it again."""
        self.losses: dict[int, list[_Loss]] = {}
        """For each broker, the losses that it found when it loaded this log.

        Batches that the broker has received again are removed from its losses.
        """
        self.compacted_to = -1
        """The last offset that compaction may have removed from a replica, and therefore from replicas that copied it.
        """


class CommittedRecordsSurvive:
    """Records below a leader's high watermark, or acknowledged with acks=all, are in every later leader's log.

    They can be lost in only two ways, and the journal must show which one:

    - An unclean election. If that election is not in the journal, the state is marked as recovering from it.
    - A power loss of the last in-sync replica, because brokers do not fsync and Kafka relies on replication.

    A power loss justifies the loss of a record only if all of the following is true:

    - The new leader had the record and lost it in a power loss.
    - The new leader has not left the ISR since then, or it is eligible. Any other replica must catch up first.
    - Every other member of the ISR either lost the record in a power loss too, or had left by the time of the election:
      its registration had ended or was a new one. The ISR is the last one written before the power loss, or any later
      one. If one member stayed, the loss is a violation, because that member should have been elected.

    The leader itself can reduce the ISR by removing followers that lag. A replica that the controller removes from the
    ISR still counts as a member, with three exceptions:

    - It is no longer assigned. A reassignment also relies on the ISR, and deletes the other copies.
    - It asked to leave. A controlled shutdown moves leadership to the members that are considered alive.
    - It had lost a log directory, so that its records cannot be read.

    If the journal lacks a write of the partition's state, because the controller died before logging it, the ISR after
    that write is unknown and the loss is not checked.

    If a disk is replaced by an empty one, that counts as a power loss of all its records. Kafka creates the log again,
    and elects that replica if no other one was in sync. A failed log directory does not justify a loss: its records
    cannot be read until it is repaired, so another replica must lead, or none.

    Compacted records may be missing from a log that continues after them, or their batch may have fewer records. The
    keys determine which records compaction must retain, and the journal does not contain keys.

    A new leader's own high watermark can be lower than the last leader's, as in Kafka.
    """

    name = "committed and acks=all records survive"
    watches = (
        e.RecordsAppended,
        e.RecordsReplicated,
        e.RecordsAcknowledged,
        e.LogTruncated,
        e.LogCompacted,
        e.HighWatermarkMoved,
        e.LeaderElected,
        e.IsrChanged,
        e.LeadershipTaken,
        e.FollowershipTaken,
        e.BrokerRegistered,
        e.SessionClosed,
        e.NodeStarted,
        e.LogDamageFound,
        e.FaultInjected,
        e.ReplicaLoaded,
        e.TopicDeleted,
    )

    def __init__(self) -> None:
        self.checked = 0
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._brokers: dict[str, int] = {}
        """Ids, keyed by node name, of the brokers that have been leader or follower.

        Only these brokers have logs that they can lose.
        """
        self._registered: dict[int, tuple[int, int]] = {}
        self._closed: dict[int, int] = {}
        self._lost_directories: dict[int, None] = {}
        """Brokers that have lost a log directory since their start."""

    def _of(self, topic: str, partition: int) -> _Partition:
        name = topic_partition(topic, partition)
        found = self._partitions.get(name)
        if found is None:
            found = self._partitions[name] = _Partition()
        return found

    def see(self, entry: Entry) -> Iterable[str]:
        """Track logs, acknowledgements and partition states. Check the new leader's log at each LeadershipTaken."""
        event = entry.event
        if isinstance(event, _APPENDS):
            self._append(event)
        elif isinstance(event, e.LogTruncated):
            _truncate(self._of(event.topic, event.partition), event.broker_id, event.to_offset)
        elif isinstance(event, e.HighWatermarkMoved):
            if event.is_leader:
                self._record_committed(event)
        elif isinstance(event, e.RecordsAcknowledged):
            partition = self._of(event.topic, event.partition)
            if event.acks == -1 and event.leader_epoch >= partition.unclean:
                batch = LoggedBatch(event.first_offset, event.last_offset, event.checksum)
                partition.durable[batch.first] = _Durable(batch, "acknowledged (acks=all)", event.leader_epoch)
        elif isinstance(event, e.LeaderElected | e.IsrChanged):
            self._write(event)
        elif isinstance(event, e.LeadershipTaken):
            self._take_role(entry.node, event)
            return self._check(event)
        else:
            self._follow_lives(entry)
        return ()

    def _follow_lives(self, entry: Entry) -> None:
        """Process registrations, sessions, power losses, loaded logs, deleted topics and new followers."""
        event = entry.event
        if isinstance(event, e.FollowershipTaken):
            self._take_role(entry.node, event)
        elif isinstance(event, e.BrokerRegistered):
            self._registered[event.broker_id] = (event.broker_epoch, event.session_id)
        elif isinstance(event, e.SessionClosed):
            self._closed.setdefault(event.session_id, event.zxid)
        elif isinstance(event, e.NodeStarted):
            self._lost_directories.pop(self._brokers.get(entry.node, -1), None)
        elif isinstance(event, e.LogDamageFound):
            if event.action == "taken offline" and entry.node in self._brokers:
                self._lost_directories[self._brokers[entry.node]] = None
        elif isinstance(event, e.FaultInjected):
            broker = self._brokers.get(event.target)
            if event.kind in _FORGETTING and broker is not None:
                for partition in self._partitions.values():
                    in_sync = dict.fromkeys(partition.isr, partition.zxid)
                    loss = partition.unloaded.setdefault(broker, _Loss(in_sync, partition.partition_epoch >= 0))
                    loss.disk_was_replaced |= event.kind == "disk_replaced"
        elif isinstance(event, e.LogCompacted):
            partition = self._of(event.topic, event.partition)
            partition.compacted_to = max(partition.compacted_to, event.last_offset)
        elif isinstance(event, e.ReplicaLoaded):
            partition = self._of(event.topic, event.partition)
            log = partition.logs.get(event.broker_id)
            known_end = log[-1].last + 1 if log else 0
            before = [each for each in partition.unlogged.get(event.broker_id, ()) if each.start < known_end]
            partition.unlogged[event.broker_id] = [*before, range(known_end, event.log_end_offset)]
            # Remove the power loss that excused this loss: a later loss of records needs another power loss as its
            # excuse.
            _lose(partition, event.broker_id, event.log_end_offset, partition.unloaded.pop(event.broker_id, None))
        elif isinstance(event, e.TopicDeleted):
            for name in [name for name in self._partitions if name.topic == event.topic]:
                del self._partitions[name]

    def _take_role(self, node: str, event: e.LeadershipTaken | e.FollowershipTaken) -> None:
        """Process a broker's new role for a partition. The broker has opened its log and reports the log end offset.

        The broker has loaded everything on its disk before this event. If it loaded no log of this partition after a
        power loss, it had no replica when the power was lost and starts with an empty log, so the power loss is
        discarded. If the model has batches beyond the log end offset, the broker has deleted these batches, and their
        loss is a violation unless the disk was replaced.
        """
        self._brokers[node] = event.broker_id
        partition = self._of(event.topic, event.partition)
        loss = partition.unloaded.pop(event.broker_id, None)
        excuse = loss if loss is not None and loss.disk_was_replaced else None
        _lose(partition, event.broker_id, event.log_end_offset, excuse)

    def _write(self, event: e.LeaderElected | e.IsrChanged) -> None:
        partition = self._of(event.topic, event.partition)
        if isinstance(event, e.LeaderElected):
            partition.elected.setdefault(event.leader_epoch, event.zxid)
            if event.unclean:
                partition.durable.clear()
                partition.unclean = max(partition.unclean, event.leader_epoch)
        if event.partition_epoch <= partition.partition_epoch:
            # This event is a repeated or late report of an earlier write.
            return
        if isinstance(event, e.LeaderElected):
            if event.recovering and not event.unclean and not partition.recovering:
                # The leader is recovering, so there was an unclean election whose controller died before it logged the
                # election.
                partition.durable.clear()
                partition.unclean = max(partition.unclean, event.leader_epoch - 1)
            partition.recovering = event.recovering
        elif event.cause != "controller":
            partition.recovering = False
        for broker, loss in partition.unloaded.items():
            _follow_isr(loss, broker, event, partition.partition_epoch, self._lost_directories)
        for broker, losses in partition.losses.items():
            for loss in losses:
                _follow_isr(loss, broker, event, partition.partition_epoch, self._lost_directories)
        partition.isr, partition.zxid = tuple(event.isr), event.zxid
        partition.partition_epoch = event.partition_epoch

    def _append(self, event: e.RecordsAppended | e.RecordsReplicated) -> None:
        partition = self._of(event.topic, event.partition)
        batch = logged(event)
        _truncate(partition, event.broker_id, event.first_offset)
        partition.logs[event.broker_id].append(batch)
        for loss in partition.losses.get(event.broker_id, ()):
            loss.batches.pop(batch, None)

    def _record_committed(self, event: e.HighWatermarkMoved) -> None:
        partition = self._of(event.topic, event.partition)
        before = partition.marks.get(event.broker_id, 0)
        partition.marks[event.broker_id] = event.high_watermark
        if event.high_watermark <= before or event.leader_epoch < partition.unclean:
            return
        for batch in reversed(partition.logs.get(event.broker_id, [])):
            if batch.last < before:
                break
            if batch.last < event.high_watermark and batch.first not in partition.durable:
                partition.durable[batch.first] = _Durable(batch, "below a leader's high watermark", event.leader_epoch)

    def _check(self, event: e.LeadershipTaken) -> Iterator[str]:
        partition = self._of(event.topic, event.partition)
        log = partition.logs.get(event.broker_id, [])
        held = {batch.first: batch for batch in log if batch.last >= event.log_start_offset}
        self.checked += bool(partition.durable)
        for first in sorted(partition.durable):
            batch, why, leader_epoch = partition.durable[first]
            if batch.last < event.log_start_offset:
                # The batch was removed by retention or a DeleteRecords request.
                continue
            is_unlogged = any(first in each for each in partition.unlogged.get(event.broker_id, ()))
            found = held.get(first, batch if is_unlogged else None)
            is_kept = batch.is_kept_as(found, partition.compacted_to)
            if leader_epoch > event.leader_epoch or (batch.first < event.log_end_offset and is_kept):
                # Either the batch is in the new leader's log, or this event was logged late and belongs to an earlier
                # leader.
                continue
            if self._is_excused(partition, batch, event):
                # The loss is allowed and permanent, because the new leader's log is now the partition's log.
                del partition.durable[first]
                continue
            yield (
                f"{event.topic}-{event.partition}: offsets {batch.first}-{batch.last} were {why}, but broker "
                f"{event.broker_id} leads epoch {event.leader_epoch} without them (log end {event.log_end_offset})"
            )
            return

    def _is_excused(self, partition: _Partition, batch: LoggedBatch, event: e.LeadershipTaken) -> bool:
        """Return whether a power loss of the last in-sync replica justifies the loss of that batch."""
        loss = _loss_of(partition, event.broker_id, batch)
        if loss is None or loss.left_isr:
            return False
        elected_zxid = partition.elected.get(event.leader_epoch)
        if elected_zxid is None or not loss.is_known:
            return True
        return all(
            broker == event.broker_id
            or _loss_of(partition, broker, batch) is not None
            or not self._stayed(broker, since_zxid, elected_zxid)
            for broker, since_zxid in loss.in_sync.items()
        )

    def _stayed(self, broker: int, since_zxid: int, until_zxid: int) -> bool:
        """Return whether the broker was registered without interruption between two transactions."""
        if broker not in self._registered:
            return False
        broker_epoch, session_id = self._registered[broker]
        closed_zxid = self._closed.get(session_id)
        return broker_epoch <= since_zxid and (closed_zxid is None or closed_zxid > until_zxid)


def _follow_isr(
    loss: _Loss,
    broker: int,
    event: e.LeaderElected | e.IsrChanged,
    partition_epoch: int,
    lost_directories: dict[int, None],
) -> None:
    """Update the loss after a write of the partition's state. `partition_epoch` is the epoch before this write."""
    loss.is_known = loss.is_known and event.partition_epoch == partition_epoch + 1
    # Count eligible replicas as ISR members: they were in sync when the ISR shrank, and can still be elected as leader.
    loss.left_isr = loss.left_isr or broker not in (*event.isr, *event.eligible)
    before = loss.in_sync
    if isinstance(event, e.LeaderElected):
        heirs = event.isr if event.cause == "controlled_shutdown" else event.replicas
        loss.in_sync = {member: zxid for member, zxid in before.items() if member in heirs}
    else:
        loss.in_sync = dict(before) if event.cause == "controller" else {}
    for member in lost_directories:
        loss.in_sync.pop(member, None)
    for member in event.isr:
        loss.in_sync[member] = before.get(member, event.zxid)


def _lose(partition: _Partition, broker: int, end_offset: int, excuse: _Loss | None) -> None:
    """Truncate the model of a broker's log to the log's real end offset.

    `excuse` is the power loss that may justify the loss of the removed batches, or None.
    """
    gone = _truncate(partition, broker, end_offset)
    if excuse is not None and gone:
        excuse.batches.update(dict.fromkeys(gone))
        partition.losses.setdefault(broker, []).append(excuse)


def _loss_of(partition: _Partition, broker: int, batch: LoggedBatch) -> _Loss | None:
    return next((loss for loss in partition.losses.get(broker, ()) if batch in loss.batches), None)


def _truncate(partition: _Partition, broker: int, end_offset: int) -> list[LoggedBatch]:
    if unlogged := partition.unlogged.get(broker):
        shorter = [range(each.start, min(each.stop, end_offset)) for each in unlogged]
        partition.unlogged[broker] = [each for each in shorter if each]
    log = partition.logs.setdefault(broker, [])
    gone: list[LoggedBatch] = []
    while log and log[-1].last >= end_offset:
        gone.append(log.pop())
    return gone
