"""Invariants of kafka-specification, checked on the brokers' disks and memory and on the committed znodes.

The names are those of KafkaReplication.tla and AsyncIsr.tla.  At the end of each virtual instant, every partition that
changed in it is checked:

TypeOk               a state's members are replicas, epochs never decrease, 0 <= start <= high watermark <= log end,
                     a log's leader epochs never decrease and its checksums are correct; no broker leads in an epoch
                     that is not in a committed partition state
LeaderInIsr          the leader in the partition's state is in its ISR; the ISR is never empty
WeakIsr              records below the high watermark of a presumed leader (a broker that believes to be leader) are in
                     the logs of all members of the ISR that this broker knows
StrongIsr            ... and of all members of the committed ISR, so that the next elected leader has them
ValidHighWatermark   the same for the leader in the committed state: no in-sync replica's log ends below its high
                     watermark

Three more rules of Kafka, which the model omits (others are in `zabka.simulation.checkers.kafka_rules`):

NothingCommittedUnderMinIsr   a leader's high watermark does not advance while the ISR is smaller than
                              min.insync.replicas, both as the leader knows it and as committed (`minimums`)
OnlyTheLivingJoin             a broker that joins an ISR is alive, as far as the controller that writes the ISR knows
WhoJoinsHasAll                a broker that joins an ISR has all records that any leader has committed (KAFKA-7128)

The model has neither unclean elections nor disks that lose data.  Two kinds of leaders lose records as Kafka allows:
one that was elected in an unclean election, and one that lost power, and therefore committed records, while it was in
sync. After such an election, presumed leaders of lower epochs are not checked any more.  A replica that lost power is
not checked as an ISR member until it has left the ISR.  `zabka.journal.checkers.record_invariants` defines which
records a cluster is allowed to lose.  Violations are journalled as `invariant_violated`, which the watchdog reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from zabka.broker_sim.replication.partition import Partition
from zabka.ensemble.txn import Txn
from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, InvariantViolated, TopicPartition, topic_partition
from zabka.kafka.zk.znodes import LeaderAndIsr
from zabka.simulation.checkers.audited_broker import AuditedBroker
from zabka.simulation.checkers.kafka_rules import KafkaRules
from zabka.simulation.checkers.kafka_znodes import Change, Configured, KafkaZnodes, Registered, StateWritten, TopicGone
from zabka.simulation.checkers.minimums import Minimums
from zabka.simulation.checkers.replica_logs import ReplicaLog, Stored
from zabka.simulation.engine.scheduler import Scheduler

_PARTITION_EVENTS = (
    e.RecordsAppended,
    e.RecordsReplicated,
    e.HighWatermarkMoved,
    e.LeadershipTaken,
    e.FollowershipTaken,
    e.LogTruncated,
    e.ReplicaLoaded,
)
_TAKEN = (e.LeadershipTaken, e.FollowershipTaken)
_CUTS = (e.LogTruncated, e.ReplicaLoaded)
_GROWTH = (e.RecordsAppended, e.RecordsReplicated, e.HighWatermarkMoved)
"""Events that cannot invalidate the checks of other replicas.

If such an event changes what the leader knows, the leader logs separate events about the change.
"""


class _Audited:
    """Checker state of one partition: its replicas' logs, up to which offset each pair agrees, and allowed losses."""

    __slots__ = (
        "agreed", "committed", "committed_end", "forgiven_epoch", "held", "is_recorded", "logs", "lost_in_epoch",
        "lost_power",
    )  # fmt: skip

    def __init__(self) -> None:
        self.logs: dict[int, ReplicaLog] = {}
        self.agreed: dict[tuple[int, int], int] = {}
        self.committed: dict[int, Stored] = {}
        """All batches that any leader has committed since the last loss that was allowed, by first offset."""
        self.committed_end = 0
        self.is_recorded = True
        """Whether `committed` is complete.

        It becomes incomplete when a leader whose commits are not recorded advances its high watermark.
        """
        self.forgiven_epoch = 0
        """Leader epoch below which leaders are no longer checked."""
        self.held: tuple[object, ...] = ()
        """Values for which the last checks passed: the leader, its epoch and high watermark, its ISR, and the committed
        ISR.
        """
        self.lost_power: dict[int, None] = {}
        """ISR members that lost power and have not left the ISR since then."""
        self.lost_in_epoch: dict[int, int] = {}
        """For each broker that lost power, the epoch of the leader that may still consider it in sync."""

    def forgive(self, before_epoch: int) -> None:
        """Allow the loss of records that leaders of lower epochs have committed."""
        self.forgiven_epoch = before_epoch
        self.committed, self.committed_end, self.is_recorded = {}, 0, True


class ReplicationAudit:
    """Checks all partitions of one simulated world."""

    def __init__(
        self,
        scheduler: Scheduler,
        nodes: Mapping[int, AuditedBroker],
        checked: CheckCounts,
        emit: Callable[[InvariantViolated], object],
        minimums: Minimums,
    ) -> None:
        self.znodes = KafkaZnodes()
        self.listeners: list[Callable[[Change], None]] = []
        """Functions that are called with every change of Kafka's znodes, before the change is checked here."""
        self._minimums = minimums
        self._scheduler = scheduler
        self._nodes = nodes
        self._checked = checked
        self._emit = emit
        self._partitions: dict[TopicPartition, _Audited] = {}
        self._changed: dict[TopicPartition, dict[int, None] | None] = {}
        """For each partition that changed, the brokers whose replicas changed; None if all replicas must be checked."""
        self._live: dict[int, list[int]] = {}
        """Live brokers according to the controller of each controller epoch."""
        self._powerless: dict[int, int] = {}
        """Broker epoch of each broker at the time of its last power loss."""
        self._said: dict[tuple[str, TopicPartition], None] = {}
        self._rules = KafkaRules(self.znodes, nodes, checked, self._violated)

    # -- queries ----------------------------------------------------------------------------------------------------

    def forgiven(self) -> dict[str, None]:
        """Return the partitions that lost records as Kafka allows: by an unclean election, or by data loss on a
        disk.
        """
        return {str(name): None for name, audited in self._partitions.items() if audited.forgiven_epoch}

    def leader_log_end(self, name: TopicPartition) -> int | None:
        """Return the log end offset of the leader in the committed state, or None if that broker does not lead now."""
        leading = self._leading(name)
        return None if leading is None else leading.log.end_offset

    def leader_high_watermark(self, name: TopicPartition) -> int | None:
        """Return the high watermark of the leader in the committed state, or None if that broker does not lead now."""
        leading = self._leading(name)
        return None if leading is None else leading.log.high_watermark

    def _leading(self, name: TopicPartition) -> Partition | None:
        state = self.znodes.states.get(name)
        for broker, replica in self._hosted(name, self._nodes):
            if state is not None and broker == state.leader and replica.is_leader:
                return replica
        return None

    def in_sync(self, name: TopicPartition) -> list[int]:
        """Return the committed ISR, without members that have lost power since they joined it."""
        state, lost = self.znodes.states.get(name), self._of(name).lost_power
        return [] if state is None else [broker for broker in state.isr if broker not in lost]

    # -- events ------------------------------------------------------------------------------------------------------

    def committed(self, txn: Txn) -> None:
        """Process a transaction when the first peer applies it."""
        for change in self.znodes.committed(txn):
            for listener in self.listeners:
                listener(change)
            if isinstance(change, TopicGone):
                self._rules.gone(change.topic)
                for name in [name for name in self._partitions if name.topic == change.topic]:
                    del self._partitions[name]
                    self._changed.pop(name, None)
                continue
            if not isinstance(change, StateWritten):
                self._note_for_minimums(change)
                continue
            name = change.partition
            self._note(name, None)
            self._checked.note("LeaderInIsr")
            for invariant, detail in check_write(change, self._replicas(name)):
                self._violated(invariant, name, detail)
            self._rules.wrote(change)
            self._check_joining(change)
            self._forgive(change)
            self._check_what_they_have(change)

    def journalled(self, entry: Entry) -> None:
        """Process a journal entry."""
        event = entry.event
        self._rules.journalled(entry)
        if isinstance(event, _PARTITION_EVENTS):
            name = topic_partition(event.topic, event.partition)
            if isinstance(event, _TAKEN):
                self._minimums.heard(event.broker_id, event.topic, self._scheduler.now_us)
            if isinstance(event, _CUTS):
                self._cut(name, event.broker_id)
            self._note(name, event.broker_id if isinstance(event, _GROWTH) else None)
            if isinstance(event, e.HighWatermarkMoved) and event.is_leader:
                self._check_mark(name, event)
        elif isinstance(event, e.BrokerLivenessChanged):
            self._live[event.controller_epoch] = event.live
        elif isinstance(event, e.FaultInjected) and event.kind in ("power_loss", "disk_replaced"):
            for broker in self._named(event.target):
                self._lost_power(broker)
        elif isinstance(event, e.NodeStarted):
            for broker in self._named(entry.node):
                self._minimums.started(broker)

    def _note_for_minimums(self, change: Configured | Registered) -> None:
        if isinstance(change, Configured):
            self._minimums.configured(change.entity, change.overrides, self._scheduler.now_us)
        elif change.is_there:
            self._minimums.registered(change.broker, self._scheduler.now_us)
        else:
            self._minimums.gone(change.broker)

    def _note(self, name: TopicPartition, broker: int | None) -> None:
        if not self._changed:
            # Check after all other events of this virtual instant, because the invariants need not hold between them.
            self._scheduler.soon(self._check_changed)
        brokers = self._changed.setdefault(name, {})
        if broker is None:
            self._changed[name] = None
        elif brokers is not None:
            brokers[broker] = None

    def _cut(self, name: TopicPartition, broker: int) -> None:
        audited = self._of(name)
        audited.held = ()
        self._log(audited, name, broker).again()
        for pair in audited.agreed:
            if broker in pair:
                audited.agreed[pair] = 0

    def _lost_power(self, broker: int) -> None:
        self._powerless[broker] = self.znodes.brokers.get(broker, -1)
        for name, state in self.znodes.states.items():
            audited = self._of(name)
            audited.lost_in_epoch[broker] = state.leader_epoch
            if broker in state.isr:
                audited.lost_power[broker] = None
            self._cut(name, broker)

    def _is_powerless(self, broker: int) -> bool:
        """Return whether the broker lost power during its current registration."""
        return self._powerless.get(broker) == self.znodes.brokers.get(broker, -1)

    def _forgive(self, write: StateWritten) -> None:
        audited, before, after = self._of(write.partition), write.before, write.after
        if before is not None and after.leader >= 0 and after.leader != before.leader:
            if after.leader not in before.isr:
                audited.forgive(after.leader_epoch)
            elif after.leader in audited.lost_power:
                self._forgive_who_forgot(write.partition, after)
        elif before is not None and after.leader in audited.lost_power and after.leader_epoch > before.leader_epoch:
            self._forgive_who_leads_on(write.partition, after)
        for broker in [broker for broker in audited.lost_power if broker not in after.isr]:
            del audited.lost_power[broker]
            audited.lost_in_epoch[broker] = after.leader_epoch

    def _forgive_who_leads_on(self, name: TopicPartition, after: LeaderAndIsr) -> None:
        """Process a new leader epoch of a partition whose leader has lost power and remains leader.

        If the leader no longer has the registration that it had at the power loss, it is a new process whose log may
        lack records. The loss of these records is allowed.
        """
        if after.leader not in self.znodes.brokers or not self._is_powerless(after.leader):
            self._forgive_who_forgot(name, after)

    def _forgive_who_forgot(self, name: TopicPartition, after: LeaderAndIsr) -> None:
        """Process the election of a replica that lost power.

        If its log lacks committed batches, allow the loss of these batches.
        """
        audited = self._of(name)
        if audited.is_recorded and self._lacks(name, after.leader) is None:
            del audited.lost_power[after.leader]
        else:
            # The other ISR members may already have truncated their logs to match this leader's log, so treat them as
            # replicas that lost the records as well.
            audited.forgive(after.leader_epoch)
            audited.lost_power.update(dict.fromkeys(after.isr))

    def _lacks(self, name: TopicPartition, broker: int) -> int | None:
        """Return the first offset of a committed batch that a broker's log lacks, or None if it has all of them."""
        audited = self._of(name)
        log = self._log(audited, name, broker)
        log.read()
        known = audited.committed.items()
        return next((at for at, stored in known if at >= log.start and log.batches.get(at) != stored), None)

    def _check_joining(self, write: StateWritten) -> None:
        """Check that new ISR members are alive, as far as the controller that writes the ISR knows."""
        before, after = write.before, write.after
        if before is None:
            return
        live = self._live.get(after.controller_epoch)
        for broker in after.isr:
            if broker in before.isr:
                continue
            if self._is_powerless(broker):
                # The broker lost power while the request to add it to the ISR was in flight.
                self._of(write.partition).lost_power[broker] = None
            if live is not None:
                self._checked.note("OnlyTheLivingJoin")
            if live is not None and broker not in live:
                self._violated("OnlyTheLivingJoin", write.partition, f"broker {broker} is gone, and joins the ISR")

    def _check_what_they_have(self, write: StateWritten) -> None:
        """Check that new ISR members have all records that any leader has ever committed."""
        if write.before is not None:
            for broker in write.after.isr:
                if broker not in write.before.isr:
                    self._check_what_it_has(write.partition, broker)

    def _check_what_it_has(self, name: TopicPartition, broker: int) -> None:
        audited = self._of(name)
        if broker in audited.lost_power or not audited.committed:
            return
        self._checked.note("WhoJoinsHasAll")
        lacking = self._lacks(name, broker)
        if lacking is not None:
            self._violated(
                "WhoJoinsHasAll",
                name,
                f"broker {broker} joins the ISR and lacks what is at {lacking}; committed is what is below "
                f"{audited.committed_end}",
            )

    def _take_as_committed(self, name: TopicPartition, leader: int, replica: Partition) -> None:
        """Record the batches that a leader has committed, unless their loss is allowed or the leader lost power."""
        audited = self._of(name)
        if replica.leader_epoch < audited.forgiven_epoch or leader in audited.lost_power:
            audited.is_recorded = False
            return
        log, mark = self._log(audited, name, leader), replica.log.high_watermark
        log.read()
        at = max(audited.committed_end, log.start)
        while at < mark and (stored := log.batches.get(at)) is not None:
            audited.committed[at] = stored
            at = audited.committed_end = stored.last + 1

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for name, brokers in changed.items():
            for invariant, detail in self._check(name, self._nodes if brokers is None else brokers):
                self._violated(invariant, name, detail)

    def _check(self, name: TopicPartition, brokers: Iterable[int]) -> Iterator[tuple[str, str]]:
        state = self.znodes.states.get(name)
        if state is None or name.topic in self.znodes.deleting:
            return
        audited = self._of(name)
        topic_id = self.znodes.topics[name.topic].topic_id if name.topic in self.znodes.topics else None
        for broker, replica in self._hosted(name, brokers):
            log = self._log(audited, name, broker)
            log.read()
            self._checked.note("TypeOk")
            yield from _check_replica(broker, replica, log)
            if not replica.is_leader or replica.topic_id not in (None, topic_id):
                continue
            if replica.leader_epoch > state.leader_epoch:
                yield (
                    "TypeOk",
                    f"broker {broker} leads in epoch {replica.leader_epoch}, written is {state.leader_epoch}",
                )
            if replica.leader_epoch >= audited.forgiven_epoch:
                yield from self._check_leader(name, audited, broker, replica, state)

    def _check_leader(
        self, name: TopicPartition, audited: _Audited, leader: int, replica: Partition, state: LeaderAndIsr
    ) -> Iterator[tuple[str, str]]:
        mark = replica.log.high_watermark
        stand = leader, replica.leader_epoch, mark, replica.isr_state.isr, state.isr
        if audited.held == stand:
            return
        audited.held = stand
        views = (
            ("WeakIsr", "the leader", replica.isr_state.isr),
            ("StrongIsr", "the quorum", state.isr),
        )
        for invariant, whose, members in views:
            for member in members:
                if member == leader or member in audited.lost_power:
                    continue
                if invariant == "WeakIsr" and (
                    leader in audited.lost_power
                    or replica.leader_epoch <= audited.lost_in_epoch.get(member, -1)
                    or self._has_moved_away(name, member, state)
                ):
                    continue
                self._checked.note(invariant)
                at = self._parts(name, audited, leader, member, mark)
                if leader == state.leader:
                    self._checked.note("ValidHighWatermark")
                if at is not None:
                    audited.held = ()
                    leads = f"broker {leader} leads epoch {replica.leader_epoch} with the high watermark {mark}"
                    yield invariant, f"{leads}; broker {member} is in sync for {whose} and lacks what is at {at}"
                    if leader == state.leader and self._log(audited, name, member).end < mark:
                        yield "ValidHighWatermark", f"broker {member} is in sync and ends below {mark}"

    def _has_moved_away(self, name: TopicPartition, member: int, state: LeaderAndIsr) -> bool:
        """Return whether that replica was removed from the ISR and deleted.  The leader may learn of this later."""
        running = self._nodes[member].broker
        return member not in state.isr and running is not None and name not in running.replicas.partitions

    def _parts(self, name: TopicPartition, audited: _Audited, leader: int, member: int, mark: int) -> int | None:
        """Return the first offset below `mark` at which the logs of leader and member differ, or None if they agree."""
        at = audited.agreed.get((leader, member), 0)
        if at >= mark:
            return None
        one, other = self._log(audited, name, leader), self._log(audited, name, member)
        one.read()
        other.read()
        at = max(at, one.start)
        while at < mark:
            batch = one.batches.get(at)
            if batch is None or (at >= other.start and other.batches.get(at) != batch):
                return at
            at = audited.agreed[leader, member] = batch.last + 1
        return None

    def _check_mark(self, name: TopicPartition, event: e.HighWatermarkMoved) -> None:
        """Check that enough replicas are in sync when a leader advances its high watermark (KAFKA-15583)."""
        running = self._nodes[event.broker_id].broker
        replica = None if running is None else running.replicas.partitions.get(name)
        if replica is not None and replica.is_leader:
            self._take_as_committed(name, event.broker_id, replica)
            self._checked.note("NothingCommittedUnderMinIsr")
            asked = max(
                replica.settings.min_insync_replicas,
                self._minimums.least(event.broker_id, name.topic, self._scheduler.now_us),
            )
            wanted = min(asked, max(1, len(replica.replicas)))
            if len(replica.isr_state.isr) < wanted:
                self._violated(
                    "NothingCommittedUnderMinIsr",
                    name,
                    f"broker {event.broker_id} takes what is below {event.high_watermark} to be committed with "
                    f"{list(replica.isr_state.isr)} in sync; min.insync.replicas is {wanted}",
                )

    # -- lookups -----------------------------------------------------------------------------------------------------

    def _named(self, name: str) -> list[int]:
        return [broker for broker, node in self._nodes.items() if node.name == name]

    def _of(self, name: TopicPartition) -> _Audited:
        found = self._partitions.get(name)
        if found is None:
            found = self._partitions[name] = _Audited()
        return found

    def _log(self, audited: _Audited, name: TopicPartition, broker: int) -> ReplicaLog:
        found = audited.logs.get(broker)
        if found is None:
            found = audited.logs[broker] = ReplicaLog(self._nodes[broker], str(name))
        return found

    def _hosted(self, name: TopicPartition, brokers: Iterable[int]) -> Iterator[tuple[int, Partition]]:
        for broker in brokers:
            running = self._nodes[broker].broker
            replica = None if running is None else running.replicas.partitions.get(name)
            if replica is not None:
                yield broker, replica

    def _replicas(self, name: TopicPartition) -> tuple[int, ...] | None:
        topic = self.znodes.topics.get(name.topic)
        assignment = None if topic is None else topic.partitions.get(name.partition)
        return None if assignment is None else assignment.replicas

    def _violated(self, invariant: str, name: TopicPartition, detail: str) -> None:
        if (invariant, name) not in self._said:
            self._said[invariant, name] = None
            self._emit(InvariantViolated(invariant, f"{name}: {detail}"))


def check_write(write: StateWritten, replicas: tuple[int, ...] | None) -> Iterator[tuple[str, str]]:
    """Yield the violations in a written partition state, both by itself and compared with the previous state."""
    before, after = write.before, write.after
    if not after.isr:
        yield "LeaderInIsr", "the ISR is empty"
    elif after.leader >= 0 and after.leader not in after.isr:
        yield "LeaderInIsr", f"leader {after.leader} is not in the ISR {list(after.isr)}"
    strangers = [broker for broker in after.isr if replicas is not None and broker not in replicas]
    if strangers:
        yield "TypeOk", f"{strangers} are in the ISR and no replicas; those are {replicas}"
    if before is not None:
        if after.leader_epoch < before.leader_epoch:
            yield "TypeOk", f"the leader epoch fell from {before.leader_epoch} to {after.leader_epoch}"
        elif after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            yield "TypeOk", f"{before.leader} and {after.leader} lead in epoch {after.leader_epoch}"


def _check_replica(broker: int, replica: Partition, log: ReplicaLog) -> Iterator[tuple[str, str]]:
    start, mark, end = replica.log.start_offset, replica.log.high_watermark, replica.log.end_offset
    if not 0 <= start <= mark <= end:
        yield "TypeOk", f"broker {broker}: start {start}, high watermark {mark}, log end {end}"
    if log.end != end:
        yield "TypeOk", f"broker {broker} takes its log to end at {end}; on disk it ends at {log.end}"
    if not log.epochs_rise:
        yield "TypeOk", f"broker {broker}: leader epochs fall along its log"
    if log.damaged is not None:
        yield "TypeOk", f"broker {broker}: the checksum of the batch at {log.damaged} does not hold on its disk"
