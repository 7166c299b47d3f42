"""A small Kafka client: metadata, produce and fetch. `admin_client` adds administrative requests.

This is pure coroutine code over a `BrokerChannel`, so it runs over sockets and in the simulated world. The client finds
leaders, and retries with refreshed metadata if they have moved, until a request times out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Future, Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.read_committed import committed_records
from zabka.kafka.record_batch import (
    TRANSACTIONAL,
    Record,
    build_batch,
    decode_records,
    offset_after,
    stamped_offsets,
)
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.wire.data_messages import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
    error_code,
)
from zabka.kafka.wire.kafka_schema import ApiKey, as_time, request

T = TypeVar("T")

RETRY_BACKOFF_MS = 100
REQUEST_TIMEOUT_MS = 30_000
ATTEMPT_MS_MAX = 5_000
"""Maximum wait for one broker's reply. After that, the client sends the request to another broker."""
FIRST_LOOK_MS = 1_000
"""Maximum wait for one broker's reply in the first round of a metadata request.

The limit is short, because every broker can return metadata at once.
"""
FETCH_BYTES_MAX = 4 * 1024 * 1024
PRODUCE_VERSION = 9
FETCH_VERSION = 12

RETRIED = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
    }
)
"""Errors after which the client refreshes its metadata and sends the request again."""


class PartitionInfo(NamedTuple):
    """A partition in a metadata response. Leader -1 means that it has no leader."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode


class TopicInfo(NamedTuple):
    """A topic in a metadata response. `topic_id` is in the form that Kafka's tools print."""

    name: str
    topic_id: str | None
    error: ErrorCode
    partitions: tuple[PartitionInfo, ...]


class ClusterInfo(NamedTuple):
    """Content of a metadata response."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Endpoint]
    topics: Mapping[str, TopicInfo]
    racks: Mapping[int, str | None] = {}
    """The rack of each broker."""


class Isolation(IntEnum):
    """Values of the consumer config isolation.level."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Fetched(NamedTuple):
    """Records of one partition, from the requested offset on, and the current offsets of the partition's log."""

    records: list[Record]
    high_watermark: int
    log_start_offset: int
    next_offset: int = -1
    """Next offset to fetch. It is higher than the last record's offset + 1 if compaction removed the following
    records.
    """
    stamped: Sequence[range] = ()
    """Offsets of the records whose timestamp was set by the leader and not by the producer."""


class KafkaClient:
    """Client of one cluster.

    `bootstrap` contains the first brokers to contact; their ids are not used. Methods raise KafkaRequestFailed if a
    broker rejects a request, KafkaUnavailable if no broker replies in time.
    """

    def __init__(self, channel: BrokerChannel, runtime: Runtime, bootstrap: Sequence[tuple[str, int]]) -> None:
        assert bootstrap, "at least one broker to begin with"
        self._channel = channel
        self._runtime = runtime
        self._bootstrap = [Endpoint(-1 - index, host, port) for index, (host, port) in enumerate(bootstrap)]
        self._next = 0
        self.cluster: ClusterInfo | None = None
        self._refreshing: list[Future[None]] | None = None

    # ---- metadata ---------------------------------------------------------------------------------------------

    async def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_ms: int = REQUEST_TIMEOUT_MS, create: bool = False
    ) -> ClusterInfo:
        """Return the metadata of the cluster and of these topics, or all topics, from any broker that replies.

        With `create`, brokers may create missing topics (auto.create.topics.enable).
        """
        rows = None if topics is None else [{"name": topic} for topic in topics]
        asked = request(ApiKey.METADATA, 12, topics=rows, allow_auto_topic_creation=create)
        return self._learn(await self.any_broker(asked, timeout_ms, FIRST_LOOK_MS), topics is None)

    def _learn(self, response: KafkaMessage, whole: bool) -> ClusterInfo:
        """Store the metadata from a broker's response. `whole` means that it contains all topics."""
        found = _cluster(response)
        known = {} if self.cluster is None or whole else dict(self.cluster.topics)
        self.cluster = found._replace(topics={**known, **found.topics})
        return found

    async def refresh(self) -> None:
        """Refresh the metadata, with one request for all concurrent callers."""
        if self._refreshing is not None:
            turn: Future[None] = self._runtime.future()
            self._refreshing.append(turn)
            await turn
            return
        self._refreshing = []
        try:
            await self.metadata(timeout_ms=ATTEMPT_MS_MAX)
        except KafkaUnavailable:
            pass
        finally:
            turns, self._refreshing = self._refreshing, None
            for turn in turns:
                if not turn.done():
                    turn.set_result(None)

    async def any_broker(
        self, message: KafkaMessage, timeout_ms: int, attempt_ms: int = ATTEMPT_MS_MAX
    ) -> KafkaMessage:
        """Send a request to one broker after another until one replies.

        The timeout of one attempt begins with `attempt_ms`, and doubles after each round of brokers.
        """
        deadline_ms = self._runtime.now().mono_ms + timeout_ms
        reason = "no time"
        attempts = 0
        while (left_ms := deadline_ms - self._runtime.now().mono_ms) > 0:
            known = [] if self.cluster is None else list(self.cluster.brokers.values())
            candidates = known + self._bootstrap
            self._next += 1
            patience_ms = min(left_ms, ATTEMPT_MS_MAX, attempt_ms << attempts // len(candidates))
            attempts += 1
            try:
                return await self._channel.call(candidates[self._next % len(candidates)], message, patience_ms)
            except ChannelBroken as broken:
                reason = str(broken)
            await self._runtime.sleep(RETRY_BACKOFF_MS)
        raise KafkaUnavailable(f"no broker answers: {reason}")

    def call(self, to: Endpoint, message: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request to that broker, without retries. Raises ChannelBroken."""
        return self._channel.call(to, message, timeout_ms)

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """Return the partition according to the last metadata, or None if it is unknown."""
        topic = None if self.cluster is None else self.cluster.topics.get(topic_partition.topic)
        if topic is None:
            return None
        rows, number = topic.partitions, topic_partition.partition
        if number < len(rows) and rows[number].partition == number:
            # Usually the rows are ordered by partition number, so no search is necessary.
            return rows[number]
        return next((row for row in rows if row.partition == number), None)

    async def _leader(self, topic_partition: TopicPartition) -> tuple[Endpoint, int] | None:
        """Return the endpoint and leader epoch of a partition's leader, or None if it has no leader."""
        for fresh in (False, True):
            if fresh:
                await self.refresh()
            found = self.partition(topic_partition)
            if found is not None and found.leader >= 0 and self.cluster is not None:
                endpoint = self.cluster.brokers.get(found.leader)
                return None if endpoint is None else (endpoint, found.leader_epoch)
        return None

    async def at_leader(
        self,
        topic_partition: TopicPartition,
        ask: Callable[[int], KafkaMessage],
        read: Callable[[KafkaMessage], tuple[ErrorCode, T]],
        timeout_ms: int,
        retried: frozenset[ErrorCode] = RETRIED,
    ) -> T:
        """Send a request to the leader of a partition, and send it again if the leader has moved.

        `ask` creates the request for the leader epoch in the metadata; `read` returns the error and the value in the
        response.
        """
        deadline_ms = self._runtime.now().mono_ms + timeout_ms
        last: KafkaRequestFailed | None = None
        reason = f"{topic_partition} has no leader"
        while (left_ms := deadline_ms - self._runtime.now().mono_ms) > 0:
            leader = await self._leader(topic_partition)
            if leader is not None:
                endpoint, leader_epoch = leader
                attempt_ms = min(left_ms, ATTEMPT_MS_MAX)
                try:
                    error, value = read(await self._channel.call(endpoint, ask(leader_epoch), attempt_ms))
                except ChannelBroken as broken:
                    reason = str(broken)
                else:
                    if error is ErrorCode.none:
                        return value
                    last = KafkaRequestFailed(error)
                    if error not in retried:
                        raise last
            await self._runtime.sleep(RETRY_BACKOFF_MS)
            await self.refresh()
        if last is not None:
            raise last
        raise KafkaUnavailable(reason)

    # ---- records ----------------------------------------------------------------------------------------------

    async def init_producer_id(self, *, timeout_ms: int = REQUEST_TIMEOUT_MS) -> tuple[int, int]:
        """Return a new producer id and producer epoch, for an idempotent producer."""
        asked = request(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000, producer_id=-1)
        deadline_ms = self._runtime.now().mono_ms + timeout_ms
        while True:
            response = await self.any_broker(asked, max(1, deadline_ms - self._runtime.now().mono_ms))
            if response.error_code == ErrorCode.none:
                return int(response.producer_id), int(response.producer_epoch)
            later = response.error_code == ErrorCode.coordinator_load_in_progress
            if not later or self._runtime.now().mono_ms >= deadline_ms:
                raise KafkaRequestFailed(ErrorCode(response.error_code))
            await self._runtime.sleep(RETRY_BACKOFF_MS)

    async def produce(
        self,
        topic_partition: TopicPartition,
        records: Sequence[Record],
        *,
        acks: int = -1,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        producer: tuple[int, int, int] | None = None,
        transactional_id: str | None = None,
    ) -> int:
        """Append records as one batch. Return the offset of the first record, or -1 with acks=0.

        `producer` is (producer id, producer epoch, sequence number of the first record). With it, brokers recognise a
        batch that is sent again after a lost reply. With a transactional id, the batch is part of that producer's open
        transaction.
        """
        producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence,
            attributes=0 if transactional_id is None else TRANSACTIONAL,
        )  # fmt: skip
        rows = [TopicProduceData(topic_partition.topic, [PartitionProduceData(topic_partition.partition, batch)])]
        wait = as_time(min(timeout_ms, ATTEMPT_MS_MAX))
        message = ProduceRequest(PRODUCE_VERSION, acks, wait, rows, transactional_id)

        def read(response: KafkaMessage | None) -> tuple[ErrorCode, int]:
            if response is None:
                return ErrorCode.none, -1
            row = response.responses[0].partition_responses[0]
            if row.error_code == ErrorCode.duplicate_sequence_number:
                return ErrorCode.none, int(row.base_offset)
            return error_code(row.error_code), int(row.base_offset)

        return await self.at_leader(topic_partition, lambda _: message, read, timeout_ms)

    async def fetch(
        self,
        topic_partition: TopicPartition,
        offset: int,
        *,
        max_wait_ms: int = 500,
        max_bytes: int = FETCH_BYTES_MAX,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Fetched:
        """Return replicated records from `offset` on; an empty list if there are none within `max_wait_ms`.

        With READ_COMMITTED the records end at the last stable offset, and records of aborted transactions are omitted.

        The request contains the leader epoch, as the Java consumer's does (KIP-320). Without it, a former leader, which
        as a follower also responds to consumers (KIP-392), would reply from its own log: for example with
        OFFSET_OUT_OF_RANGE if it has not caught up.
        """

        def ask(leader_epoch: int) -> KafkaMessage:
            row = FetchPartition(topic_partition.partition, offset, max_bytes, leader_epoch)
            topics = [FetchTopic([row], topic_partition.topic)]
            wait = as_time(max_wait_ms)
            return FetchRequest(FETCH_VERSION, wait, 1, topics, max_bytes=max_bytes, isolation_level=int(isolation))

        def read(response: KafkaMessage) -> tuple[ErrorCode, Fetched]:
            if response.error_code != ErrorCode.none:
                return ErrorCode(response.error_code), Fetched([], -1, -1)
            got = response.responses[0].partitions[0]
            if got.error_code != ErrorCode.none:
                return error_code(got.error_code), Fetched([], -1, -1)
            data = bytes(got.records or b"")
            marks = int(got.high_watermark), int(got.log_start_offset)
            if isolation is Isolation.READ_COMMITTED:
                found = committed_records(data, offset, got.aborted_transactions or ())
            else:
                found = decode_records(data, offset)
            return ErrorCode.none, Fetched(found, *marks, offset_after(data, offset), stamped_offsets(data))

        return await self.at_leader(topic_partition, ask, read, timeout_ms)

    async def list_offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int = -1,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> int:
        """Return the offset for a timestamp: -1 is the end of the readable records, -2 the beginning of the log."""
        number = topic_partition.partition

        def ask(leader_epoch: int) -> KafkaMessage:
            row = {"partition_index": number, "current_leader_epoch": leader_epoch, "timestamp": timestamp}
            topic = {"name": topic_partition.topic, "partitions": [row]}
            return request(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=int(isolation), topics=[topic])

        def read(response: KafkaMessage) -> tuple[ErrorCode, int]:
            got = response.topics[0].partitions[0]
            return ErrorCode(got.error_code), int(got.offset)

        return await self.at_leader(topic_partition, ask, read, timeout_ms)

    async def end_offset_for_epoch(
        self, topic_partition: TopicPartition, leader_epoch: int, *, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> tuple[int, int]:
        """Return (epoch, end offset): the end of the records with that leader epoch in the current leader's log."""
        row = {"partition": topic_partition.partition, "current_leader_epoch": -1, "leader_epoch": leader_epoch}
        message = request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[{"topic": topic_partition.topic, "partitions": [row]}],
        )

        def read(response: KafkaMessage) -> tuple[ErrorCode, tuple[int, int]]:
            got = response.topics[0].partitions[0]
            return ErrorCode(got.error_code), (int(got.leader_epoch), int(got.end_offset))

        return await self.at_leader(topic_partition, lambda _: message, read, timeout_ms)


def _cluster(response: KafkaMessage) -> ClusterInfo:
    brokers = {
        int(broker.node_id): Endpoint(int(broker.node_id), str(broker.host), int(broker.port))
        for broker in response.brokers
    }
    topics = {str(topic.name): _topic(topic) for topic in response.topics if topic.name is not None}
    racks = {int(broker.node_id): broker.rack for broker in response.brokers}
    return ClusterInfo(str(response.cluster_id), int(response.controller_id), brokers, topics, racks)


def _topic(topic: KafkaMessage) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(
            partition=int(row.partition_index),
            leader=int(row.leader_id),
            leader_epoch=int(row.leader_epoch),
            replicas=tuple(map(int, row.replica_nodes)),
            isr=tuple(map(int, row.isr_nodes)),
            offline=tuple(map(int, row.offline_replicas)),
            error=ErrorCode(row.error_code),
        )
        for row in sorted(topic.partitions, key=lambda row: int(row.partition_index))
    )
    return TopicInfo(str(topic.name), topic_id_from_kafka(topic.topic_id), ErrorCode(topic.error_code), partitions)
