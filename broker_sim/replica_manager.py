"""The replicas of one broker: what its Kafka port, its metadata and its lifecycle call (Kafka's ReplicaManager).

Everything here happens on the broker's one event loop.  Calls take effect when they are made; what they return is
awaited only for what the ISR or a timer decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from broker_sim.alter_partition import AlterPartitionManager
from broker_sim.fetcher import FetcherHost, ReplicaFetchers
from broker_sim.log_manager import LogManager
from broker_sim.partition import ALL, Partition
from broker_sim.partition_host import Appended, IsrCounters, IsrProposal, PartitionHost
from broker_sim.ports import (
    ControllerGate,
    FetchedPartition,
    FetchParams,
    FetchPartition,
    LogDirectory,
    MetadataView,
    ProducedPartition,
)
from broker_sim.purgatory import DelayedFetch, DelayedProduce, ProduceRow, Purgatory
from broker_sim.replica_config import ReplicaConfig, TopicConfigs, no_overrides
from broker_sim.replica_control import ReplicaControl
from controller.ports import BrokerChannel, Emit, KafkaMessage
from ensemble.ports import Future, Runtime, Timer
from journal.events import RecordsAcknowledged, ReplicaProgressed, TopicPartition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

PROGRESS_PERIOD_MS = 250
"""ReplicaProgressed is written this often at most."""

_ACKS = (0, 1, ALL)


class ReplicaManager:
    """Implements `broker_sim.ports.ReplicaService`."""

    def __init__(
        self,
        broker_id: int,
        config: ReplicaConfig,
        log_directory: LogDirectory,
        channel: BrokerChannel,
        controller: ControllerGate,
        metadata: MetadataView,
        runtime: Runtime,
        emit: Emit,
        broker_epoch: Callable[[], int],
        topic_configs: TopicConfigs = no_overrides,
    ) -> None:
        """`broker_epoch` gives the czxid of this broker's present registration, -1 while there is none."""
        self.broker_id = broker_id
        self.config = config
        self.counters = IsrCounters()
        self._runtime = runtime
        self._emit = emit
        self._purgatory = Purgatory(runtime)
        self._alter_partition = AlterPartitionManager(
            broker_id, controller, runtime, broker_epoch, config.replica_socket_timeout_ms
        )
        self._logs = LogManager(broker_id, log_directory, config, topic_configs, emit)
        self._fetchers = ReplicaFetchers(FetcherHost(broker_id, config, channel, metadata, runtime))
        self._moved: dict[TopicPartition, Partition] = {}
        self._timers: dict[str, Timer] = {}
        host = PartitionHost(
            broker_id=broker_id,
            config=config,
            runtime=runtime,
            metadata=metadata,
            emit=emit,
            propose_isr=self._propose_isr,
            moved=self._note_progress,
            wake=self._purgatory.wake,
            counters=self.counters,
        )
        self._control = ReplicaControl(host, self._logs, self._fetchers, broker_epoch)

    # ---- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the logs on disk and begin the periodic work.  Partitions get their roles from the controller."""
        self._logs.open_all()
        checkpoint_ms = self.config.replica_high_watermark_checkpoint_interval_ms
        self._every("checkpoint", checkpoint_ms, self._logs.checkpoint_high_watermarks)
        self._every("isr-expiration", max(1, self.config.replica_lag_time_max_ms // 2), self._shrink_isrs)

    def shutdown(self) -> None:
        """Stop cleanly: nothing is fetched or proposed any more, waiting requests are answered, logs are flushed and
        high watermarks checkpointed."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._fetchers.close()
        self._alter_partition.close()
        self._purgatory.close()
        self._write_progress()
        self._control.partitions.clear()
        self._logs.close()

    def _every(self, name: str, period_ms: int, action: Callable[[], None]) -> None:
        def due() -> None:
            self._timers[name] = self._runtime.call_later(period_ms, due)
            action()

        self._timers[name] = self._runtime.call_later(period_ms, due)

    def _shrink_isrs(self) -> None:
        for partition in list(self._control.partitions.values()):
            partition.maybe_shrink_isr()

    def _propose_isr(self, proposal: IsrProposal) -> bool:
        return self._alter_partition.submit(proposal)

    def _note_progress(self, partition: Partition) -> None:
        self._moved[partition.topic_partition] = partition
        if "progress" not in self._timers:
            self._timers["progress"] = self._runtime.call_later(PROGRESS_PERIOD_MS, self._write_progress)

    def _write_progress(self) -> None:
        self._timers.pop("progress", None)
        rows = [
            (tp.topic, tp.partition, partition.log.high_watermark, partition.log.end_offset)
            for tp, partition in self._moved.items()
            if self._control.partitions.get(tp) is partition
        ]
        self._moved.clear()
        if rows:
            self._emit(ReplicaProgressed(self.broker_id, rows))

    # ---- what others may look at -------------------------------------------------------------------------------

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The hosted partitions, leaders and followers."""
        return self._control.partitions

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch that a request brought; 0 before the first."""
        return self._control.controller_epoch

    def accept_control_request(self, name: str, request: KafkaMessage) -> int:
        """Fence a request of the controller by broker epoch and controller epoch, and remember the latter.

        For UpdateMetadata, whose handler is elsewhere: the two requests above do it themselves.  Returns NONE,
        STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH; what is refused is journalled.
        """
        return self._control.accept(name, request)

    def topic_config_changed(self, topic: str) -> None:
        """A topic's overrides changed: take them over."""
        settings = self._logs.settings(topic)
        for topic_partition, partition in list(self._control.partitions.items()):
            if topic_partition.topic == topic:
                partition.settings = settings
                partition.log.segment_bytes = settings.segment_bytes
                if not partition.maybe_advance_high_watermark():
                    self._purgatory.wake(topic_partition)

    # ---- requests of the controller ----------------------------------------------------------------------------

    def become_leader_or_follower(self, request: KafkaMessage) -> KafkaMessage:
        """Answer LeaderAndIsr."""
        return self._control.become_leader_or_follower(request)

    def stop_replica(self, request: KafkaMessage) -> KafkaMessage:
        """Answer StopReplica."""
        return self._control.stop_replica(request)

    # ---- produce -----------------------------------------------------------------------------------------------

    def produce(
        self, batches: Sequence[tuple[TopicPartition, bytes]], acks: int, timeout_ms: int
    ) -> Awaitable[list[ProducedPartition]]:
        """Append at once; with acks=all the answer comes when every partition's ISR has the records, or with
        REQUEST_TIMED_OUT.  The answer keeps the order of `batches`."""
        answer: Future[list[ProducedPartition]] = self._runtime.future()
        rows = [self._append(topic_partition, data, acks) for topic_partition, data in batches]

        def finish(done: list[ProduceRow]) -> None:
            # Whoever asked may have gone meanwhile.
            if not answer.done():
                answer.set_result([self._produced(row, acks) for row in done])

        waiting = [row.topic_partition for row in rows if row.error is None]
        if acks == ALL and waiting:
            operation = DelayedProduce(rows, finish)
            if operation.is_ready():
                operation.finish()
            else:
                self._purgatory.park(operation, list(dict.fromkeys(waiting)), timeout_ms)
        else:
            for row in rows:
                row.error = row.appended.error
            finish(rows)
        return answer

    def _append(self, topic_partition: TopicPartition, data: bytes, acks: int) -> ProduceRow:
        partition = self._control.partitions.get(topic_partition)
        if acks not in _ACKS:
            appended = Appended(ErrorCode.invalid_required_acks)
        elif partition is None:
            appended = Appended(ErrorCode.not_leader_or_follower)
        else:
            appended = partition.append(data, acks)
        return ProduceRow(topic_partition, partition, appended)

    def _produced(self, row: ProduceRow, acks: int) -> ProducedPartition:
        error = row.error or 0
        appended = row.appended
        if error or row.partition is None:
            return ProducedPartition(row.topic_partition, int(error), -1, -1, -1)
        if acks:
            for header in appended.headers:
                self._emit(
                    RecordsAcknowledged(
                        broker_id=self.broker_id,
                        topic=row.topic_partition.topic,
                        partition=row.topic_partition.partition,
                        leader_epoch=row.leader_epoch,
                        first_offset=header.base_offset,
                        last_offset=header.last_offset,
                        acks=acks,
                        checksum=header.crc,
                    )
                )
        start = row.partition.log.start_offset
        return ProducedPartition(row.topic_partition, 0, appended.base_offset, -1, start)

    # ---- fetch -------------------------------------------------------------------------------------------------

    def fetch(self, params: FetchParams, partitions: Sequence[FetchPartition]) -> Awaitable[list[FetchedPartition]]:
        """Read now; where that gives less than `min_bytes` the answer waits for more, `max_wait_ms` at most.

        Errors, divergence and an empty list of partitions are answered at once.
        """
        answer: Future[list[FetchedPartition]] = self._runtime.future()
        fetched = self._read(params, partitions, note_fetch=True)
        total = sum(len(row.records) for row in fetched)
        at_once = any(row.error or row.diverging for row in fetched)
        if params.max_wait_ms <= 0 or not partitions or total >= params.min_bytes or at_once:
            answer.set_result(fetched)
            return answer

        def finish() -> None:
            # Whoever asked may have gone meanwhile.
            if not answer.done():
                answer.set_result(self._read(params, partitions, note_fetch=False))

        operation = DelayedFetch(params, partitions, self._control.partitions.get, finish)
        if operation.is_ready():
            operation.finish()
        else:
            keys = list(dict.fromkeys(wanted.topic_partition for wanted in partitions))
            self._purgatory.park(operation, keys, params.max_wait_ms)
        return answer

    def _read(
        self, params: FetchParams, partitions: Sequence[FetchPartition], note_fetch: bool
    ) -> list[FetchedPartition]:
        fetched: list[FetchedPartition] = []
        left = params.max_bytes
        nothing_yet = True
        for wanted in partitions:
            partition = self._control.partitions.get(wanted.topic_partition)
            if partition is None:
                refused = FetchedPartition(wanted.topic_partition, int(ErrorCode.not_leader_or_follower), -1, -1, b"")
                fetched.append(refused)
                continue
            row = partition.read(wanted, params.replica_id, left, nothing_yet, note_fetch)
            fetched.append(row)
            if row.records:
                nothing_yet = False
                left = max(0, left - len(row.records))
        return fetched

    # ---- offsets -----------------------------------------------------------------------------------------------

    def list_offset(
        self, topic_partition: TopicPartition, timestamp: int, current_leader_epoch: int, from_follower: bool
    ) -> tuple[int, int, int, int]:
        """(error, timestamp, offset, leader epoch); timestamp -1 latest, -2 earliest, -3 the record with the highest
        one, else the first record that is not older.  Offset -1 where there is none."""
        partition, error = self._leader(topic_partition, current_leader_epoch)
        if partition is None or error:
            return int(error), -1, -1, -1
        error, last = partition.last_readable(from_follower)
        log = partition.log
        if timestamp == EARLIEST:
            return 0, -1, log.start_offset, log.epochs.epoch_for_offset(log.start_offset)
        if error:
            return int(error), -1, -1, -1
        if timestamp == LATEST:
            return 0, -1, last, partition.leader_epoch
        found = None
        if timestamp == MAX_TIMESTAMP:
            found = log.latest_timestamp()
        elif timestamp >= 0:
            found = log.offset_for_timestamp(timestamp)
        if found is None or found[1] >= last:
            return 0, -1, -1, -1
        return 0, found[0], found[1], log.epochs.epoch_for_offset(found[1])

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, current_leader_epoch: int, epoch: int
    ) -> tuple[int, int, int]:
        """(error, epoch, end offset), as OffsetForLeaderEpoch answers; (0, -1, -1) where that cannot be told."""
        partition, error = self._leader(topic_partition, current_leader_epoch)
        if partition is None or error:
            return int(error), -1, -1
        found = partition.log.epochs.end_offset_for(epoch, partition.log.end_offset)
        return 0, *found

    def _leader(self, topic_partition: TopicPartition, current_leader_epoch: int) -> tuple[Any, int]:
        partition = self._control.partitions.get(topic_partition)
        if partition is None:
            return None, ErrorCode.not_leader_or_follower
        return partition, partition.check_epoch(current_leader_epoch)
