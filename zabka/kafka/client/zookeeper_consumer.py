"""A consumer of the old kind (ZookeeperConsumerConnector of Kafka 0.8), without a group coordinator.

It finds leaders and offsets in ZooKeeper. The members of a group are ephemeral znodes under `/consumers/G/ids`. If
these znodes or a topic's partitions change, each member computes which partitions it gets, and claims each of them with
an ephemeral znode under `/consumers/G/owners/T/P`. It retries a claim while another member still owns the partition.
Offsets are stored as decimal strings under `/consumers/G/offsets/T/P`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from zabka.ensemble.client.service import CoordinationService, WatchEvent
from zabka.ensemble.errors import ErrorCode, SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Future, Runtime, Task
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import FETCH_BYTES_MAX
from zabka.kafka.client.consumer_protocol import assign_ranges
from zabka.kafka.client.consumer_status import ConsumerStatus, TakeRecords, lag_of
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.record_batch import BatchUnreadable, decode_records, offset_after
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import consumer_znodes, znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import create_recursive

POLL_PERIOD_MS = 100
COMMIT_PERIOD_MS = 1_000
"""auto.commit.interval.ms, shorter than the old consumer's default of one minute."""
REBALANCE_BACKOFF_MS = 500
"""Delay before the next attempt to claim partitions that another member still owns."""
FETCH_TIMEOUT_MS = 5_000
_FETCH_VERSION, _LIST_OFFSETS_VERSION = 4, 1
LATEST, EARLIEST = -1, -2
_OUT_OF_RANGE = 1


class _NotThere(Exception):
    """The partition has no leader to which a request could be sent."""


class ZookeeperConsumer:
    """One member of an old consumer group, with its own ZooKeeper session.

    Call `start()`. Later call `await stop()` to commit and release its partitions, or `close()` to stop without doing
    so. The member reads a partition from the beginning if ZooKeeper has no offset for it (auto.offset.reset=smallest).
    """

    def __init__(
        self,
        coordination: CoordinationService,
        channel: BrokerChannel,
        runtime: Runtime,
        group_id: str,
        consumer_id: str,
        topics: Sequence[str],
        take: TakeRecords,
    ) -> None:
        self._coordination = coordination
        self._channel = channel
        self._runtime = runtime
        self._zk = Zk(coordination, runtime)
        self._group_id = group_id
        self._consumer_id = consumer_id
        self._topics = tuple(topics)
        self._take = take
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._readers: list[Task] = []
        self._assignment = 0
        self._task: Task | None = None
        self._changed: Future[None] | None = None
        self._stopping = False
        self._last_error: str | None = None

    # ---- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the session, register and begin to read."""
        assert self._task is None, "started twice"
        self._task = self._runtime.spawn(self._run(), f"consumer {self._consumer_id}")

    async def stop(self) -> None:
        """Stop reading, commit the positions, and close the session, which deletes its ephemeral znodes."""
        self.close()
        with suppress(ZooKeeperError):
            await self._commit()
        await self._coordination.close()

    def close(self) -> None:
        """Stop immediately; the session expires later."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
        self._stop_reading()

    def status(self) -> ConsumerStatus:
        """Return the current status."""
        lag = lag_of(self._positions, self._ends)
        return ConsumerStatus(tuple(self._positions), lag, self._last_error, self._assignment)

    async def _run(self) -> None:
        await self._coordination.start()
        while not self._stopping:
            try:
                await self._register()
                while not self._stopping:
                    await self._take_part()
            except SessionExpired:
                self._last_error = "the session expired"
                self._stop_reading()
                # The session's claims were deleted with the session. Start again at the committed offsets.
                self._positions.clear()
                await self._renew()
            except ZooKeeperError as failure:
                self._last_error = str(failure)
                self._stop_reading()
                await self._runtime.sleep(REBALANCE_BACKOFF_MS)

    async def _renew(self) -> None:
        with suppress(SessionExpired):
            await self._coordination.renew()

    async def _register(self) -> None:
        path = f"{consumer_znodes.members_path(self._group_id)}/{self._consumer_id}"
        data = consumer_znodes.encode_member(dict.fromkeys(self._topics, 1), self._runtime.now().wall_ms)
        for topic in self._topics:
            await create_recursive(self._zk, consumer_znodes.owners_path(self._group_id, topic))
        await create_recursive(self._zk, consumer_znodes.members_path(self._group_id))
        await self._zk.attempt(lambda: self._coordination.create(path, data, ephemeral=True))

    # ---- rebalancing ------------------------------------------------------------------------------------------

    async def _take_part(self) -> None:
        """Compute this member's partitions, claim them, and read until the group or its topics change."""
        changed: Future[None] = self._runtime.future()
        self._changed = changed
        members = await self._members()
        counts = await self._partition_counts()
        mine = assign_ranges(members, counts).get(self._consumer_id, [])
        await self._give_up([tp for tp in self._positions if tp not in mine])
        if not await self._claim([tp for tp in mine if tp not in self._positions]):
            await self._runtime.sleep(REBALANCE_BACKOFF_MS)
            return
        self._assignment += 1
        self._start_reading()
        try:
            while not changed.done():
                await self._wait(changed, COMMIT_PERIOD_MS)
                await self._commit()
        finally:
            self._stop_reading()
        await self._commit()

    async def _wait(self, changed: Future[None], timeout_ms: int) -> None:
        """Wait for the future `changed`, at most for the timeout."""
        over: Future[None] = self._runtime.future()

        def finish() -> None:
            if not over.done():
                over.set_result(None)

        async def watch() -> None:
            await changed
            finish()

        watching = self._runtime.spawn(watch(), "wait for a change")
        timer = self._runtime.call_later(timeout_ms, finish)
        try:
            await over
        finally:
            timer.cancel()
            watching.cancel()

    def _seen(self, _: WatchEvent) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _members(self) -> dict[str, list[str]]:
        """Return the live members of the group, each with its topics."""
        root = consumer_znodes.members_path(self._group_id)
        names = await self._zk.call(lambda: self._coordination.get_children(root, self._seen))
        outcomes = await self._zk.batch(
            [lambda name=name: self._coordination.get(f"{root}/{name}") for name in names]  # type: ignore[misc]
        )
        members = {}
        for name, outcome in zip(names, outcomes, strict=True):
            topics = None if outcome.value is None else consumer_znodes.decode_member(outcome.value[0])
            if topics is not None:
                members[name] = list(topics)
        if self._consumer_id not in members:
            # Register again: another client deleted this member's znode, or the list was read before the session was
            # open.
            await self._register()
        return members

    async def _partition_counts(self) -> dict[str, int]:
        counts = {}
        for topic in self._topics:
            path = znodes.topic_path(topic)
            outcome = await self._zk.attempt(lambda path=path: self._coordination.get(path, self._seen))  # type: ignore[misc]
            if outcome.error is ErrorCode.NO_NODE:
                await self._zk.call(lambda path=path: self._coordination.exists(path, self._seen))  # type: ignore[misc]
                continue
            assignment = None if outcome.value is None else znodes.decode_topic(outcome.value[0])
            counts[topic] = 0 if assignment is None else len(assignment.partitions)
        return counts

    async def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        for topic_partition in partitions:
            del self._positions[topic_partition]
            path = consumer_znodes.owner_path(self._group_id, topic_partition)
            await self._zk.attempt(lambda path=path: self._coordination.delete(path))  # type: ignore[misc]

    async def _claim(self, partitions: Sequence[TopicPartition]) -> bool:
        """Claim these partitions and read their offsets. Return False if another member still owns one of them."""
        for topic_partition in partitions:
            path = consumer_znodes.owner_path(self._group_id, topic_partition)
            owner = f"{self._consumer_id}-0".encode()
            outcome = await self._zk.attempt(
                lambda path=path, owner=owner: self._coordination.create(path, owner, ephemeral=True)  # type: ignore[misc]
            )
            if outcome.error is ErrorCode.NODE_EXISTS and not await self._is_mine(path):
                return False
            if outcome.error not in (ErrorCode.OK, ErrorCode.NODE_EXISTS):
                return False
            offset = await consumer_znodes.read_offset(self._zk, self._group_id, topic_partition)
            self._positions[topic_partition] = self._committed[topic_partition] = -1 if offset is None else offset
        return True

    async def _is_mine(self, path: str) -> bool:
        """Return whether this session created the znode. The reply to its create may have been lost."""
        stat = await self._zk.call(lambda: self._coordination.exists(path))
        return stat is not None and stat.ephemeral_owner == self._coordination.session_id

    async def _commit(self) -> None:
        for topic_partition, offset in list(self._positions.items()):
            if offset >= 0 and self._committed.get(topic_partition) != offset:
                await consumer_znodes.write_offset(self._zk, self._group_id, topic_partition, offset)
                self._committed[topic_partition] = offset

    # ---- reading ----------------------------------------------------------------------------------------------

    def _start_reading(self) -> None:
        for topic_partition in self._positions:
            work = self._read(topic_partition)
            self._readers.append(self._runtime.spawn(work, f"read {topic_partition}"))

    def _stop_reading(self) -> None:
        for reader in self._readers:
            reader.cancel()
        self._readers.clear()

    async def _read(self, topic_partition: TopicPartition) -> None:
        leader: Endpoint | None = None
        while True:
            found_more = False
            try:
                if leader is None:
                    leader = await self._leader(topic_partition)
                found_more = await self._read_once(topic_partition, leader)
            except (ChannelBroken, _NotThere) as failure:
                self._last_error = f"{topic_partition}: {failure}"
                leader = None
            except (ZooKeeperError, BatchUnreadable) as failure:
                # Stop reading this partition. If the session has expired, another task of this member handles that.
                self._last_error = f"{topic_partition}: {failure}"
                return
            if not found_more:
                await self._runtime.sleep(POLL_PERIOD_MS)

    async def _leader(self, topic_partition: TopicPartition) -> Endpoint:
        """Return the endpoint of the partition's leader, from the partition's state and the broker's registration."""
        path = znodes.partition_state_path(topic_partition)
        outcome = await self._zk.attempt(lambda: self._coordination.get(path))
        state = None if outcome.value is None else znodes.decode_partition_state(outcome.value[0], 0)
        if state is None or state.leader < 0:
            raise _NotThere("no leader")
        path = znodes.broker_path(state.leader)
        outcome = await self._zk.attempt(lambda: self._coordination.get(path))
        broker = None if outcome.value is None else znodes.decode_broker(state.leader, outcome.value[0])
        if broker is None or not broker.endpoints:
            raise _NotThere(f"leader {state.leader} is not registered")
        return Endpoint(state.leader, broker.endpoints[0].host, broker.endpoints[0].port)

    async def _read_once(self, topic_partition: TopicPartition, leader: Endpoint) -> bool:
        position = self._positions[topic_partition]
        if position < 0:
            position = self._positions[topic_partition] = await self._offset_at(topic_partition, leader, EARLIEST)
        row = {
            "partition": topic_partition.partition,
            "fetch_offset": position,
            "partition_max_bytes": FETCH_BYTES_MAX,
        }
        answer = await self._ask(
            leader, ApiKey.FETCH, _FETCH_VERSION, topic_partition, row, "topic", max_bytes=2**31 - 1
        )
        got = answer.responses[0].partitions[0]
        if got.error_code == _OUT_OF_RANGE:
            start = await self._offset_at(topic_partition, leader, EARLIEST)
            end = start if position < start else await self._offset_at(topic_partition, leader, LATEST)
            self._positions[topic_partition] = end
            self._assignment += 1
            return True
        if got.error_code:
            raise _NotThere(got.error_code.name.upper())
        self._ends[topic_partition] = int(got.high_watermark)
        data = bytes(got.records or b"")
        following = offset_after(data, position)
        if following == position:
            return False
        records = decode_records(data, position)
        if records:
            self._take(topic_partition, records)
        self._positions[topic_partition] = following
        return True

    async def _offset_at(self, topic_partition: TopicPartition, leader: Endpoint, timestamp: int) -> int:
        row = {"partition_index": topic_partition.partition, "timestamp": timestamp}
        answer = await self._ask(leader, ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, topic_partition, row, "name")
        got = answer.topics[0].partitions[0]
        if got.error_code:
            raise _NotThere(got.error_code.name.upper())
        return int(got.offset)

    async def _ask(
        self,
        leader: Endpoint,
        key: ApiKey,
        version: int,
        topic_partition: TopicPartition,
        row: Mapping[str, int],
        name_field: str,
        **values: int,
    ) -> KafkaMessage:
        topics = [{name_field: topic_partition.topic, "partitions": [row]}]
        message = request(key, version, replica_id=-1, topics=topics, **values)
        return await self._channel.call(leader, message, FETCH_TIMEOUT_MS)
