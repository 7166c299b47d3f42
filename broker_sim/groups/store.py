"""The groups that this broker coordinates, and their records in `__consumer_offsets` (Kafka's GroupMetadataManager).

The hash of a group's id selects a partition of `__consumer_offsets`, and the leader of that partition is the group's
coordinator. A new leader first reads the records of the partition. A change of a group becomes visible only after the
ISR has replicated its record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS, GroupConfig
from zabka.broker_sim.groups.log import read_group_log
from zabka.broker_sim.groups.metadata import Group, GroupState
from zabka.broker_sim.groups.offsets import StoredOffset
from zabka.broker_sim.groups.reasons import EXPIRED, TOPICS_DELETED, Reason, taken_over
from zabka.broker_sim.groups.records import OffsetAndMetadata, group_key, group_value, offset_key, offset_value
from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.logs.verification_state import Guard
from zabka.broker_sim.ports import ProducedPartition
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import LogDamageFound, TopicPartition
from zabka.kafka.ports import Emit
from zabka.kafka.record_batch import HEADER_SIZE, TRANSACTIONAL, Record, build_batch

SLICE_GROUPS = 50
"""Number of loaded groups to add before other tasks can run. Adding this many takes about a millisecond."""
_TOMBSTONE_BYTES = 19
"""Maximum size of a tombstone record, not counting its key."""
_NOT_AVAILABLE = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
)
_NOT_HERE = (ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error)
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_fetch_size)

OffsetsByPartition = Mapping[TopicPartition, OffsetAndMetadata]


def java_hash(text: str) -> int:
    """Return Utils.abs(String.hashCode()), computed over UTF-16 code units as in Java."""
    code = 0
    units = text.encode("utf-16-be", errors="surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    # Like Kafka's Utils.abs, take the absolute value of the 32-bit hash code, and do not just clear its sign bit.
    return 0 if code == 1 << 31 else min(code, (1 << 32) - code)


def java_length(text: str) -> int:
    """Return String.length(), the number of UTF-16 code units. A character beyond the first 65,536 counts as two."""
    return len(text) + sum(character > "\uffff" for character in text)


def group_error(error: int) -> ErrorCode:
    """Return SyncGroup's error code for a failed append of the group's record."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.coordinator_not_available
    if error in _NOT_HERE:
        return ErrorCode.not_coordinator
    if error == ErrorCode.request_timed_out:
        return ErrorCode.rebalance_in_progress
    if error in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    return ErrorCode(error)


def commit_error(error: int) -> ErrorCode:
    """Return OffsetCommit's error code for a failed append of offsets."""
    if error == ErrorCode.network_exception:
        # The broker could not reach the transaction coordinator. After this error, clients retry with the same group
        # coordinator.
        return ErrorCode.coordinator_load_in_progress
    if error in _NOT_AVAILABLE:
        return ErrorCode.coordinator_not_available
    if error in _NOT_HERE:
        return ErrorCode.not_coordinator
    if error in _TOO_LARGE:
        return ErrorCode.invalid_commit_offset_size
    return ErrorCode(error)


def _commit_errors(
    offsets: OffsetsByPartition, fitting: OffsetsByPartition, error: ErrorCode
) -> Mapping[TopicPartition, ErrorCode]:
    too_large = ErrorCode.offset_metadata_too_large
    return {topic_partition: error if topic_partition in fitting else too_large for topic_partition in offsets}


class GroupStore:
    """The groups in the partitions of `__consumer_offsets` that this broker leads, keyed by group id.

    Three functions are called with a group: `loaded` after it was read from a log, `unloaded` when this broker no
    longer leads its partition, and `changed` when the group is removed permanently.
    """

    def __init__(
        self,
        config: GroupConfig,
        replicas: ReplicaManager,
        runtime: Runtime,
        emit: Emit,
        changed: Callable[[Group, Reason], None],
        loaded: Callable[[Group, Reason], None],
        unloaded: Callable[[Group], None],
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.partition_count = config.offsets_topic_num_partitions
        """Number of partitions of `__consumer_offsets`. It is read from ZooKeeper when the broker starts."""
        self._config = config
        self._replicas = replicas
        self._runtime = runtime
        self._emit = emit
        self._changed = changed
        self._loaded = loaded
        self._unloaded = unloaded
        self._owned: dict[int, None] = {}
        self._loading: dict[int, Task | None] = {}
        self._deleted_meanwhile: dict[int, dict[TopicPartition, None]] = {}
        """For each partition being read, the partitions of topics deleted since the read began."""
        self._ended_meanwhile: dict[int, list[tuple[int, bool]]] = {}
        """Transactions that ended while a partition was being read, and whether they committed, by partition."""
        self._in_transactions: dict[int, dict[str, None]] = {}
        """For each producer, the groups with pending commits of its transaction (openGroupsForProducer)."""

    # ---- ownership ---------------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` for a group's records."""
        return java_hash(group_id) % self.partition_count

    def owns(self, group_id: str) -> bool:
        """Return whether this broker coordinates the group and has read all its records."""
        return self.partition_for(group_id) in self._owned

    def is_loading(self, group_id: str) -> bool:
        """Return whether this broker is still loading the group's partition of `__consumer_offsets`."""
        return self.partition_for(group_id) in self._loading

    @property
    def is_loading_any(self) -> bool:
        """Whether this broker is loading any partition of `__consumer_offsets`."""
        return bool(self._loading)

    def get_or_create(self, group_id: str) -> Group:
        """Return the group. Create an empty one if it does not exist."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._runtime.now().wall_ms)
        return group

    def does_not_exist(self, group_id: str) -> bool:
        """Return whether it is certain that the group does not exist."""
        group = self.groups.get(group_id)
        return self.owns(group_id) and (group is None or group.state is GroupState.DEAD)

    # ---- loading and unloading ----------------------------------------------------------------------------------

    def roles_changed(self) -> None:
        """Load the partitions of `__consumer_offsets` that this broker now leads, and unload the others."""
        not_led: list[int] = []
        for number in range(self.partition_count):
            partition = self._replicas.partitions.get(TopicPartition(CONSUMER_OFFSETS, number))
            if partition is None or not partition.is_leader:
                not_led.append(number)
            elif number not in self._owned and number not in self._loading:
                self._loading[number] = None
                self._deleted_meanwhile[number] = {}
                self._ended_meanwhile[number] = []
                self._loading[number] = self._runtime.spawn(self._load(number), f"load {partition.topic_partition}")
        self._give_up(not_led)

    async def _load(self, number: int) -> None:
        partition = self._replicas.partitions.get(TopicPartition(CONSUMER_OFFSETS, number))
        if partition is None or number not in self._loading:
            return
        size, leader_epoch = self._config.offsets_load_buffer_size, partition.leader_epoch
        read = None
        with suppress(LogDirFailed):
            # If the log directory fails, another broker becomes coordinator and reads its own replica. Until then, this
            # partition counts as still loading.
            read = await read_group_log(partition, size, self._runtime, lambda: number in self._loading)
        if read is None:
            return
        why = taken_over(partition.topic_partition, leader_epoch)
        if read.unreadable:
            name = str(partition.topic_partition)
            self._emit(
                LogDamageFound(name, 0, f"{read.unreadable} records are neither groups nor offsets", "passed over")
            )
        for taken, group in enumerate(read.groups(self._runtime.now().wall_ms), 1):
            # If partitions were added to __consumer_offsets, this partition still contains records of groups whose ids
            # now hash to another partition. Ignore those records. Kafka loads them, as if this broker still coordinated
            # these groups.
            if group.group_id not in self.groups and self.partition_for(group.group_id) == number:
                self.groups[group.group_id] = group
                for producer_id in group.offsets.producers:
                    self._in_transactions.setdefault(producer_id, {})[group.group_id] = None
                self._loaded(group, why)
            if not taken % SLICE_GROUPS:
                await self._runtime.sleep(0)
        deleted = self._deleted_meanwhile.pop(number, {})
        if deleted:
            read_here = [group for group in self.groups.values() if self.partition_for(group.group_id) == number]
            self.clean_up(read_here, lambda group: group.offsets.remove_deleted(deleted), TOPICS_DELETED)
        self._owned[number] = None
        del self._loading[number]
        for producer_id, is_commit in self._ended_meanwhile.pop(number, []):
            self.end_transaction(producer_id, [number], is_commit)

    def _give_up(self, numbers: Iterable[int]) -> None:
        """Unload the groups of these partitions of `__consumer_offsets`.

        All partitions are processed in one pass, because each pass hashes the id of every group.
        """
        gone: dict[int, None] = {}
        for number in numbers:
            task = self._loading.pop(number, None)
            self._deleted_meanwhile.pop(number, None)
            self._ended_meanwhile.pop(number, None)
            if task is not None:
                # Stop loading. Groups that are already loaded are removed below.
                task.cancel()
            if self._owned.pop(number, self) is not self or task is not None:
                gone[number] = None
        if gone:
            for group in [group for group in self.groups.values() if self.partition_for(group.group_id) in gone]:
                del self.groups[group.group_id]
                for producer_id in group.offsets.producers:
                    self._leave_transaction(producer_id, group.group_id)
                self._unloaded(group)

    def close(self) -> None:
        """Stop loading groups."""
        for task in self._loading.values():
            if task is not None:
                task.cancel()
        self._loading.clear()

    # ---- records -----------------------------------------------------------------------------------------------

    def _append(self, group_id: str, records: list[tuple[bytes, bytes | None]]) -> Awaitable[list[ProducedPartition]]:
        config = self._config
        return self._replicas.produce(
            [(self._partition_of(group_id), self._batch(records))],
            config.offsets_commit_required_acks,
            config.offsets_commit_timeout_ms,
        )

    def _partition_of(self, group_id: str) -> TopicPartition:
        return TopicPartition(CONSUMER_OFFSETS, self.partition_for(group_id))

    def _batch(self, records: list[tuple[bytes, bytes | None]]) -> bytes:
        now_ms = self._runtime.now().wall_ms
        return build_batch([Record(key, value, now_ms) for key, value in records])

    def store_group(self, group: Group, assignment: Mapping[str, bytes]) -> Awaitable[ErrorCode]:
        """Append the group's record immediately, and return an awaitable of SyncGroup's error code.

        The error code is available once the ISR has the record.
        """
        value = group_value(group.to_stored(assignment))
        return self._group_stored(self._append(group.group_id, [(group_key(group.group_id), value)]))

    async def _group_stored(self, appended: Awaitable[list[ProducedPartition]]) -> ErrorCode:
        (row,) = await appended
        return group_error(row.error)

    def store_offsets(self, group: Group, offsets: OffsetsByPartition) -> Awaitable[Mapping[TopicPartition, ErrorCode]]:
        """Append a commit immediately, and return an awaitable of each partition's error code.

        The error codes are available once the ISR has the commit. Metadata longer than offset.metadata.max.bytes
        (counted in Java's characters) is rejected.
        """
        fitting = self._fitting(offsets)
        appended = None
        if fitting:
            group.offsets.prepare(fitting)
            records = [(offset_key(group.group_id, tp), offset_value(offset)) for tp, offset in fitting.items()]
            appended = self._append(group.group_id, list(records))
        return self._offsets_stored(group, offsets, fitting, appended)

    def _fitting(self, offsets: OffsetsByPartition) -> OffsetsByPartition:
        size_max = self._config.offset_metadata_max_bytes
        return {tp: offset for tp, offset in offsets.items() if java_length(offset.metadata) <= size_max}

    async def _offsets_stored(
        self,
        group: Group,
        offsets: OffsetsByPartition,
        fitting: OffsetsByPartition,
        appended: Awaitable[list[ProducedPartition]] | None,
    ) -> Mapping[TopicPartition, ErrorCode]:
        error = ErrorCode.none
        if appended is not None:
            (row,) = await appended
            error = commit_error(row.error)
            for topic_partition, offset in fitting.items():
                if error is ErrorCode.none:
                    group.offsets.complete(topic_partition, StoredOffset(row.base_offset, offset))
                else:
                    group.offsets.fail(topic_partition, offset)
        return _commit_errors(offsets, fitting, error)

    # ---- transactions ------------------------------------------------------------------------------------------

    async def verify_transaction(
        self, group_id: str, transactional_id: str, producer_id: int, producer_epoch: int, knows_abortable: bool
    ) -> tuple[ErrorCode, Guard]:
        """Verify with the transaction coordinator that a commit's transaction is open.

        Return the error, if any, and the guard to pass to the append of the commit.
        """
        error, guard = await self._replicas.verify_transaction(
            self._partition_of(group_id), transactional_id, producer_id, producer_epoch, knows_abortable
        )
        return commit_error(error), guard

    def store_transactional_offsets(
        self, group: Group, producer_id: int, producer_epoch: int, offsets: OffsetsByPartition, guard: Guard
    ) -> Awaitable[Mapping[TopicPartition, ErrorCode]]:
        """Append a commit of a transaction immediately, and return an awaitable of each partition's error code.

        The error codes are available once the ISR has the commit, which stays pending until `end_transaction`. `guard`
        is the result of `verify_transaction`.
        """
        fitting = self._fitting(offsets)
        appended = None
        if fitting:
            self._in_transactions.setdefault(producer_id, {})[group.group_id] = None
            group.offsets.prepare_in_transaction(producer_id, fitting)
            data = self._transactional_batch(group, producer_id, producer_epoch, fitting)
            config = self._config
            appended = self._replicas.append_as_coordinator(
                self._partition_of(group.group_id),
                data,
                config.offsets_commit_required_acks,
                config.offsets_commit_timeout_ms,
                guard,
            )
        return self._stored_in_transaction(group, producer_id, offsets, fitting, appended)

    def _transactional_batch(
        self, group: Group, producer_id: int, producer_epoch: int, offsets: OffsetsByPartition
    ) -> bytes:
        now_ms = self._runtime.now().wall_ms
        rows = [Record(offset_key(group.group_id, tp), offset_value(offset), now_ms) for tp, offset in offsets.items()]
        return build_batch(
            rows, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, attributes=TRANSACTIONAL
        )

    async def _stored_in_transaction(
        self,
        group: Group,
        producer_id: int,
        offsets: OffsetsByPartition,
        fitting: OffsetsByPartition,
        appended: Awaitable[list[ProducedPartition]] | None,
    ) -> Mapping[TopicPartition, ErrorCode]:
        error = ErrorCode.none
        if appended is not None:
            (row,) = await appended
            error = commit_error(row.error)
            for topic_partition, offset in fitting.items():
                if error is ErrorCode.none:
                    stored = StoredOffset(row.base_offset, offset)
                    group.offsets.stored_in_transaction(producer_id, topic_partition, stored)
                else:
                    group.offsets.fail_in_transaction(producer_id, topic_partition)
            if producer_id not in group.offsets.producers:
                self._leave_transaction(producer_id, group.group_id)
        return _commit_errors(offsets, fitting, error)

    def end_transaction(self, producer_id: int, numbers: Iterable[int], is_commit: bool) -> None:
        """Make a transaction's commits visible or drop them, after its markers were written to these partitions.

        If a partition is being loaded, also record the end of the transaction for later, because the load may already
        be past the marker's position.
        """
        ended = list(numbers)
        for number in ended:
            if number in self._ended_meanwhile:
                self._ended_meanwhile[number].append((producer_id, is_commit))
        for group_id in list(self._in_transactions.get(producer_id, ())):
            if self.partition_for(group_id) in ended:
                group = self.groups.get(group_id)
                if group is not None:
                    group.offsets.end_transaction(producer_id, is_commit)
                self._leave_transaction(producer_id, group_id)

    def _leave_transaction(self, producer_id: int, group_id: str) -> None:
        groups = self._in_transactions.get(producer_id, {})
        groups.pop(group_id, None)
        if not groups:
            self._in_transactions.pop(producer_id, None)

    # ---- cleaning up -------------------------------------------------------------------------------------------

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the committed offsets of deleted topics, also from partitions that are being loaded."""
        gone = dict.fromkeys(partitions)
        for deleted in self._deleted_meanwhile.values():
            deleted.update(gone)
        self.clean_up(self.groups.values(), lambda group: group.offsets.remove_deleted(gone), TOPICS_DELETED)

    def expire(self) -> int:
        """Remove offsets past their retention, and empty groups without offsets. Return the number of removed
        offsets.
        """
        now_ms = self._runtime.now().wall_ms
        retention_ms = self._config.offsets_retention_ms
        return self.clean_up(
            self.groups.values(), lambda group: group.remove_expired_offsets(now_ms, retention_ms), EXPIRED
        )

    def clean_up(self, groups: Iterable[Group], remove: Callable[[Group], list[TopicPartition]], reason: Reason) -> int:
        """Call `remove` for each group, and remove groups that are dead or empty afterwards, for this reason.

        Returns the number of removed offsets, without waiting for their tombstones. If tombstones are lost, the next
        coordinator writes them again.
        """
        count = 0
        for group in list(groups):
            removed = remove(group)
            if group.state is GroupState.EMPTY and group.offsets.is_empty:
                group.transition_to(GroupState.DEAD, self._runtime.now().wall_ms)
            if not removed and group.state is not GroupState.DEAD:
                # In most cases there is nothing to write. Return before hashing the group id, which takes time.
                continue
            partition = self._replicas.partitions.get(self._partition_of(group.group_id))
            if partition is None:
                continue
            keys = [offset_key(group.group_id, topic_partition) for topic_partition in removed]
            if group.state is GroupState.DEAD and self.groups.get(group.group_id) is group:
                del self.groups[group.group_id]
                self._changed(group, reason)
                # A group in generation 0 has only committed offsets, so there is no group record to delete.
                if group.generation_id > 0:
                    keys.append(group_key(group.group_id))
            self._write_tombstones(partition, keys)
            count += len(removed)
        return count

    def _write_tombstones(self, partition: Partition, keys: Iterable[bytes]) -> None:
        """Write tombstones, in batches that do not exceed the maximum batch size.

        Kafka writes one batch. If that batch is too large, no tombstone is written, and the next coordinator loads the
        removed offsets again.
        """
        settings = partition.settings
        bytes_max = min(settings.records.max_message_bytes, settings.segment_bytes) - HEADER_SIZE
        batches: list[list[tuple[bytes, bytes | None]]] = []
        size = bytes_max
        for key in keys:
            size += len(key) + _TOMBSTONE_BYTES
            if size > bytes_max:
                batches.append([])
                size = len(key) + _TOMBSTONE_BYTES
            batches[-1].append((key, None))
        for tombstones in batches:
            self._replicas.produce([(partition.topic_partition, self._batch(tombstones))], 0, 0)
