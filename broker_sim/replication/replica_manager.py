"""The replicas of one broker: requests about them, metadata, and their lifecycle (Kafka's ReplicaManager).

Everything in this class runs on the broker's one event loop. A call takes effect immediately. Its result has to be
awaited only if it depends on the ISR or on a timer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.replica_config import PartitionConfig, ReplicaConfig, TopicConfigs, no_overrides
from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.logs.housekeeping import LogHousekeeping
from zabka.broker_sim.logs.log_manager import LogManager
from zabka.broker_sim.logs.newest_record import newest_record
from zabka.broker_sim.logs.producer_state import NO_SEQUENCE, AppendOrigin
from zabka.broker_sim.logs.time_search import offset_for_timestamp
from zabka.broker_sim.logs.verification_state import IN_TRANSACTION, Guard
from zabka.broker_sim.ports import (
    Deleted,
    FetchedPartition,
    FetchParams,
    FetchPartition,
    ProducedPartition,
)
from zabka.broker_sim.quotas.replication_throttles import ReplicationThrottles
from zabka.broker_sim.replication.alter_partition import AlterPartitionManager
from zabka.broker_sim.replication.delete_records import DelayedDeletion, DeletionRow
from zabka.broker_sim.replication.environment import BrokerIdentity, ReplicaPorts, ReplicaStorage
from zabka.broker_sim.replication.fencing import fences
from zabka.broker_sim.replication.fetch_answers import read, unchanged_response
from zabka.broker_sim.replication.fetcher import FetcherHost, ReplicaFetchers
from zabka.broker_sim.replication.hosted_partitions import HostedPartitions, with_storage_errors
from zabka.broker_sim.replication.isr_rules import IsrRules
from zabka.broker_sim.replication.log_dir_moves import LogDirMoves
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.partition_host import IsrCounters, IsrWriter, PartitionHost
from zabka.broker_sim.replication.producing import Producing
from zabka.broker_sim.replication.progress import HostedLog, ProgressReports
from zabka.broker_sim.replication.purgatory import DelayedFetch, Purgatory, reads_older_segment
from zabka.broker_sim.replication.replica_selector import replica_selector
from zabka.broker_sim.replication.transaction_verifier import TransactionVerifier
from zabka.broker_sim.replication.transactional_producing import TransactionalProducing
from zabka.broker_sim.slices import in_slices
from zabka.ensemble.ports import Future, Timer
from zabka.journal.events import TopicPartition
from zabka.kafka.end_transaction_marker import EndTransactionMarker
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH, KafkaMessage

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4


def _unread(requested: FetchPartition, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(requested.topic_partition, int(error), -1, -1, b"")


class ReplicaManager:
    """Implements `zabka.broker_sim.ports.ReplicaService`."""

    def __init__(
        self,
        config: ReplicaConfig,
        *,
        identity: BrokerIdentity,
        ports: ReplicaPorts,
        storage: ReplicaStorage,
        topic_configs: TopicConfigs = no_overrides,
        isr_writer: IsrWriter | None = None,
    ) -> None:
        """If `isr_writer` is set, it writes ISR changes, and the controller does not (DIRECT_ZOOKEEPER_ISR)."""
        broker_id, runtime = identity.broker_id, ports.runtime
        self.broker_id = broker_id
        self.config = config
        self.counters = IsrCounters()
        self._runtime = runtime
        self._emit = ports.emit
        self._purgatory = Purgatory(runtime)
        self._isr_writer = isr_writer or AlterPartitionManager(
            broker_id, ports.controller, runtime, identity.broker_epoch, config.replica_socket_timeout_ms
        )
        self._log_dir_failed = storage.log_dir_failed
        self._logs = LogManager(
            broker_id=broker_id,
            directories=storage.log_directories,
            config=config,
            topic_configs=topic_configs,
            emit=ports.emit,
            failed=self._take_offline_later,
            unique=lambda: f"{runtime.random.getrandbits(128):032x}",
            high_watermarks_reached=storage.high_watermarks_reached,
        )
        self.throttles = ReplicationThrottles(config, runtime)
        self._moves = LogDirMoves(self._logs, config, runtime, self.throttles.moves)
        self._housekeeping = LogHousekeeping(
            broker_id, self._logs, config, runtime, emit=ports.emit, start_moved=self._purgatory.wake
        )
        self._fetchers = ReplicaFetchers(
            FetcherHost(
                broker_id=broker_id,
                config=config,
                channel=ports.channel,
                metadata=ports.metadata,
                runtime=runtime,
                broker_epoch=identity.broker_epoch,
                throttle=self.throttles.follower,
            )
        )
        self._progress = ProgressReports(broker_id, runtime, ports.emit, self._is_hosted)
        self._timers: dict[str, Timer] = {}
        host = PartitionHost(
            broker_id=broker_id,
            runtime=runtime,
            metadata=ports.metadata,
            emit=ports.emit,
            propose_isr=self._isr_writer.submit,
            moved=self._progress.note,
            wake=self._purgatory.wake,
            counters=self.counters,
            isr_rules=IsrRules(config.replica_lag_time_max_ms, config.historical),
            fences=fences(config.historical),
            throttle=self.throttles.leader,
            selector=replica_selector(config.replica_selector_class),
        )
        self._hosted = HostedPartitions(
            host, self._logs, self._fetchers, self._moves, identity.broker_epoch, identity.controller_epoch_seen
        )
        self._producing = Producing(broker_id, runtime, self._purgatory, self._hosted, ports.emit)
        self._in_transactions = TransactionalProducing(
            self._producing,
            self._hosted,
            TransactionVerifier(runtime, ports.channel, ports.transaction_coordinator, config.request_timeout_ms),
            config.transaction_partition_verification_enable,
        )

    # ---- lifecycle ---------------------------------------------------------------------------------------------

    def claim_log_directories(self, cluster_id: str) -> None:
        """Check that the log directories belong to this cluster and broker, and mark new ones.

        Raises InconsistentMetaProperties.
        """
        self._logs.claim(cluster_id)

    def start(self) -> None:
        """Open the logs on disk and start the periodic work.

        Partitions become leader or follower when the controller sends LeaderAndIsr.
        """
        self._logs.open_all()
        checkpoint_ms = self.config.replica_high_watermark_checkpoint_interval_ms
        self._every("checkpoint", checkpoint_ms, self._logs.checkpoint_high_watermarks)
        self._every("isr-expiration", max(1, self.config.replica_lag_time_max_ms // 2), self._check_partitions)
        self._housekeeping.start(self._every)

    @property
    def broker_epoch_left(self) -> int:
        """Broker epoch since which these logs have lost no records, as found when they were opened; -1 if unknown.

        It is the epoch of the process that last used the logs, if that process shut down cleanly or was killed without
        a reboot.
        """
        return self._logs.broker_epoch_left

    def shutdown(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Shut down cleanly.

        Stops fetches and proposals, responds to waiting requests, flushes logs, checkpoints high watermarks, and writes
        a shutdown marker with the broker epoch.
        """
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._progress.stop()
        self._housekeeping.close()
        self._fetchers.close()
        self._moves.close()
        self._isr_writer.close()
        self._producing.close()
        self._purgatory.close()
        self._progress.write()
        self._hosted.partitions.clear()
        self._logs.close(broker_epoch)

    def _every(self, name: str, period_ms: int, action: Callable[[], None]) -> None:
        """Call an action periodically. An earlier action with that name is cancelled."""
        if name in self._timers:
            self._timers[name].cancel()

        def due() -> None:
            self._timers[name] = self._runtime.call_later(period_ms, due)
            action()

        self._timers[name] = self._runtime.call_later(period_ms, due)

    def _take_offline_later(
        self, topic_partitions: Sequence[TopicPartition], futures: Sequence[TopicPartition]
    ) -> None:
        # Take the replicas offline later, because the code that detected the failure is still using one of these
        # partitions.
        self._runtime.call_later(0, lambda: self._take_offline(topic_partitions, futures))

    def _take_offline(self, topic_partitions: Sequence[TopicPartition], futures: Sequence[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._hosted.take_offline(topic_partition)
        for topic_partition in futures:
            self._moves.lost(topic_partition, self._hosted.partitions.get(topic_partition))
        self._log_dir_failed()

    def _is_hosted(self, replica: HostedLog) -> bool:
        return self._hosted.partitions.get(replica.topic_partition) is replica

    @property
    def has_storage(self) -> bool:
        """Whether any log directory is online."""
        return not self._logs.is_offline

    @property
    def storage_complaint(self) -> str:
        """The reason why no log directory is online, for the operator."""
        return self._logs.complaint

    def _check_partitions(self) -> None:
        for partition in list(self._hosted.partitions.values()):
            partition.maybe_shrink_isr()
            partition.check_held_stable_offset()

    def metrics(self) -> dict[str, int]:
        """Return the metrics of Kafka's kafka.server:type=ReplicaManager, under Kafka's names."""
        partitions = list(self._hosted.partitions.values())
        return {
            "PartitionCount": len(partitions),
            "LeaderCount": sum(partition.is_leader for partition in partitions),
            "OfflineReplicaCount": self._hosted.offline_count,
            "UnderReplicatedPartitions": sum(partition.is_under_replicated for partition in partitions),
            "UnderMinIsrPartitionCount": sum(partition.is_under_min_isr for partition in partitions),
            "AtMinIsrPartitionCount": sum(partition.is_at_min_isr for partition in partitions),
            "IsrShrinks": self.counters.shrinks,
            "IsrExpands": self.counters.expands,
            "FailedIsrUpdates": self.counters.failed_updates,
        }

    # ---- for other components ------------------------------------------------------------------------------------

    @property
    def logs(self) -> LogManager:
        """The logs of this broker, for inspection."""
        return self._logs

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The hosted partitions, leaders and followers."""
        return self._hosted.partitions

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch in a request so far; 0 before the first request."""
        return self._hosted.controller_epoch

    def accept_control_request(self, name: str, request: KafkaMessage) -> int:
        """Fence a controller's request by broker epoch and controller epoch, and store the controller epoch.

        Called for UpdateMetadata, which another class handles. LeaderAndIsr and StopReplica are fenced by their own
        methods. Returns NONE, STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH. Rejections are journalled.
        """
        return self._hosted.accept(name, request)

    def leave_strays(self, request: KafkaMessage) -> None:
        """Stop hosting partitions that have moved to other brokers, according to an accepted UpdateMetadata."""
        self._hosted.leave_strays(request)

    def configure_housekeeping(self, config: ReplicaConfig) -> None:
        """Apply new settings of compaction, producer expiry and transaction verification.

        Topics must be reconfigured separately.
        """
        self._logs.configure(config)
        self._housekeeping.configure(config)
        self._in_transactions.is_enabled = config.transaction_partition_verification_enable

    def topic_configs_changed(self, topics: Iterable[str]) -> None:
        """Apply the configuration of these topics in one pass, because there may be thousands."""
        settings = self._logs.reconfigure(topics)
        concerned = [key for key in self._hosted.partitions if key.topic in settings]
        for topic_partition in sorted(concerned, key=lambda key: key.topic):
            partition = self._hosted.partitions.get(topic_partition)
            if partition is None:
                continue
            partition.settings = settings[topic_partition.topic]
            if not partition.maybe_advance_high_watermark():
                self._purgatory.wake(topic_partition)

    # ---- requests of the controller ----------------------------------------------------------------------------

    def become_leader_or_follower(self, request: KafkaMessage) -> KafkaMessage:
        """Process LeaderAndIsr. Before sending the response, await `when_stored`."""
        return self._hosted.become_leader_or_follower(request)

    async def when_stored(self, request: KafkaMessage, response: KafkaMessage) -> KafkaMessage:
        """Return the LeaderAndIsr response once the topic ids are on disk, with errors for replicas that failed."""
        failed = await self._logs.sync_topic_ids()
        return with_storage_errors(request, response, failed) if failed else response

    def stop_replica(self, request: KafkaMessage) -> KafkaMessage:
        """Process a StopReplica request of any version."""
        return self._hosted.stop_replica(request)

    # ---- produce -----------------------------------------------------------------------------------------------

    def produce(
        self, batches: Sequence[tuple[TopicPartition, bytes]], acks: int, timeout_ms: int
    ) -> Awaitable[list[ProducedPartition]]:
        """Append records; see `Producing.produce`."""
        return self._producing.produce(batches, acks, timeout_ms)

    def produce_in_transaction(
        self,
        batches: Sequence[tuple[TopicPartition, bytes]],
        acks: int,
        timeout_ms: int,
        transactional_id: str,
        knows_abortable: bool,
    ) -> Awaitable[list[ProducedPartition]]:
        """Append a transactional producer's records; see `TransactionalProducing.produce`."""
        return self._in_transactions.produce(batches, acks, timeout_ms, transactional_id, knows_abortable)

    async def verify_transaction(
        self,
        topic_partition: TopicPartition,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        knows_abortable: bool,
    ) -> tuple[ErrorCode, Guard]:
        """Verify that a transaction is open, before a coordinator appends to the partition.

        Return an error or the guard for the append.
        """
        errors, guards = await self._in_transactions.verify(
            transactional_id, producer_id, producer_epoch, {topic_partition: NO_SEQUENCE}, knows_abortable
        )
        return errors.get(topic_partition, ErrorCode.none), guards.get(topic_partition, IN_TRANSACTION)

    def append_as_coordinator(
        self, topic_partition: TopicPartition, data: bytes, acks: int, timeout_ms: int, guard: Guard
    ) -> Awaitable[list[ProducedPartition]]:
        """Append records that a coordinator writes as part of a producer's transaction.

        The producer's sequence numbers are not checked.
        """
        return self._producing.produce(
            [(topic_partition, data)], acks, timeout_ms, AppendOrigin.COORDINATOR, {topic_partition: guard}
        )

    def append_markers(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        partitions: Sequence[TopicPartition],
        timeout_ms: int,
    ) -> Awaitable[list[ProducedPartition]]:
        """End a producer's transaction; see `Producing.append_markers`."""
        return self._producing.append_markers(producer_id, producer_epoch, marker, partitions, timeout_ms)

    # ---- fetch -------------------------------------------------------------------------------------------------

    def fetch(self, params: FetchParams, partitions: Sequence[FetchPartition]) -> Awaitable[list[FetchedPartition]]:
        """Read the partitions. If that returns fewer bytes than `min_bytes`, wait for more, at most `max_wait_ms`.

        Return immediately if there is an error or a divergence, or if the list of partitions is empty.
        """
        answer: Future[list[FetchedPartition]] = self._runtime.future()
        fetched = self._read(params, partitions, note_fetch=True)
        total, at_once = 0, False
        for row in fetched:
            total += len(row.records)
            if row.error or row.diverging or row.preferred_read_replica >= 0:
                at_once = True
        at_once = at_once or params.max_wait_ms <= 0 or not partitions or total >= params.min_bytes
        if at_once or (total and self._reads_older_segment(params, partitions)):
            self._note_sent(params, fetched)
            answer.set_result(fetched)
            return answer

        def finish(touched: Collection[TopicPartition]) -> None:
            # The caller may no longer wait for the result.
            if not answer.done():
                places = [place for place, row in enumerate(partitions) if row.topic_partition in touched]
                again = self._read(params, [partitions[place] for place in places], note_fetch=False)
                for place, row in zip(places, again, strict=True):
                    fetched[place] = row
                self._note_sent(params, fetched)
                answer.set_result(fetched)

        # No event has occurred since the read, so check the fetch again only after an event.
        operation = DelayedFetch(params, partitions, self._hosted.partitions.get, finish)
        self._purgatory.park(operation, operation.waits_for(), params.max_wait_ms)
        return answer

    def _reads_older_segment(self, params: FetchParams, partitions: Sequence[FetchPartition]) -> bool:
        for requested in partitions:
            partition = self._hosted.partitions.get(requested.topic_partition)
            if partition is not None and reads_older_segment(partition, requested, params):
                return True
        return False

    def _note_sent(self, params: FetchParams, fetched: Sequence[FetchedPartition]) -> None:
        """Charge the bytes of throttled replicas that were sent to followers to the replication quota.

        Bytes sent to followers that are in sync are also counted.
        """
        if params.replica_id < 0 or not self.throttles.leader.is_limited:
            return
        for row in fetched:
            partition = self._hosted.partitions.get(row.topic_partition)
            if row.records and partition is not None and partition.is_throttled_leader:
                self.throttles.leader.note(len(row.records))

    def _read(
        self, params: FetchParams, partitions: Sequence[FetchPartition], note_fetch: bool
    ) -> list[FetchedPartition]:
        fetched: list[FetchedPartition] = []
        left = params.max_bytes
        nothing_yet = True
        is_follower = params.replica_id >= 0
        now_ms = self._runtime.now().mono_ms if note_fetch else None
        for requested in partitions:
            partition = self._hosted.partitions.get(requested.topic_partition)
            if partition is None:
                fetched.append(_unread(requested, self._hosted.absence(requested.topic_partition)))
                continue
            unchanged = unchanged_response(partition, requested, params, now_ms) if is_follower else None
            if unchanged is not None:
                fetched.append(unchanged)
                continue
            try:
                row = read(partition, requested, params, left, nothing_yet, note_fetch)
            except LogDirFailed:
                row = _unread(requested, ErrorCode.kafka_storage_error)
            fetched.append(row)
            if row.records:
                nothing_yet = False
                left = max(0, left - len(row.records))
        return fetched

    # ---- deletion ----------------------------------------------------------------------------------------------

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Awaitable[Mapping[TopicPartition, Deleted]]:
        """Advance log start offsets to these offsets (-1: to the high watermark).

        The result is complete when all live replicas have also advanced their log start offsets. After the timeout, the
        error is REQUEST_TIMED_OUT.
        """
        answer: Future[Mapping[TopicPartition, Deleted]] = self._runtime.future()
        partitions, absence = self._hosted.partitions, self._hosted.absence
        rows = {tp: DeletionRow(partitions.get(tp), offset, absence(tp)) for tp, offset in offsets.items()}
        for row in rows.values():
            row.move_log_start()

        def finish(deleted: Mapping[TopicPartition, Deleted]) -> None:
            if not answer.done():
                answer.set_result(deleted)

        operation = DelayedDeletion(rows, finish)
        waiting = operation.waits_for()
        for topic_partition in rows:
            # Wake the waiting fetches of followers, so that their responses contain the new log start offset.
            self._purgatory.wake(topic_partition)
        if waiting:
            self._purgatory.park(operation, waiting, timeout_ms)
        else:
            operation.finish(())
        return answer

    # ---- topic settings ---------------------------------------------------------------------------------------

    def settings(self, topic_partition: TopicPartition) -> PartitionConfig | None:
        """Return a hosted partition's configuration, or None if it is not hosted."""
        partition = self._hosted.partitions.get(topic_partition)
        return None if partition is None else partition.settings

    # ---- log directories ---------------------------------------------------------------------------------------

    def move_log(self, topic_partition: TopicPartition, place: int) -> ErrorCode:
        """Begin to move a replica to the directory at index `place` of log.dirs.

        A replica that this broker does not host yet will be created in that directory.
        """
        partition = self._hosted.partitions.get(topic_partition)
        if partition is None and self._hosted.absence(topic_partition) is ErrorCode.kafka_storage_error:
            return ErrorCode.kafka_storage_error
        return self._moves.start_move(topic_partition, partition, place)

    # ---- offsets -----------------------------------------------------------------------------------------------

    async def list_offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        current_leader_epoch: int,
        from_follower: bool,
        leader_only: bool = True,
        read_committed: bool = False,
    ) -> tuple[int, int, int, int]:
        """Search for an offset by timestamp. Return (error, timestamp, offset, leader epoch); offset -1 if none was
        found.

        Timestamps: -1 latest, -2 earliest, -3 the record with the highest timestamp, -4 earliest on this disk, -5
        latest in tiered storage (which does not exist in zabka). For any other timestamp, the first record that is not
        older is found.
        """
        partition, error = self._leader(topic_partition, current_leader_epoch, leader_only)
        if partition is None or error:
            return int(error), -1, -1, -1
        try:
            return await in_slices(list_offset(partition, timestamp, from_follower, read_committed), self._runtime)
        except LogDirFailed:
            return ErrorCode.kafka_storage_error, -1, -1, -1

    def offsets_before(
        self, topic_partition: TopicPartition, timestamp: int, count_max: int, from_consumer: bool, leader_only: bool
    ) -> tuple[int, list[int]]:
        """Return (error, offsets) for ListOffsets 0.

        The offsets are the starts of segments that are not younger than `timestamp`, latest first. Source:
        Partition.legacyFetchOffsetsForTimestamp.
        """
        partition, error = self._leader(topic_partition, -1, leader_only)
        if partition is None or error:
            return int(error), []
        offsets = partition.log.offsets_before(timestamp, count_max, self._runtime.now().wall_ms)
        mark = partition.log.high_watermark
        if from_consumer and any(offset > mark for offset in offsets):
            offsets = [mark, *(offset for offset in offsets if offset <= mark)]
        return 0, offsets

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, current_leader_epoch: int, epoch: int
    ) -> tuple[int, int, int]:
        """Return (error, epoch, end offset) for OffsetForLeaderEpoch; (0, -1, -1) if it is unknown."""
        partition, error = self._leader(topic_partition, current_leader_epoch)
        if partition is None or error:
            return int(error), -1, -1
        found = partition.log.epochs.end_offset_for(epoch, partition.log.end_offset)
        return 0, *found

    def leader_and_epoch(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Return the leader and leader epoch that this broker knows for a hosted partition, or None if not hosted."""
        partition = self._hosted.partitions.get(topic_partition)
        if partition is None:
            return None
        return -1 if partition.leader is None else partition.leader, partition.leader_epoch

    def _leader(
        self, topic_partition: TopicPartition, current_leader_epoch: int, leader_only: bool = True
    ) -> tuple[Any, int]:
        partition = self._hosted.partitions.get(topic_partition)
        if partition is None:
            return None, self._hosted.absence(topic_partition)
        return partition, partition.check_epoch(current_leader_epoch, leader_only)


def list_offset(
    partition: Partition, timestamp: int, from_follower: bool, read_committed: bool = False
) -> Generator[None, None, tuple[int, int, int, int]]:
    """Compute the result of `ReplicaManager.list_offset` in slices, so that other tasks can run in between."""
    error, last = partition.last_readable(from_follower, read_committed)
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return 0, -1, log.start_offset, log.epochs.epoch_for_offset(log.start_offset)
    if timestamp == LATEST:
        return (int(error), -1, -1, -1) if error else (0, -1, last, partition.leader_epoch)
    found = None
    if timestamp == MAX_TIMESTAMP:
        found = yield from newest_record(log)
    elif timestamp >= 0:
        found = yield from offset_for_timestamp(log, timestamp)
    if found is None and log.is_closed:
        # During a pause, the log may have moved to another log directory, or the broker may have stopped hosting it.
        if partition.log is log:
            return int(ErrorCode.not_leader_or_follower), -1, -1, -1
        return (yield from list_offset(partition, timestamp, from_follower, read_committed))
    if found is None or found[1] >= last:
        return int(error), -1, -1, -1
    return 0, found[0], found[1], log.epochs.epoch_for_offset(found[1])
