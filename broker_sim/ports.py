"""Interfaces between a broker's parts: storage, metadata, the controller, and replication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from zabka.broker_sim.configs.replica_config import PartitionConfig
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.record_refusals import RecordError

ReachedMarks = Callable[[], Mapping[TopicPartition, int]]
"""Function that returns high watermarks that replicas are known to have reached (`zabka.journal.high_watermarks`)."""


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
    """Total size of a log directory's file system, and the usable bytes (KIP-827). Each is -1 if unknown."""

    total_bytes: int = -1
    usable_bytes: int = -1


class LogDirectory(Protocol):
    """One of a broker's log.dirs. It contains one directory per replica, named topic-partition, and small text
    files.
    """

    @property
    def boot_id(self) -> str:
        """Identifier of the operating system's current boot; empty if unknown.

        Data written during the same boot still exist, whether they were flushed or not.
        """
        ...

    def space(self) -> DiskSpace:
        """Return the total and usable space of the file system. Raises OSError."""
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
        """Sync a replica directory, so that its own name and its file names survive a power loss."""
        ...

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        """Sync these (replica, file) pairs and their names in the background, so that they survive a power loss.

        Other tasks run during the sync. Files that are deleted before they are synced are skipped.
        """
        ...

    def replace(self, name: str, file: str, by: str) -> None:
        """Replace `file` with the file `by` of the same replica, atomically. A power loss may undo the replacement."""
        ...

    def read_text(self, name: str, file: str) -> str | None:
        """Return a small file's content, or None if it does not exist.

        If `name` is "", the file is in the log directory itself.
        """
        ...

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically. The new content survives the end of the process.

        The file is synced a little later. A power loss before the sync may restore the old file or leave no file.
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
    """Sends requests to the active controller. Finds the controller, and retries if the controller has changed."""

    def call(self, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request to the controller. Raises ChannelBroken if there is no controller or no response."""
        ...


class AbortedTransaction(NamedTuple):
    """An aborted transaction in the transaction index.

    `last_stable_offset` is the last stable offset at the time when the transaction's marker was appended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition in a Fetch request. `current_leader_epoch` and `last_fetched_epoch` are -1 if missing."""

    topic_partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int
    log_start_offset: int = -1
    """The log start offset of the fetching follower; -1 for consumers."""
    topic_id: str | None = None
    """The topic id from the request (Fetch 13), or None if the request contains the topic's name."""


class FetchParams(msgspec.Struct, frozen=True, gc=False):
    """The parameters of a Fetch request that apply to all its partitions. `replica_id` is -1 for consumers."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    reader: Reader | None = None
    """The consumer, if followers can also respond to it (Fetch 11, KIP-392); otherwise None."""
    replica_epoch: int = -1
    """The fetching follower's broker epoch, or -1 if it is unknown (KIP-903)."""
    read_committed: bool = False
    """Whether the consumer reads only up to the last stable offset (isolation level READ_COMMITTED)."""

    @property
    def leader_only(self) -> bool:
        """Whether only the leader can respond to the fetch. This applies to followers, and to consumers without
        KIP-392.
        """
        return self.replica_id >= 0 or (self.replica_id == -1 and self.reader is None)


class Reader(NamedTuple):
    """A consumer's rack ("" for none), and the listener that the consumer is connected to."""

    rack: str
    listener: str


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition in a Fetch response. `diverging` is (epoch, end offset) if the fetcher must truncate."""

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
    """Aborted transactions with records in the response, for a consumer with isolation level READ_COMMITTED."""


class ProducedPartition(NamedTuple):
    """Result of the append to one partition. `error` is Kafka's error code."""

    topic_partition: TopicPartition
    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()
    """The records that caused the rejection of their whole batch."""


class Deleted(NamedTuple):
    """Result of DeleteRecords for one partition. `low_watermark` is the lowest log start offset of the live
    replicas.
    """

    error: int
    low_watermark: int = -1


class ReplicaService(Protocol):
    """The methods of the replica manager (`zabka.broker_sim.replication`) that request handlers use."""

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
        """Search for an offset by timestamp; -1 means latest, -2 earliest.

        Return (error, timestamp, offset, leader epoch).
        """
        ...

    def offsets_before(
        self, topic_partition: TopicPartition, timestamp: int, count_max: int, from_consumer: bool, leader_only: bool
    ) -> tuple[int, list[int]]:
        """Search for offsets as ListOffsets 0 does. Return (error, offsets)."""
        ...

    def settings(self, topic_partition: TopicPartition) -> PartitionConfig | None:
        """Return a partition's configuration, or None if this broker does not host the partition."""
        ...

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Awaitable[Mapping[TopicPartition, Deleted]]:
        """Advance log start offsets; see `ReplicaManager.delete_records`."""
        ...

    def leader_and_epoch(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Return the leader and leader epoch that this broker knows for a hosted partition, or None if not hosted."""
        ...

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, current_leader_epoch: int, epoch: int
    ) -> tuple[int, int, int]:
        """Return (error, epoch, end offset) for OffsetForLeaderEpoch."""
        ...
