"""The transactional ids of a coordinator, and their log.

Source: kafka.coordinator.transaction.TransactionStateManager. The leader of a partition of `__transaction_state`
coordinates the transactional ids that hash to it. The coordinator epoch is the first leader epoch of this leadership.
Markers contain the coordinator epoch, and partitions reject markers with an older one.

A transition is appended with acks=all, and becomes the current state once every in-sync replica has it. If the
leadership changes before that, the result is NOT_COORDINATOR: the new coordinator has either read the transition from
the log, or truncated it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.store import java_hash
from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.ports import ProducedPartition
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.transactions.config import TransactionConfig
from zabka.broker_sim.transactions.log import read_transaction_log
from zabka.broker_sim.transactions.metadata import TransactionMetadata, TransactionState, Transition
from zabka.broker_sim.transactions.reasons import EXPIRED, Reason
from zabka.broker_sim.transactions.records import transaction_key, transaction_value
from zabka.ensemble.ports import Runtime, Task
from zabka.journal.events import LogDamageFound, TopicPartition
from zabka.kafka.ports import Emit
from zabka.kafka.record_batch import HEADER_SIZE, Record, build_batch
from zabka.kafka.topic_names import TRANSACTION_STATE

_ALL = -1
_TOMBSTONE_BYTES = 19
"""Maximum size of a tombstone record, not counting its key."""
_TOMBSTONE_BATCH_BYTES = 16_384
"""Maximum size of a batch of tombstones, equal to the size of Kafka's buffer for them."""
_NOT_AVAILABLE = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
)
_NOT_HERE = (ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error)
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)

Appended = Callable[[ErrorCode], None]
"""Called with the result of an append."""


class TransactionRefused(Exception):
    """A request about a transactional id is rejected with an error code."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Coordinated(NamedTuple):
    """A transactional id, and the coordinator epoch with which this broker coordinates it."""

    coordinator_epoch: int
    metadata: TransactionMetadata


class LoadedPartition(NamedTuple):
    """The transactional ids in one partition of `__transaction_state`, and the coordinator epoch of this broker."""

    coordinator_epoch: int
    transactions: dict[str, TransactionMetadata]


class _Loading(NamedTuple):
    coordinator_epoch: int
    task: Task


def append_error(error: int) -> ErrorCode:
    """Return the coordinator's error code for a failed append of a transition."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.coordinator_not_available
    if error in _NOT_HERE:
        return ErrorCode.not_coordinator
    if error in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    return ErrorCode(error)


class TransactionStore:
    """The transactional ids in the partitions of `__transaction_state` that this broker leads.

    `loaded` is called with every id of a loaded partition, and `changed` with every completed transition. `unloaded` is
    called with the number of every partition that this broker no longer leads or is about to load again.
    """

    def __init__(
        self,
        config: TransactionConfig,
        replicas: ReplicaManager,
        runtime: Runtime,
        emit: Emit,
        *,
        loaded: Callable[[Coordinated], None],
        unloaded: Callable[[int], None],
        changed: Callable[[TransactionMetadata, Reason], None],
    ) -> None:
        self.partition_count = config.transaction_state_log_num_partitions
        """Number of partitions of `__transaction_state`. It is read from ZooKeeper when the broker starts."""
        self._config = config
        self._replicas = replicas
        self._runtime = runtime
        self._emit = emit
        self._loaded = loaded
        self._unloaded = unloaded
        self._changed = changed
        self._partitions: dict[int, LoadedPartition] = {}
        self._loading: dict[int, _Loading] = {}

    # ---- finding ----------------------------------------------------------------------------------------------

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` for an id."""
        return java_hash(transactional_id) % self.partition_count

    def find(self, transactional_id: str) -> Coordinated | None:
        """Return a transactional id, or None if it does not exist.

        Raises TransactionRefused if this broker does not coordinate the id now.
        """
        partition = self._partition(transactional_id)
        metadata = partition.transactions.get(transactional_id)
        return None if metadata is None else Coordinated(partition.coordinator_epoch, metadata)

    def add(self, metadata: TransactionMetadata) -> Coordinated:
        """Add a transactional id and return it. If the id already exists, return the existing one.

        Raises TransactionRefused.
        """
        partition = self._partition(metadata.transactional_id)
        known = partition.transactions.setdefault(metadata.transactional_id, metadata)
        return Coordinated(partition.coordinator_epoch, known)

    def is_current(self, coordinated: Coordinated) -> bool:
        """Return whether this broker has coordinated the id without interruption since `coordinated` was created."""
        partition = self._partitions.get(self.partition_for(coordinated.metadata.transactional_id))
        return partition is not None and partition.coordinator_epoch == coordinated.coordinator_epoch

    def _partition(self, transactional_id: str) -> LoadedPartition:
        number = self.partition_for(transactional_id)
        if number in self._loading:
            raise TransactionRefused(ErrorCode.coordinator_load_in_progress)
        partition = self._partitions.get(number)
        if partition is None:
            raise TransactionRefused(ErrorCode.not_coordinator)
        return partition

    @property
    def is_loading_any(self) -> bool:
        """Whether this broker is loading any partition of `__transaction_state`."""
        return bool(self._loading)

    def all(self) -> Iterator[Coordinated]:
        """Yield every transactional id that this broker coordinates."""
        for epoch, transactions in list(self._partitions.values()):
            for metadata in list(transactions.values()):
                yield Coordinated(epoch, metadata)

    # ---- loading and unloading ---------------------------------------------------------------------------------

    def roles_changed(self) -> None:
        """Load the partitions of `__transaction_state` that this broker now leads, and unload the others."""
        for number in range(self.partition_count):
            partition = self._replicas.partitions.get(TopicPartition(TRANSACTION_STATE, number))
            epoch = partition.led_since if partition is not None and partition.is_leader else None
            if epoch != self._epoch_of(number):
                self._give_up(number)
                if epoch is not None:
                    task = self._runtime.spawn(self._load(number, epoch), f"load {TRANSACTION_STATE}-{number}")
                    self._loading[number] = _Loading(epoch, task)

    def _epoch_of(self, number: int) -> int | None:
        owned = self._loading.get(number) or self._partitions.get(number)
        return None if owned is None else owned.coordinator_epoch

    def _give_up(self, number: int) -> None:
        loading = self._loading.pop(number, None)
        if loading is not None:
            loading.task.cancel()
        self._partitions.pop(number, None)
        self._unloaded(number)

    async def _load(self, number: int, epoch: int) -> None:
        partition = self._replicas.partitions.get(TopicPartition(TRANSACTION_STATE, number))
        if partition is None or not self._is_loading(number, epoch):
            return
        size = self._config.transaction_state_log_load_buffer_size
        read = None
        with suppress(LogDirFailed):
            # If the log directory fails, another broker becomes coordinator and reads its own replica. Until then, this
            # partition counts as still loading.
            read = await read_transaction_log(partition, size, self._runtime, lambda: self._is_loading(number, epoch))
        if read is None:
            return
        if read.unreadable:
            name = str(partition.topic_partition)
            self._emit(LogDamageFound(name, 0, f"{read.unreadable} records are not transactions", "passed over"))
        del self._loading[number]
        self._partitions[number] = LoadedPartition(epoch, read.transactions)
        for metadata in list(read.transactions.values()):
            self._loaded(Coordinated(epoch, metadata))

    def _is_loading(self, number: int, epoch: int) -> bool:
        loading = self._loading.get(number)
        return loading is not None and loading.coordinator_epoch == epoch

    def close(self) -> None:
        """Stop coordinating transactional ids."""
        for number in [*self._loading, *self._partitions]:
            self._give_up(number)

    # ---- records ----------------------------------------------------------------------------------------------

    def append(
        self, coordinated: Coordinated, to: Transition, why: Reason, done: Appended, keeps_pending: bool = False
    ) -> None:
        """Append a prepared transition immediately. Once the ISR has it, complete the transition and call `done`.

        If the append fails, the transition is no longer pending, unless `keeps_pending` is set and the error is
        COORDINATOR_NOT_AVAILABLE.
        """
        if not self.is_current(coordinated):
            done(ErrorCode.not_coordinator)
            return
        transactional_id = coordinated.metadata.transactional_id
        records: list[tuple[bytes, bytes | None]] = [(transaction_key(transactional_id), transaction_value(to))]
        appended = self._produce(self.partition_for(transactional_id), records, to.timeout_ms)
        # The append counts even if the client has stopped waiting.
        self._runtime.spawn(
            self._appended(coordinated, to, why, appended, done, keeps_pending), f"store {transactional_id}"
        )

    async def _appended(
        self,
        coordinated: Coordinated,
        to: Transition,
        why: Reason,
        appended: Awaitable[list[ProducedPartition]],
        done: Appended,
        keeps_pending: bool,
    ) -> None:
        (row,) = await appended
        error = append_error(row.error)
        metadata = coordinated.metadata
        if error is ErrorCode.none:
            if self.is_current(coordinated):
                metadata.complete(to)
                self._changed(metadata, why)
            else:
                error = ErrorCode.not_coordinator
        elif not (keeps_pending and error is ErrorCode.coordinator_not_available):
            metadata.pending_state = None
        done(error)

    def _produce(
        self, number: int, records: list[tuple[bytes, bytes | None]], timeout_ms: int
    ) -> Awaitable[list[ProducedPartition]]:
        now_ms = self._runtime.now().wall_ms
        batch = build_batch([Record(key, value, now_ms) for key, value in records])
        return self._replicas.produce([(TopicPartition(TRANSACTION_STATE, number), batch)], _ALL, timeout_ms)

    # ---- expiry -----------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Remove transactional ids that have been unused for too long, and write tombstones for them."""
        now_ms = self._runtime.now().wall_ms
        for number, (epoch, transactions) in list(self._partitions.items()):
            batch: list[Coordinated] = []
            size, size_max = 0, self._tombstone_bytes_max(number)
            for metadata in transactions.values():
                if not metadata.is_expired(now_ms, self._config.transactional_id_expiration_ms):
                    continue
                record_size = len(transaction_key(metadata.transactional_id)) + _TOMBSTONE_BYTES
                if batch and size + record_size > size_max:
                    self._forget(number, batch)
                    batch, size = [], 0
                metadata.prepare_dead()
                batch.append(Coordinated(epoch, metadata))
                size += record_size
            if batch:
                self._forget(number, batch)

    def _tombstone_bytes_max(self, number: int) -> int:
        settings = self._replicas.settings(TopicPartition(TRANSACTION_STATE, number))
        allowed = _TOMBSTONE_BATCH_BYTES if settings is None else settings.records.max_message_bytes
        return min(_TOMBSTONE_BATCH_BYTES, allowed) - HEADER_SIZE

    def _forget(self, number: int, expired: list[Coordinated]) -> None:
        records: list[tuple[bytes, bytes | None]] = [
            (transaction_key(each.metadata.transactional_id), None) for each in expired
        ]
        appended = self._produce(number, records, self._config.request_timeout_ms)
        self._runtime.spawn(self._forgotten(expired, appended), f"expire ids of {TRANSACTION_STATE}-{number}")

    async def _forgotten(self, expired: list[Coordinated], appended: Awaitable[list[ProducedPartition]]) -> None:
        (row,) = await appended
        for coordinated in expired:
            metadata = coordinated.metadata
            if row.error != ErrorCode.none or not self.is_current(coordinated):
                metadata.pending_state = None
                continue
            partition = self._partition(metadata.transactional_id)
            del partition.transactions[metadata.transactional_id]
            metadata.state = TransactionState.DEAD
            self._changed(metadata, EXPIRED)
