"""The interface for election tests that the live and the simulated cluster share.

A test that uses a `Cluster` can run with real processes (`zabka.testing.live`, fixture `zabka_cluster`) and in virtual
time (`zabka.testing.worlds`, fixture `zabka_world`). Every call blocks; use `until` to wait for a condition. A failed
call raises `ClusterFailed`: the cluster rejected a request, or a condition did not become true in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack

import msgspec

from zabka.testing.records import IsolationLevel, Payload, Record

if TYPE_CHECKING:
    # Import these modules for type checking only: tests start a live cluster before they import its clients.
    from zabka.kafka.client.group_admin import GroupInfo
    from zabka.testing.request_faults import RequestMatch, RequestSelection

T = TypeVar("T")

Happening = dict[str, Any]
"""Journal event as JSON: common fields such as node and mono_us, and the fields of its type
(`zabka.journal.events`).
"""

ClientLibrary = Literal["confluent", "aiokafka", "kafka-python", "java"]
"""Client libraries for which a live cluster has a configuration; `confluent` means all clients of librdkafka."""

READY_TIMEOUT_S = 90.0
FIXTURE_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""Settings of all test clusters, unless a test overrides them: the first member of a group does not wait for others."""


class ClusterFailed(AssertionError):
    """The cluster did not start, it rejected a request, or a condition did not become true in time."""

    cause_key: tuple[str, ...] = ()
    """Kind of the cause, and what identifies it. Failures of one line with different keys are different failures."""

    def __init__(self, *message: object, cause_key: tuple[str, ...] = ()) -> None:
        super().__init__(*message)
        self.cause_key = cause_key


class Believes(msgspec.Struct, frozen=True):
    """The controller that a broker considers active, according to the broker's last report."""

    controller_id: int
    controller_epoch: int


class Partition(msgspec.Struct, frozen=True):
    """One partition: its state in the ensemble, and the log positions of its replicas.

    `high_watermark` is the high watermark of the leader; `log_end_offsets` has the log end offset that each broker last
    reported.
    """

    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    partition_epoch: int
    high_watermark: int | None
    log_end_offsets: dict[int, int]

    @property
    def offline(self) -> bool:
        """Whether the partition has no leader."""
        return self.leader == -1

    @property
    def in_sync(self) -> bool:
        """Whether the partition has a leader, and all replicas are in its ISR."""
        return not self.offline and sorted(self.isr) == sorted(self.replicas)


class WorkloadCounts(msgspec.Struct, frozen=True):
    """Counts of a workload; `lost` counts acknowledged records that were missing when the workload read them back."""

    sent: int
    acknowledged: int
    failed: int
    lost: int
    verified: bool


class ConsumerCounts(msgspec.Struct, frozen=True):
    """Counts of a consumer.

    `consumed` is the number of records new to its group, `duplicates` the number of records that the group had already
    read, `out_of_order` the number of records read after a record with a higher offset, and `lag` the lag in records.
    `partitions` are the partitions assigned to the consumer.
    """

    consumed: int
    duplicates: int
    out_of_order: int
    lag: int
    partitions: list[int]


class TransactionCounts(msgspec.Struct, frozen=True):
    """Counts of a transactional workload; `records` counts the records in committed transactions.

    A transaction counts as unknown if its commit was not acknowledged.
    """

    committed: int
    aborted: int
    unknown: int
    records: int


class Node(Protocol):
    """One peer or broker: the state of its process, and methods to control it."""

    @property
    def id(self) -> int:
        """The peer's or broker's id."""
        ...

    @property
    def name(self) -> str:
        """The node's name, such as broker-1."""
        ...

    @property
    def process(self) -> str:
        """The state of the process: `running`, `paused` or `down`."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the process; the node stays down until `start`."""
        ...

    def stop(self) -> None:
        """Stop the node with SIGTERM; a broker performs a controlled shutdown."""
        ...

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        ...

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        ...

    def start(self) -> None:
        """Start the node after a stop or kill."""
        ...

    def restart(self) -> None:
        """Stop the node, and start it again."""
        ...


class Broker(Node, Protocol):
    """A Kafka broker of the cluster."""

    @property
    def registered(self) -> bool:
        """Whether the broker's ephemeral znode exists in /brokers/ids, according to the ensemble."""
        ...

    @property
    def is_controller(self) -> bool:
        """Whether the broker considers itself the controller, correctly or not."""
        ...

    @property
    def believes(self) -> Believes:
        """The controller that this broker considers active, according to its last report."""
        ...


class Peer(Node, Protocol):
    """A server of the ensemble."""

    @property
    def state(self) -> str:
        """The peer's state: LEADING, FOLLOWING, LOOKING, OBSERVING or DOWN."""
        ...

    @property
    def phase(self) -> str:
        """The peer's ZAB phase: ELECTION, DISCOVERY, SYNCHRONIZATION or BROADCAST."""
        ...


class Topic(Protocol):
    """A topic of the cluster."""

    @property
    def name(self) -> str:
        """The topic's name."""
        ...

    @property
    def partitions(self) -> Sequence[Partition]:
        """The topic's current partitions, ordered by number."""
        ...

    @property
    def config(self) -> Mapping[str, str]:
        """The topic's configuration overrides."""
        ...

    def set_config(self, changes: Mapping[str, str | None]) -> None:
        """Set configuration overrides; a value of None removes an override."""
        ...

    def delete(self) -> None:
        """Delete the topic."""
        ...


class Topics(Protocol):
    """The cluster's topics; `topics["orders"]` is the topic with that name."""

    def create(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic, by default with a replica on every broker, and wait until its partitions have leaders."""
        ...

    def ask_for(self, name: str, partitions: int = 1) -> None:
        """Send the controller a request to create a topic with a replica on every broker; do not wait for the reply."""
        ...

    def names(self) -> list[str]:
        """Return the names of all topics in order, without Kafka's internal topics."""
        ...

    def __getitem__(self, name: str) -> Topic: ...


class Fault(Protocol):
    """An active fault."""

    def heal(self) -> None:
        """End the fault."""
        ...


class RequestFaults(Fault, Protocol):
    """The active request faults of one rule, or of a ready-made set of rules."""

    @property
    def used(self) -> int:
        """Number of requests, on all nodes, to which the faults have been applied."""
        ...


class Faults(Protocol):
    """Faults of links between running nodes, and faults of requests.

    The ends of a link are nodes or their names; "*" means every other node.
    """

    def cut(self, source: Node | str, target: Node | str = "*", *, both_ways: bool = True) -> Fault:
        """Drop all traffic between source and target, or only from source to target if not `both_ways`."""
        ...

    def delay(self, source: Node | str, target: Node | str, delay_ms: int, *, both_ways: bool = True) -> Fault:
        """Delay all traffic between source and target, or only from source to target if not `both_ways`."""
        ...

    def on_request(self, name: str, **match: Unpack[RequestMatch]) -> RequestSelection[Any]:
        """Select requests of a Kafka API or a ZooKeeper operation.  Methods of the returned object define the fault.

        `on_request("Produce", topic="orders").drop_response().once()` returns the `RequestFaults`.
        """
        ...

    def add_set(self, name: str, **narrowing: str | float) -> RequestFaults:
        """Add a ready-made set of request faults, restricted by `narrowing`, for example to a topic."""
        ...

    def heal(self) -> None:
        """End all active faults."""
        ...


class Workload(Protocol):
    """A producer that writes at a steady rate, and a check that reads all acknowledged records back."""

    @property
    def counts(self) -> WorkloadCounts:
        """The workload's current counts."""
        ...

    def stop(self) -> WorkloadCounts:
        """Stop the workload: wait for requests in flight, read everything back, and return the final counts."""
        ...


class Consumer(Protocol):
    """A member of a consumer group."""

    @property
    def counts(self) -> ConsumerCounts:
        """The consumer's current counts."""
        ...

    def stop(self) -> ConsumerCounts:
        """Make the consumer commit and leave its group, and return the final counts."""
        ...


class Transactions(Protocol):
    """A transactional producer, or a loop that reads, processes and writes exactly once."""

    @property
    def counts(self) -> TransactionCounts:
        """The workload's current counts."""
        ...

    def stop(self) -> TransactionCounts:
        """Make the workload end its open transaction, and return the final counts."""
        ...


class Cluster(Protocol):
    """A cluster of peers and brokers."""

    @property
    def peers(self) -> Mapping[int, Peer]:
        """The ensemble's peers, keyed by id."""
        ...

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The brokers, keyed by id."""
        ...

    @property
    def topics(self) -> Topics:
        """The cluster's topics."""
        ...

    @property
    def faults(self) -> Faults:
        """Methods to inject faults into the cluster."""
        ...

    @property
    def controller(self) -> Broker | None:
        """The broker that is controller according to the ensemble, or None."""
        ...

    @property
    def controller_epoch(self) -> int:
        """The value of /controller_epoch."""
        ...

    @property
    def zab_leader(self) -> Peer | None:
        """The peer that is the established leader of the ensemble, or None."""
        ...

    @property
    def now_us(self) -> int:
        """Current time on the clock of the events' `mono_us`, which is the same for every node of a test's cluster."""
        ...

    def settings(self, node: str = "broker-1") -> dict[str, str]:
        """Return the effective configuration that a node wrote to its journal at its start."""
        ...

    def events(self, *types: str, after_us: int | None = None) -> list[Happening]:
        """Return the events since the test began, or since `after_us`; with `types`, only events of these types."""
        ...

    def elect(self, kind: str, topic: str, partition: int = 0) -> str | None:
        """Request a PREFERRED or UNCLEAN election; return None, or Kafka's error name if it failed."""
        ...

    def produce(
        self,
        topic: str,
        values: Sequence[Payload | Record],
        partition: int = 0,
        *,
        acks: int = -1,
        timeout_s: float = 10.0,
    ) -> int:
        """Write values or whole records, in one batch per partition, and return the offset of the first record.

        Raises ClusterFailed if a batch is not acknowledged.
        """
        ...

    def consume(self, topic: str, partition: int = 0, *, timeout_s: float = 10.0) -> list[str]:
        """Return every committed value of a partition as a string, in order.

        Raises ClusterFailed if no broker returns them.
        """
        ...

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout_s: float = 10.0,
    ) -> list[Record]:
        """Return the committed records of a partition, or those of all partitions in partition order.

        These are the records below the high watermark or, with read_committed, below the last stable offset. Raises
        ClusterFailed if no broker returns them.
        """
        ...

    def coordinator(self, group: str) -> Broker:
        """Return the broker that is the coordinator of a consumer group."""
        ...

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Return a group's lag: the number of records after its committed offset, keyed by topic and partition."""
        ...

    def move_leader(self, topic: str, partition: int, to: Broker | int, timeout_s: float = 30.0) -> None:
        """Make a replica the preferred leader of a partition, and elect it."""
        ...

    def until_leads(self, broker: Broker | int, topic: str, partition: int = 0, timeout_s: float = 30.0) -> None:
        """Wait until a broker leads a partition."""
        ...

    def until_in_sync(self, topic: str, timeout_s: float = 60.0) -> None:
        """Wait until every partition of a topic has a leader and all its replicas in the ISR."""
        ...

    def until_stable(self, group: str, members: int | None = None, timeout_s: float = 60.0) -> GroupInfo:
        """Wait until a group is Stable, with `members` members if given, and return its description."""
        ...

    def until_caught_up(self, group: str, timeout_s: float = 60.0) -> None:
        """Wait until a group has committed offsets and has no lag."""
        ...

    def workload(self, topic: str, *, acks: str = "all", records_per_s: float = 50) -> Workload:
        """Start a workload that writes to all partitions of a topic."""
        ...

    def consumer(self, topic: str, group: str, *, offsets: Literal["kafka", "zookeeper"] = "kafka") -> Consumer:
        """Start a member of a consumer group.

        With `offsets="zookeeper"`, the member is an old consumer (before Kafka 0.9), which stores its offsets in
        ZooKeeper.
        """
        ...

    def transactional_producer(
        self, topic: str, *, transactional_id: str | None = None, records_per_s: float = 50, abort_every: int = 0
    ) -> Transactions:
        """Start a producer that writes one transaction after another, and aborts every `abort_every`-th (0: none).

        Without a `transactional_id`, the producer uses a generated id.
        """
        ...

    def read_process_write(
        self, topic: str, output: str, group: str, *, transactional_id: str | None = None
    ) -> Transactions:
        """Start a member of a group that copies the committed records of a topic to another topic, exactly once."""
        ...

    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Poll until the condition returns a true value, and return that value.

        If the condition raises an assertion or an error of a client, it is evaluated again
        (`zabka.testing.conditions`). Raises ClusterFailed after `timeout_s`, with the condition's source code and its
        last value or exception.
        """
        ...

    def until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the ensemble has a quorum, there is a controller, and every running broker is registered."""
        ...

    def let_pass(self, seconds: float) -> None:
        """Wait for `seconds`, for example to check that something does not happen."""
        ...


def only(events: Sequence[Happening], **fields: object) -> list[Happening]:
    """Return the events whose fields have these values."""
    return [event for event in events if all(event.get(name) == value for name, value in fields.items())]
