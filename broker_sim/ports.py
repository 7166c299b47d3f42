"""Interfaces of a broker's parts: storage, metadata, the controller, and replication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from zabka.broker_sim.configs.replica_config import PartitionConfig
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.record_refusals import RecordError

ReachedMarks = Callable[[], Mapping[TopicPartition, int]]
"""Returns high watermarks that replicas are known to have reached (`zabka.journal.high_watermarks`)."""


class LogFile(Protocol):
    """One append-only file.

    Writes reach the operating system immediately, so a killed process keeps them. Only `flush` makes them survive a
    power loss.
    """

    def append(self, data: bytes) -> int:
        """Append; return the position at which the data starts."""
        ...

    def read(self, position: int, size: int) -> bytes: ...
    def size(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class DiskSpace(NamedTuple):
    """The size of a log directory's file system, and the bytes that a broker can still write (KIP-827).

    Each is -1 if unknown.
    """

    total_bytes: int = -1
    usable_bytes: int = -1


class LogDirectory(Protocol):
    """One of a broker's log.dirs: one directory per replica, named topic-partition, and small text files."""

    @property
    def boot_id(self) -> str:
        """The id of the current boot of the operating system; empty if unknown.

        Everything written during the same boot still exists, whether flushed or not.
        """
        ...

    def space(self) -> DiskSpace:
        """Return the space of the file system. Raises OSError."""
        ...

    def partitions(self) -> list[str]:
        """Return the names of the replica directories, sorted."""
        ...

    def create_partition(self, name: str) -> None: ...
    def delete_partition(self, name: str) -> None: ...
    def rename_partition(self, name: str, to: str) -> None:
        """Rename a replica directory atomically and durably. Open files stay open."""
        ...

    def list_files(self, name: str) -> list[str]:
        """Return the file names in a replica directory, sorted."""
        ...

    def open(self, name: str, file: str) -> LogFile:
        """Open or create a file in a replica directory."""
        ...

    def remove(self, name: str, file: str) -> None:
        """Remove a file, large or small, if it exists. A power loss may restore it."""
        ...

    def sync_names(self, name: str) -> None:
        """Make the file names of a replica directory, and its own name, survive a power loss."""
        ...

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        """Sync these (replica, file) pairs and their names, so that they survive a power loss.

        Other work continues during the sync. Files deleted before their turn are skipped.
        """
        ...

    def replace(self, name: str, file: str, by: str) -> None:
        """Replace `file` with the file `by` of the same replica, atomically. A power loss may undo the replacement."""
        ...

    def read_text(self, name: str, file: str) -> str | None:
        """Return a small file's content, or None if it does not exist. `name` "" is the log directory itself."""
        ...

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically. The new content survives a killed process.

        It is synced a little later. A power loss before the sync may restore the old file or leave no file.
        """
        ...

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically and durably (temporary file, fsync, rename), like Kafka's checkpoints."""
        ...


class MetadataView(Protocol):
    """The broker's metadata from the last UpdateMetadata."""

    def is_alive(self, broker_id: int) -> bool: ...
    def endpoint(self, broker_id: int) -> Endpoint | None: ...
    def rack(self, broker_id: int) -> str | None:
        """Return a live broker's rack, or None if it has none or is not alive."""
        ...

    def partition(self, topic_partition: TopicPartition) -> object | None:
        """Return a partition's metadata, or None if it is unknown or being deleted."""
        ...


class ControllerGate(Protocol):
    """Sends requests to the active controller. Finds the controller, and retries if it has moved."""

    def call(self, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request. Raises ChannelBroken if there is no controller or no response."""
        ...


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    All transactions before `last_stable_offset` were decided when its marker was appended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a fetch. `current_leader_epoch` and `last_fetched_epoch` are -1 if missing."""

    topic_partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int
    log_start_offset: int = -1
    """The log start offset of the fetching follower; -1 for consumers."""
    topic_id: str | None = None
    """The topic id in the fetch (Fetch 13), or None if the fetch contains the topic's name."""


class FetchParams(msgspec.Struct, frozen=True, gc=False):
    """The other parameters of a fetch. `replica_id` is -1 for consumers."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    reader: Reader | None = None
    """A consumer that a follower may serve (Fetch 11, KIP-392)."""
    replica_epoch: int = -1
    """The fetching follower's broker epoch, or -1 if it is unknown (KIP-903)."""
    read_committed: bool = False
    """Whether a consumer reads only up to the last stable offset (isolation level READ_COMMITTED)."""

    @property
    def leader_only(self) -> bool:
        """Whether only the leader can serve the fetch: for replicas, and for consumers without KIP-392."""
        return self.replica_id >= 0 or (self.replica_id == -1 and self.reader is None)


class Reader(NamedTuple):
    """A consumer's rack ("" for none), and the listener of its connection."""

    rack: str
    listener: str


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition's response. `diverging` is (epoch, end offset) if the fetcher must truncate."""

    topic_partition: TopicPartition
    error: int
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverging: tuple[int, int] | None = None
    preferred_read_replica: int = -1
    """The preferred read replica of the consumer (KIP-392)."""
    last_stable_offset: int = -1
    aborted: Sequence[AbortedTransaction] | None = None
    """Aborted transactions with records in the response, for a consumer that reads committed records."""


class ProducedPartition(NamedTuple):
    """Result of one partition's batch; `error` is Kafka's code."""

    topic_partition: TopicPartition
    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()
    """The records that caused the rejection of their whole batch."""


class Deleted(NamedTuple):
    """Result of one partition's deletion. `low_watermark` is the lowest log start of the live replicas."""

    error: int
    low_watermark: int = -1


class ReplicaService(Protocol):
    """The part of the replica manager (`zabka.broker_sim.replication`) that the Kafka port uses."""

    def become_leader_or_follower(self, request: KafkaMessage) -> KafkaMessage: ...
    def stop_replica(self, request: KafkaMessage) -> KafkaMessage: ...
    def produce(
        self, batches: Sequence[tuple[TopicPartition, bytes]], acks: int, timeout_ms: int
    ) -> Awaitable[list[ProducedPartition]]: ...
    def produce_in_transaction(
        self,
        batches: Sequence[tuple[TopicPartition, bytes]],
        acks: int,
        timeout_ms: int,
        transactional_id: str,
        knows_abortable: bool,
    ) -> Awaitable[list[ProducedPartition]]: ...
    def fetch(self, params: FetchParams, partitions: Sequence[FetchPartition]) -> Awaitable[list[FetchedPartition]]: ...
    async def list_offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        current_leader_epoch: int,
        from_follower: bool,
        leader_only: bool = True,
        read_committed: bool = False,
    ) -> tuple[int, int, int, int]:
        """Return (error, timestamp, offset, leader epoch). `timestamp` -1 means latest, -2 earliest."""
        ...

    def offsets_before(
        self, topic_partition: TopicPartition, timestamp: int, count_max: int, from_consumer: bool, leader_only: bool
    ) -> tuple[int, list[int]]:
        """Return (error, offsets) for ListOffsets 0."""
        ...

    def settings(self, topic_partition: TopicPartition) -> PartitionConfig | None:
        """Return a hosted partition's configuration, or None if it is not hosted."""
        ...

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Awaitable[Mapping[TopicPartition, Deleted]]:
        """Advance log starts; see `ReplicaManager.delete_records`."""
        ...

    def leader_and_epoch(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Return the leader and leader epoch that this broker knows for a hosted partition, or None if not hosted."""
        ...

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, current_leader_epoch: int, epoch: int
    ) -> tuple[int, int, int]:
        """Return (error, epoch, end offset) for OffsetForLeaderEpoch."""
        ...
