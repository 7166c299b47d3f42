"""Fetches records from leaders for the followers on this broker, one loop per leader (Kafka's ReplicaFetcherThread).

Every fetch contains the epoch of the follower's last record. If the logs diverge, the leader responds with the
truncation point instead of records (KIP-595, Fetch 12). The older protocols are in
`zabka.broker_sim.replication.truncation`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.replica_config import ReplicaConfig, lists
from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.ports import MetadataView
from zabka.broker_sim.quotas.replication_throttles import ReplicationQuota
from zabka.broker_sim.replication.fetch_questions import INITIAL_EPOCH, FetchQuestions
from zabka.broker_sim.replication.following import append_fetched, restart_at, truncate, truncate_to_divergence
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.truncation import EpochEnd, Truncation, truncation
from zabka.ensemble.ports import Future, Runtime, Task, Timer
from zabka.journal.events import TopicPartition
from zabka.journal.events import topic_partition as name_of
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.topic_ids import topic_id_to_kafka
from zabka.kafka.wire.data_messages import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from zabka.kafka.wire.kafka_schema import FETCH_BY_TOPIC_ID, ApiKey, as_time, request

LIST_OFFSETS_VERSION = 9
OFFSET_FOR_LEADER_EPOCH_VERSION = 4
LATEST = -1
EARLIEST = -2


_LAST_BY_NAME = 12
_BY_ID = 17
"""The newest version of Fetch, which contains topic ids. Brokers do not negotiate versions with each other."""


_SESSION_ENDED = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)
"""Errors that mean that the leader does not know the fetch session or its epoch. They do not concern a partition."""


@dataclass(frozen=True, slots=True)
class FetcherHost:
    """Parts of a broker that its fetchers use."""

    broker_id: int
    config: ReplicaConfig
    channel: BrokerChannel
    metadata: MetadataView
    runtime: Runtime
    broker_epoch: Callable[[], int]
    """Returns the broker epoch of this broker's current registration, or -1."""
    throttle: ReplicationQuota
    """The rate limit for fetching throttled replicas."""


class _Fetching:
    """One partition being fetched in one leader epoch.

    Each new epoch creates a new object, so late responses are ignored.
    """

    __slots__ = (
        "ask", "asked_offset", "leader_epoch", "leader_mark", "partition", "ready_at_ms", "topic_id", "truncating",
    )  # fmt: skip

    def __init__(self, partition: Partition, truncating: bool) -> None:
        self.partition = partition
        self.topic_id: Any = topic_id_to_kafka(partition.topic_id)
        self.truncating = truncating
        """Whether the fetcher must first request the truncation point from the leader."""
        self.leader_epoch = partition.leader_epoch
        self.ready_at_ms = 0
        self.asked_offset = -1
        self.ask: FetchPartition | None = None
        self.leader_mark: int | None = None
        """The leader's high watermark, or None before the first response."""

    def request_row(self, last_epoch: int, max_bytes: int) -> FetchPartition:
        """Return the partition's entry for the next request, starting at the log end.

        Return the same object as before if nothing has changed.
        """
        log = self.partition.log
        ask = self.ask
        if (
            self.asked_offset != log.end_offset
            or ask is None
            or ask.last_fetched_epoch != last_epoch
            or ask.log_start_offset != log.start_offset
        ):
            self.asked_offset = log.end_offset
            self.ask = FetchPartition(
                partition=self.partition.topic_partition.partition,
                current_leader_epoch=self.leader_epoch,
                fetch_offset=self.asked_offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=log.start_offset,
                partition_max_bytes=max_bytes,
            )
        assert self.ask is not None
        return self.ask

    @property
    def is_level(self) -> bool:
        """Whether the replica has every record below the leader's high watermark."""
        return self.leader_mark is not None and self.leader_mark <= self.partition.log.end_offset

    @property
    def is_current(self) -> bool:
        """Whether the response to the last request is still valid for the partition's current state."""
        partition = self.partition
        return (
            not partition.is_leader
            and partition.leader_epoch == self.leader_epoch
            and partition.log.end_offset == self.asked_offset
        )


class ReplicaFetcher:
    """Fetches from one leader, for all replicas on this broker that follow it."""

    def __init__(self, leader_id: int, host: FetcherHost) -> None:
        self._leader_id = leader_id
        self._host = host
        self._fetching: dict[TopicPartition, _Fetching] = {}
        self._wakeup: Future[None] | None = None
        self._task: Task | None = None
        self._truncation: Truncation = truncation(host.config.historical)
        self._max_wait = as_time(host.config.replica_fetch_wait_max_ms)
        self._questions = FetchQuestions()
        self._names: dict[Any, str] = {}
        """Topic names keyed by topic id."""

    def __len__(self) -> int:
        return len(self._fetching)

    def add(self, partition: Partition) -> None:
        """Start to fetch a partition."""
        asks_first = self._truncation.needs_epoch_end(partition)
        self._fetching[partition.topic_partition] = one = _Fetching(partition, asks_first)
        self._names[one.topic_id] = partition.topic_partition.topic
        self._questions.restart()
        if self._task is None:
            self._task = self._host.runtime.spawn(self._run(), f"fetcher-{self._leader_id}")
        self._wake()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop fetching a partition. A response in flight is ignored."""
        self._fetching.pop(topic_partition, None)

    def close(self) -> None:
        """Stop the loop that fetches from this leader."""
        self._fetching.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def _now_ms(self) -> int:
        return self._host.runtime.now().mono_ms

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            ready = {tp: one for tp, one in self._fetching.items() if one.ready_at_ms <= now_ms}
            endpoint = self._host.metadata.endpoint(self._leader_id)
            if ready and self._host.throttle.is_limited:
                ready = self._not_held_back(ready, now_ms)
            if not ready:
                await self._idle(now_ms)
            elif endpoint is None:
                self._back_off(ready)
            elif any(one.truncating for one in ready.values()):
                with suppress(LogDirFailed):
                    await self._truncate_to_epoch_end(
                        endpoint, {tp: one for tp, one in ready.items() if one.truncating}
                    )
            else:
                with suppress(LogDirFailed):
                    await self._fetch(endpoint, ready)

    def _not_held_back(self, ready: dict[TopicPartition, _Fetching], now_ms: int) -> dict[TopicPartition, _Fetching]:
        """Return the partitions that can be fetched now.

        While the rate of throttled replication is exceeded, omit throttled partitions that have not caught up with the
        leader. If no partition remains, all given partitions back off for a while.
        """
        if not self._host.throttle.is_exceeded:
            return ready
        free = {tp: one for tp, one in ready.items() if one.is_level or not self._is_throttled(one.partition)}
        if not free:
            for one in ready.values():
                one.ready_at_ms = now_ms + self._host.config.replica_fetch_backoff_ms
        return free

    def _is_throttled(self, partition: Partition) -> bool:
        replicas = partition.settings.follower_throttled
        return bool(replicas) and lists(replicas, partition.topic_partition.partition, self._host.broker_id)

    async def _idle(self, now_ms: int) -> None:
        """Wait until a partition is added, or until the first backoff of a partition ends."""
        self._wakeup = self._host.runtime.future()
        timer: Timer | None = None
        if self._fetching:
            first = min(one.ready_at_ms for one in self._fetching.values())
            timer = self._host.runtime.call_later(max(1, first - now_ms), self._wake)
        try:
            await self._wakeup
        finally:
            if timer is not None:
                timer.cancel()
            self._wakeup = None

    async def _fetch(self, endpoint: Endpoint, ready: dict[TopicPartition, _Fetching]) -> None:
        config = self._host.config
        timeout_ms = config.replica_fetch_wait_max_ms + config.replica_socket_timeout_ms
        try:
            response = await self._host.channel.call(endpoint, self._request(ready), timeout_ms)
        except ChannelBroken:
            self._questions.restart()
            self._back_off(ready)
            return
        self._questions.answered(response)
        if response.error_code:
            if response.error_code not in _SESSION_ENDED:
                self._back_off(ready)
            return
        out_of_range: list[_Fetching] = []
        for topic in response.responses:
            name = topic.topic if response.__version__ < FETCH_BY_TOPIC_ID else self._names.get(topic.topic_id, "")
            for row in topic.partitions:
                topic_partition = name_of(name, row.partition_index)
                one = ready.get(topic_partition)
                if one is None or self._fetching.get(topic_partition) is not one or not one.is_current:
                    # This response is ignored, but the leader assumes that this follower has received it, so start a
                    # new session.
                    self._questions.restart()
                    continue
                if row.error_code == ErrorCode.offset_out_of_range:
                    out_of_range.append(one)
                elif row.error_code == ErrorCode.fenced_leader_epoch:
                    # The leader has a later leader epoch. This broker is about to receive that epoch from the
                    # controller.
                    self.remove(topic_partition)
                elif not self._take(one, row):
                    one.ready_at_ms = self._now_ms() + config.replica_fetch_backoff_ms
        for one in out_of_range:
            await self._find_offset(endpoint, one)

    def _request(self, ready: dict[TopicPartition, _Fetching]) -> KafkaMessage:
        """Return a Fetch request for these partitions.

        It has the newest version or, if a topic id is unknown, the last version with topic names.
        """
        config = self._host.config
        by_id = all(one.topic_id is not None for one in ready.values())
        last_epoch, max_bytes = self._truncation.last_fetched_epoch, config.replica_fetch_max_bytes
        asked = self._questions.next(
            {key: one.request_row(last_epoch(one.partition), max_bytes) for key, one in ready.items()}, by_id
        )
        if asked.session_epoch == INITIAL_EPOCH:
            # A full request ends the old session, so the names of partitions that are no longer fetched are not needed.
            self._names = {one.topic_id: topic_partition.topic for topic_partition, one in self._fetching.items()}
        topics: dict[str, list[FetchPartition]] = {}
        for topic_partition, row in asked.rows.items():
            topics.setdefault(topic_partition.topic, []).append(row)
        forgotten: dict[str, list[int]] = {}
        for topic_partition in asked.forgotten:
            forgotten.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        ids = {name: topic_id for topic_id, name in self._names.items()} if by_id and (topics or forgotten) else {}
        return FetchRequest(
            _BY_ID if by_id else _LAST_BY_NAME,
            self._max_wait,
            config.replica_fetch_min_bytes,
            [FetchTopic(rows, "" if by_id else topic, ids.get(topic)) for topic, rows in topics.items()],
            ReplicaState(self._host.broker_id, self._host.broker_epoch() if by_id else -1),
            config.replica_fetch_response_max_bytes,
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            forgotten_topics_data=[
                ForgottenTopic(rows, "" if by_id else topic, ids.get(topic)) for topic, rows in forgotten.items()
            ],
        )

    def _take(self, one: _Fetching, row: Any) -> bool:
        """Process the response for one partition. Return False if the partition must wait before its next fetch."""
        try:
            return not row.error_code and self._use(one, row)
        except LogDirFailed:
            # The log directory has failed, so this replica is about to be removed from the fetcher.
            return False

    def _use(self, one: _Fetching, row: Any) -> bool:
        diverging = row.diverging_epoch
        if diverging.epoch >= 0:
            if diverging.end_offset < 0:
                return False
            truncate_to_divergence(one.partition, diverging.epoch, diverging.end_offset)
            return True
        records = row.records or b""
        if not append_fetched(one.partition, records, row.high_watermark, row.log_start_offset):
            return False
        one.leader_mark = row.high_watermark
        if records:
            if self._host.throttle.is_limited and self._is_throttled(one.partition):
                self._host.throttle.note(len(records))
            # Move the partition to the end, so that a busy partition does not fill every response.
            topic_partition = one.partition.topic_partition
            self._fetching[topic_partition] = self._fetching.pop(topic_partition)
        return True

    async def _truncate_to_epoch_end(self, endpoint: Endpoint, truncating: dict[TopicPartition, _Fetching]) -> None:
        """Request the end of each log's last epoch from the leader, and truncate the logs to it (KIP-101)."""
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, partition), asking in truncating.items():
            asking.asked_offset = asking.partition.log.end_offset
            row = {"current_leader_epoch": asking.leader_epoch, "leader_epoch": asking.partition.log.epochs.latest}
            topics.setdefault(topic, []).append({"partition": partition, **row})
        message = request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            OFFSET_FOR_LEADER_EPOCH_VERSION,
            replica_id=self._host.broker_id,
            topics=[{"topic": topic, "partitions": rows} for topic, rows in topics.items()],
        )
        try:
            response = await self._host.channel.call(endpoint, message, self._host.config.replica_socket_timeout_ms)
        except ChannelBroken:
            self._back_off(truncating)
            return
        for topic_row in response.topics:
            for answer in topic_row.partitions:
                topic_partition = TopicPartition(topic_row.topic, answer.partition)
                one = truncating.get(topic_partition)
                if one is None or self._fetching.get(topic_partition) is not one or not one.is_current:
                    continue
                if answer.error_code:
                    one.ready_at_ms = self._now_ms() + self._host.config.replica_fetch_backoff_ms
                else:
                    self._truncation.cut(one.partition, EpochEnd(int(answer.leader_epoch), int(answer.end_offset)))
                    one.truncating = False

    def _back_off(self, ready: dict[TopicPartition, _Fetching]) -> None:
        ready_at_ms = self._now_ms() + self._host.config.replica_fetch_backoff_ms
        for one in ready.values():
            one.ready_at_ms = ready_at_ms

    async def _find_offset(self, endpoint: Endpoint, one: _Fetching) -> None:
        """Find the offset at which to continue if the leader rejects this log's end offset.

        After an unclean election, the leader's log may be shorter: truncate to its end. Otherwise the leader's log
        starts after the end of this log: restart at the leader's log start.
        """
        topic_partition = one.partition.topic_partition
        latest = await self._list_offset(endpoint, one, LATEST)
        found = None
        if latest is not None and latest >= one.asked_offset:
            found = await self._list_offset(endpoint, one, EARLIEST)
        if self._fetching.get(topic_partition) is not one or not one.is_current:
            return
        if latest is not None and latest < one.asked_offset:
            truncate(one.partition, latest, "offset_out_of_range")
        elif found is not None and found > one.asked_offset:
            restart_at(one.partition, found)
        else:
            one.ready_at_ms = self._now_ms() + self._host.config.replica_fetch_backoff_ms

    async def _list_offset(self, endpoint: Endpoint, one: _Fetching, timestamp: int) -> int | None:
        topic, partition = one.partition.topic_partition
        row = {"partition_index": partition, "current_leader_epoch": one.leader_epoch, "timestamp": timestamp}
        message = request(
            ApiKey.LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            replica_id=self._host.broker_id,
            isolation_level=0,
            topics=[{"name": topic, "partitions": [row]}],
        )
        try:
            response = await self._host.channel.call(endpoint, message, self._host.config.replica_socket_timeout_ms)
        except ChannelBroken:
            return None
        for answer in (row for topic_row in response.topics for row in topic_row.partitions):
            if not answer.error_code and answer.offset >= 0:
                return int(answer.offset)
        return None


class ReplicaFetchers:
    """All fetchers of a broker, keyed by leader."""

    def __init__(self, host: FetcherHost) -> None:
        self._host = host
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def add(self, partition: Partition) -> None:
        """Fetch a partition from its leader, and stop fetching it from the previous leader."""
        assert partition.leader is not None and not partition.is_leader
        self.remove(partition.topic_partition)
        self._leaders[partition.topic_partition] = partition.leader
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader] = ReplicaFetcher(partition.leader, self._host)
        fetcher.add(partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop fetching a partition."""
        leader = self._leaders.pop(topic_partition, None)
        # The fetcher may already be closed if all its partitions were fenced.
        if leader in self._fetchers:
            self._fetchers[leader].remove(topic_partition)

    def close_idle(self) -> None:
        """Stop the loops that have no partition left."""
        for leader in [leader for leader, fetcher in self._fetchers.items() if not len(fetcher)]:
            self._fetchers.pop(leader).close()

    def close(self) -> None:
        """Stop the loops of all fetchers."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._leaders.clear()
