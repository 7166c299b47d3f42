"""The interface between a partition and its broker: proposals, results, and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from zabka.broker_sim.logs.producer_state import AppendOrigin
from zabka.broker_sim.logs.verification_state import NOT_REQUIRED, Guard
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
    """The controller's response to an ISR proposal. The other fields are valid only if `error` is 0."""

    error: int
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    partition_epoch: int = NO_EPOCH


class IsrProposal(NamedTuple):
    """The ISR that a leader asks the controller to write, conditional on the leader epoch and the partition epoch."""

    topic_partition: TopicPartition
    topic_id: str | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    member_epochs: tuple[int, ...]
    """The broker epoch of each member's last fetch, or -1 if the fetch contained none (KIP-903)."""
    recovery_state: int
    is_shrink: bool
    moved: tuple[ReplicaStanding, ...]
    """The replicas that would leave or join the ISR, with the values on which the proposal is based."""
    controller_epoch: int
    """The epoch of the controller that made the last decision about this partition's leader."""
    answered: Callable[[IsrAnswer], None]


class IsrWriter(Protocol):
    """Sends proposed ISR changes to the controller, or writes them to ZooKeeper."""

    def submit(self, proposal: IsrProposal) -> bool:
        """Submit a proposal.

        Return False if a proposal for this partition is in flight or no proposal can be sent.
        """
        ...

    def close(self) -> None:
        """Stop accepting proposals."""
        ...


class Sender(NamedTuple):
    """Sender of an append (a client or a coordinator), with the guard from its transaction's verification."""

    origin: AppendOrigin
    guard: Guard


CLIENT = Sender(AppendOrigin.CLIENT, NOT_REQUIRED)


class Appended(NamedTuple):
    """The result of an append. For acks=all, the high watermark must reach `required_offset`."""

    error: int
    base_offset: int = -1
    last_offset: int = -1
    required_offset: int = -1
    headers: tuple[BatchHeader, ...] = ()
    log_append_time_ms: int = -1
    refusal: RecordsRefused | None = None
    """The error, if the records themselves are invalid."""


@dataclass(slots=True)
class IsrCounters:
    """Total counts for Kafka's IsrShrinksPerSec, IsrExpandsPerSec and FailedIsrUpdatesPerSec."""

    shrinks: int = 0
    expands: int = 0
    failed_updates: int = 0


@dataclass(frozen=True, slots=True)
class PartitionHost:
    """The parts of a broker that its partitions use."""

    broker_id: int
    runtime: Runtime
    metadata: MetadataView
    emit: Emit
    propose_isr: Callable[[IsrProposal], bool]
    """Submits an ISR proposal. Returns False if a proposal for this partition is in flight."""
    moved: Callable[[HostedLog], None]
    """Called when the log end offset or the high watermark has changed."""
    wake: Callable[[TopicPartition], None]
    """Checks the waiting requests of this partition again."""
    counters: IsrCounters
    isr_rules: IsrRules
    fences: Fences
    throttle: ReplicationQuota
    """The leader's rate limit for sending data of throttled replicas."""
    selector: ReplicaSelector | None
    """Selects the preferred read replica of consumers. If it is None, consumers read from the leader."""
