"""What a broker's pure parts are handed: storage, the metadata they may look at, and the way to the controller."""

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
    """One append-only file.  Writes reach the operating system at once (a killed process keeps them); only `flush`
    makes them survive a power loss."""

    def append(self, data: bytes) -> int:
        """Append; returns the position the data starts at."""
        ...

    def read(self, position: int, size: int) -> bytes: ...
    def size(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class DiskSpace(NamedTuple):
    """The size of a log directory's file system, and the bytes that a broker can still write (KIP-827); -1 each if
    unknown."""

    total_bytes: int = -1
    usable_bytes: int = -1


class LogDirectory(Protocol):
    """A broker's log.dirs: one directory a replica, named topic-partition, plus small text files."""

    @property
    def boot_id(self) -> str:
        """Names this run of the operating system: whatever was written under the same one is there, flushed or not.
        Empty where that is not known."""
        ...

    def space(self) -> DiskSpace:
        """The space of the file system.  Raises OSError."""
        ...

    def partitions(self) -> list[str]:
        """Names of the replica directories, sorted."""
        ...

    def create_partition(self, name: str) -> None: ...
    def delete_partition(self, name: str) -> None: ...
    def rename_partition(self, name: str, to: str) -> None:
        """Give a replica directory another name, atomically and durably; files that are open in it stay so."""
        ...

    def list_files(self, name: str) -> list[str]:
        """File names in a replica directory, sorted."""
        ...

    def open(self, name: str, file: str) -> LogFile:
        """Open or create a file in a replica directory."""
        ...

    def remove(self, name: str, file: str) -> None:
        """Remove a file, large or small, if it is there; a power loss may bring it back."""
        ...

    def sync_names(self, name: str) -> None:
        """What files a replica directory has, and that there is one, survives a power loss from now on."""
        ...

    async def sync_beside(self, files: Sequence[tuple[str, str]]) -> None:
        """Of these (replica, file) what was written so far, and their names, survive a power loss once this returns.

        The process does other things meanwhile.  A file that is gone by then is left out.
        """
        ...

    def replace(self, name: str, file: str, by: str) -> None:
        """Put the file `by` in the place of `file`, atomically; both are of one replica.  A power loss may undo it."""
        ...

    def read_text(self, name: str, file: str) -> str | None:
        """A small file's content; None where it does not exist.  `name` "" is the log directory itself."""
        ...

    def exchange_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically; a killed process keeps it.  It is on the disk a little later: a power loss
        before that may bring the old one back, or leave none."""
        ...

    def write_text(self, name: str, file: str, text: str) -> None:
        """Replace a small file atomically (written aside, fsynced, renamed), as Kafka's checkpoint files."""
        ...


class MetadataView(Protocol):
    """What the broker was last told by UpdateMetadata."""

    def is_alive(self, broker_id: int) -> bool: ...
    def endpoint(self, broker_id: int) -> Endpoint | None: ...
    def rack(self, broker_id: int) -> str | None:
        """A live broker's rack; None where it has none or is not alive."""
        ...

    def partition(self, topic_partition: TopicPartition) -> object | None:
        """What is known of a partition; None for nothing, and where it is being deleted."""
        ...


class ControllerGate(Protocol):
    """Requests to whoever is controller now; finds it, retries where it moved."""

    def call(self, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Raises ChannelBroken when there is no controller or no answer."""
        ...


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a fetch.  `current_leader_epoch` and `last_fetched_epoch` are -1 where not given."""

    topic_partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int
    log_start_offset: int = -1
    """Where the fetching follower's own log starts; -1 from consumers."""
    topic_id: str | None = None
    """The topic id the fetcher named (Fetch 13), None where it named the topic."""


class FetchParams(msgspec.Struct, frozen=True, gc=False):
    """The rest of a fetch.  `replica_id` is -1 for consumers."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    reader: Reader | None = None
    """A consumer that may be served by a follower (Fetch 11, KIP-392)."""
    replica_epoch: int = -1
    """The fetching follower's broker epoch, -1 where it did not say (KIP-903)."""

    @property
    def leader_only(self) -> bool:
        """Must it be the leader that answers?  Replicas and consumers that know of no other way say so."""
        return self.replica_id >= 0 or (self.replica_id == -1 and self.reader is None)


class Reader(NamedTuple):
    """Where a consumer stands: its rack ("" for none), and the listener it came in by."""

    rack: str
    listener: str


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition's answer.  `diverging` is (epoch, end offset) where the fetcher must truncate."""

    topic_partition: TopicPartition
    error: int
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverging: tuple[int, int] | None = None
    preferred_read_replica: int = -1
    """A replica that the consumer should rather read from (KIP-392)."""


class ProducedPartition(NamedTuple):
    """What became of one partition's batch; `error` is Kafka's code."""

    topic_partition: TopicPartition
    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()
    """The records that made the others of their batch be refused as well."""


class Deleted(NamedTuple):
    """What became of one partition's deletion; `low_watermark` is where the live replicas' logs start at least."""

    error: int
    low_watermark: int = -1


class ReplicaService(Protocol):
    """What the Kafka port needs of the replica manager (`ReplicaManager` in `zabka.broker_sim.replication`)."""

    def become_leader_or_follower(self, request: KafkaMessage) -> KafkaMessage: ...
    def stop_replica(self, request: KafkaMessage) -> KafkaMessage: ...
    def produce(
        self, batches: Sequence[tuple[TopicPartition, bytes]], acks: int, timeout_ms: int
    ) -> Awaitable[list[ProducedPartition]]: ...
    def fetch(self, params: FetchParams, partitions: Sequence[FetchPartition]) -> Awaitable[list[FetchedPartition]]: ...
    async def list_offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        current_leader_epoch: int,
        from_follower: bool,
        leader_only: bool = True,
    ) -> tuple[int, int, int, int]:
        """(error, timestamp, offset, leader epoch); timestamp -1 latest, -2 earliest."""
        ...

    def offsets_before(
        self, topic_partition: TopicPartition, timestamp: int, count_max: int, from_consumer: bool, leader_only: bool
    ) -> tuple[int, list[int]]:
        """(error, offsets), as ListOffsets 0 answers."""
        ...

    def settings(self, topic_partition: TopicPartition) -> PartitionConfig | None:
        """A hosted partition's configuration; None where it is not hosted."""
        ...

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Awaitable[Mapping[TopicPartition, Deleted]]:
        """Move the starts of logs up; see `ReplicaManager.delete_records`."""
        ...

    def leader_and_epoch(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Who leads a hosted partition in which epoch, as this broker knows it; None where it hosts no such."""
        ...

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, current_leader_epoch: int, epoch: int
    ) -> tuple[int, int, int]:
        """(error, epoch, end offset), as OffsetForLeaderEpoch answers."""
        ...
