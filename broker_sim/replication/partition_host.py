"""What passes between a partition and its broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from zabka.broker_sim.ports import MetadataView
from zabka.broker_sim.quotas.replication_throttles import ReplicationQuota
from zabka.broker_sim.replication.fencing import Fences
from zabka.broker_sim.replication.isr_rules import IsrRules
from zabka.broker_sim.replication.progress import HostedLog
from zabka.broker_sim.replication.replica_selector import ReplicaSelector
from zabka.ensemble.ports import Runtime
from zabka.journal.events import ReplicaStanding, TopicPartition
from zabka.kafka.ports import Emit
from zabka.kafka.record_batch import BatchHeader
from zabka.kafka.record_refusals import RecordsRefused

NO_EPOCH = -1


class LeaderAndIsrPartitionState(NamedTuple):
    """The state of one partition in a LeaderAndIsr request."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: int
    partition_epoch: int
    replicas: tuple[int, ...]
    controller_epoch: int = NO_EPOCH
    adding_replicas: tuple[int, ...] = ()


class IsrAnswer(NamedTuple):
    """The controller's answer to a proposal; beyond `error` it counts only where that is 0."""

    error: int
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    partition_epoch: int = NO_EPOCH


class IsrProposal(NamedTuple):
    """An ISR that a leader asks the controller to write, on condition of both epochs."""

    topic_partition: TopicPartition
    topic_id: str | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    member_epochs: tuple[int, ...]
    """The broker epoch each member was last seen with, -1 where it does not say (KIP-903)."""
    recovery_state: int
    is_shrink: bool
    moved: tuple[ReplicaStanding, ...]
    """Who is to leave or to join, and how it stood."""
    controller_epoch: int
    """Of the controller that last decided about this partition's leadership."""
    answered: Callable[[IsrAnswer], None]


class IsrWriter(Protocol):
    """Gets ISR changes written."""

    def submit(self, proposal: IsrProposal) -> bool:
        """Begin; False where a proposal for this partition is on its way already, or none can be sent."""
        ...

    def close(self) -> None:
        """Begin nothing more."""
        ...


class Appended(NamedTuple):
    """What became of a produced payload.  `required_offset` is what the high watermark must reach for acks=all."""

    error: int
    base_offset: int = -1
    last_offset: int = -1
    required_offset: int = -1
    headers: tuple[BatchHeader, ...] = ()
    log_append_time_ms: int = -1
    refusal: RecordsRefused | None = None
    """What was wrong with the records themselves."""


@dataclass(slots=True)
class IsrCounters:
    """Kafka's IsrShrinksPerSec, IsrExpandsPerSec and FailedIsrUpdatesPerSec, as totals."""

    shrinks: int = 0
    expands: int = 0
    failed_updates: int = 0


@dataclass(frozen=True, slots=True)
class PartitionHost:
    """What a partition needs of its broker."""

    broker_id: int
    runtime: Runtime
    metadata: MetadataView
    emit: Emit
    propose_isr: Callable[[IsrProposal], bool]
    """False where a proposal for this partition is on its way already."""
    moved: Callable[[HostedLog], None]
    """The log end or the high watermark moved."""
    wake: Callable[[TopicPartition], None]
    """Look again at the requests that wait for this partition."""
    counters: IsrCounters
    isr_rules: IsrRules
    fences: Fences
    throttle: ReplicationQuota
    """What it may send, as leader, of throttled replicas."""
    selector: ReplicaSelector | None
    """Where consumers had best read from; None: from the leader."""
