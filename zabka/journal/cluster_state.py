"""State of a cluster, computed from its history: peers, brokers, controller terms, partitions, faults and losses.

`zabka.journal.fold` computes a `ClusterState` from entries, and `api/web/fold.js` does the same in the dashboard.
`msgspec.to_builtins` returns its JSON form.
"""

from __future__ import annotations

import msgspec

from zabka.journal import events as e


class PeerView(msgspec.Struct):
    """A peer's state, according to the history."""

    id: int
    state: str = "DOWN"
    phase: str = "ELECTION"
    leader_id: int = -1
    round: int = 0
    accepted_epoch: int = 0
    current_epoch: int = 0
    last_zxid: int = 0
    digest: int = 0
    process: str = "down"
    pid: int | None = None


class BrokerView(msgspec.Struct):
    """A broker's state, according to the history. The fields `believed_*` are from the broker's last report."""

    id: int
    process: str = "down"
    pid: int | None = None
    registered: bool = False
    broker_epoch: int = -1
    session_id: int = 0
    session_state: str = "closed"
    is_controller: bool = False
    believed_controller_id: int = -1
    believed_controller_epoch: int = 0
    believed_since_us: int = 0
    fenced_requests: int = 0
    fenced_writes: int = 0
    process_since_us: int = 0
    """Time of the last change of `process`."""


PAUSES = frozenset({"pause", "stopped"})


class ControllerTermView(msgspec.Struct):
    """One controller term. `until_us` is None until the term ends.

    The term lasts as long as the session that owns /controller, which can outlive the controller's process.
    `holder_lost_us` is the time since which no controller is active, and `holder_lost_by` the reason (kill, exited,
    stop, pause, stopped; simulated: crash, power_loss). Both are None while the process runs. `ready_us` is the time
    since which the controller makes decisions. It is None until the controller has loaded the state, or if it never
    did. `zabka.journal.controller_gaps` computes the time without a controller.
    """

    broker_id: int
    controller_epoch: int
    zk_version: int
    since_us: int
    until_us: int | None = None
    ended_by: str | None = None
    holder_lost_us: int | None = None
    holder_lost_by: str | None = None
    ready_us: int | None = None


class RoleView(msgspec.Struct):
    """A broker's role for a partition, and the high watermark that it last reported in this role."""

    leader_epoch: int
    is_leader: bool
    high_watermark: int | None = None


class HeldOffsetView(msgspec.Struct):
    """Last stable offset of a partition that an open transaction has held back since `since_us`.

    The partition's leader reported it.
    """

    broker_id: int
    offset: int
    high_watermark: int
    producer_id: int
    producer_epoch: int
    since_us: int


class TransactionView(msgspec.Struct):
    """An open transaction, as its coordinator, the broker `broker_id`, last reported it at `reported_us`.

    `started_ms` is the start on the coordinator's wall clock; -1 if the report does not contain it.
    """

    transactional_id: str
    broker_id: int
    state: str
    producer_id: int
    producer_epoch: int
    partitions: list[str]
    client_id: str
    started_ms: int
    timeout_ms: int
    reported_us: int


class PartitionView(msgspec.Struct):
    """State of a partition as the controller last wrote it, and the offsets of its replicas.

    `reached` is the highest high watermark that any replica reported in each leader epoch.
    """

    topic: str
    partition: int
    replicas: list[int]
    leader: int = -1
    leader_epoch: int = 0
    isr: list[int] = []
    partition_epoch: int = 0
    unclean: bool = False
    eligible: list[int] = []
    high_watermarks: dict[int, int] = {}
    log_end_offsets: dict[int, int] = {}
    roles: dict[int, RoleView] = {}
    reached: dict[int, int] = {}
    held: HeldOffsetView | None = None
    """The last stable offset that is held back; None unless read_committed consumers wait for a transaction."""

    @property
    def high_watermark(self) -> int | None:
        """High watermark of the leader. Without a leader, the highest known high watermark of a replica."""
        known = self.high_watermarks
        return known.get(self.leader, max(known.values(), default=None))


class FaultView(msgspec.Struct):
    """An active fault."""

    fault_id: str
    kind: str
    source: str
    target: str
    both_ways: bool
    delay_ms: int


class Loss(msgspec.Struct):
    """Records that a replica has lost. At least `committed_at_least` of them were committed.

    The records that count as committed are below the highest high watermark that any replica reported.
    `below_high_watermark` is the number of lost records that the replica itself reported as committed. `topic_id` is
    empty if the broker does not know it.
    """

    at_us: int
    broker_id: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int
    below_high_watermark: int
    cause: str
    committed_at_least: int = 0
    seq: int = 0
    topic_id: str = ""


class ClusterState(msgspec.Struct):
    """State of the cluster that the dashboard shows, after the event with sequence number `seq`."""

    seq: int = 0
    at_us: int = 0
    peers: dict[int, PeerView] = {}
    brokers: dict[int, BrokerView] = {}
    controller_id: int = -1
    controller_epoch: int = 0
    controller_zk_version: int = 0
    controller_terms: list[ControllerTermView] = []
    zab_epoch: int = 0
    zab_leader_id: int = -1
    zab_leader_since_us: int = 0
    """Time when the current leader was established. At that time, the timeout of every session starts again."""
    topics: dict[str, str] = {}
    configs: dict[str, dict[str, str]] = {}
    partitions: dict[str, PartitionView] = {}
    faults: dict[str, FaultView] = {}
    losses: list[Loss] = []
    losses_acknowledged_seq: int = 0
    """Sequence number up to which a user has acknowledged all losses."""
    lost_acknowledged: dict[str, int] = {}
    """Number of lost records that had been acknowledged to producers, by workload."""
    workloads: dict[str, e.WorkloadProgressed] = {}
    consumers: dict[str, e.ConsumerProgressed] = {}
    groups: dict[str, e.GroupChanged] = {}
    transactions: dict[str, TransactionView] = {}
    """The open transactions, by transactional id."""

    def peer(self, peer_id: int) -> PeerView:
        """Return the view of a peer, created on first use."""
        found = self.peers.get(peer_id)
        if found is None:
            found = self.peers[peer_id] = PeerView(peer_id)
        return found

    def broker(self, broker_id: int) -> BrokerView:
        """Return the view of a broker, created on first use."""
        found = self.brokers.get(broker_id)
        if found is None:
            found = self.brokers[broker_id] = BrokerView(broker_id)
        return found

    def partition(self, topic: str, partition: int) -> PartitionView:
        """Return the view of a partition, created on first use."""
        name = f"{topic}-{partition}"
        found = self.partitions.get(name)
        if found is None:
            found = self.partitions[name] = PartitionView(topic, partition, [])
        return found

    def holder_of(self, partition: PartitionView) -> str | None:
        """Return the transactional id of the open transaction that holds back the partition's last stable offset.

        None if no coordinator has reported such a transaction. It is then a hanging transaction, which only an
        administrator can abort.
        """
        name, held = f"{partition.topic}-{partition.partition}", partition.held
        found = (
            each.transactional_id
            for each in self.transactions.values()
            if held is not None and each.producer_id == held.producer_id and name in each.partitions
        )
        return next(found, None)

    def end_controller_term(self, at_us: int, reason: str) -> None:
        """End the current controller term at that time."""
        self.controller_id = -1
        if self.controller_terms and self.controller_terms[-1].until_us is None:
            self.controller_terms[-1].until_us = at_us
            self.controller_terms[-1].ended_by = reason

    def holder_lost(self, broker_id: int, at_us: int, how: str) -> None:
        """If this broker is the controller, record that no controller is active from that time.

        Later events of the broker's new process do not affect the term.
        """
        if self.controller_id == broker_id and self.controller_terms and self.controller_terms[-1].until_us is None:
            term = self.controller_terms[-1]
            if term.holder_lost_us is None:
                term.holder_lost_us = at_us
            if term.holder_lost_by is None or term.holder_lost_by in PAUSES:
                term.holder_lost_by = how

    def holder_back(self, broker_id: int) -> None:
        """If this broker is the controller and its process was paused, record that the controller is active again.

        A killed process cannot resume.
        """
        if (
            self.controller_id == broker_id
            and self.controller_terms
            and self.controller_terms[-1].holder_lost_by in PAUSES
        ):
            self.controller_terms[-1].holder_lost_us = self.controller_terms[-1].holder_lost_by = None
