"""The Kafka clients of a script: a producer, a consumer and an operator. Checkers examine their history at the end.

The clients run on any runtime, so a script can be checked in the same way in a simulated world and on real processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.checkers.kafka_analysis import ACKS_ALL, KafkaHistory, Polled, Sent
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint
from zabka.kafka.record_batch import Record, build_batch, decode_records
from zabka.kafka.wire.kafka_schema import ApiKey, request

PATIENCE_MS = 8_000
"""Time in ms during which a client retries a request. Within this time, each request of a script has a result."""
COMMITTED_POLL_MS = 100
OK = "ok"
UNAVAILABLE = "unavailable"
EARLIEST = -2


def partition_of(name: str) -> TopicPartition:
    """Parse a partition such as `topic-0`."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


class Environment(NamedTuple):
    """What the clients need: a runtime, connections to brokers, and the leaders' log end offsets where known."""

    runtime: Runtime
    channel: BrokerChannel
    admin: AdminClient
    endpoint_of: Callable[[str], Endpoint]
    log_end: Callable[[TopicPartition], int | None]


class KafkaClients:
    """A producer with the setting `acks`, a consumer, and an operator."""

    def __init__(self, around: Environment, acks: int = ACKS_ALL) -> None:
        self.history = KafkaHistory()
        self.acks = acks
        self.admin = around.admin
        self._around = around
        self._runtime = around.runtime
        self._positions: dict[TopicPartition, int] = {}
        self._assignments: dict[TopicPartition, int] = {}
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._begun = 0

    def _now_us(self) -> int:
        return self._runtime.now().mono_ms * 1000

    async def produce(self, name: TopicPartition, broker: str) -> str:
        """Send the next record to the leader or, if given, to `broker`.

        Return `ok`, an error's name, or `unavailable`.
        """
        # Count requests when they start, because two requests in flight send two different records.
        self._begun += 1
        value = f"{name}:{self._begun}"
        began_us = self._now_us()
        offset: int | None = None
        answer = OK
        record = Record(key=None, value=value.encode(), timestamp_ms=self._runtime.now().wall_ms)
        try:
            offset = await (self._produce_at(name, record, broker) if broker else self._produce(name, record))
        except KafkaRequestFailed as refused:
            answer = refused.error.name
        except (KafkaUnavailable, ChannelBroken):
            answer = UNAVAILABLE
        self.history.sent.append(
            Sent(
                producer="producer",
                partition=str(name),
                value=value,
                began_us=began_us,
                ended_us=self._now_us(),
                offset=offset,
                acks=self.acks,
            )
        )
        return answer

    async def _produce(self, name: TopicPartition, record: Record) -> int:
        if self.acks != ACKS_ALL:
            return await self.admin.produce(name, [record], acks=self.acks, timeout_ms=PATIENCE_MS)
        if self._identity is None:
            self._identity = await self.admin.init_producer_id(timeout_ms=PATIENCE_MS)
            self._sequences.clear()
        sequence = self._sequences.get(name, 0)
        identity, self._identity = self._identity, None
        offset = await self.admin.produce(
            name, [record], acks=self.acks, timeout_ms=PATIENCE_MS, producer=(*identity, sequence)
        )
        # Only a reply confirms that this sequence number was used.
        self._identity, self._sequences[name] = identity, sequence + 1
        return offset

    async def _produce_at(self, name: TopicPartition, record: Record, broker: str) -> int:
        rows = [{"name": name.topic, "partition_data": [{"index": name.partition, "records": build_batch([record])}]}]
        asked = request(
            ApiKey.PRODUCE, 9, acks=self.acks, timeout=PATIENCE_MS // 2, topic_data=rows, transactional_id=None
        )
        answer = await self._around.channel.call(self._around.endpoint_of(broker), asked, PATIENCE_MS)
        row = answer.responses[0].partition_responses[0]
        if row.error_code != ErrorCode.none:
            raise KafkaRequestFailed(ErrorCode(row.error_code))
        return int(row.base_offset)

    async def poll(self, name: TopicPartition, broker: str = "") -> int:
        """Read all records since the last poll, from the leader or, if given, from `broker`.

        Return the high watermark.
        """
        while True:
            position = self._positions.get(name, 0)
            try:
                if broker:
                    records, mark = await self._fetch_at(name, position, broker)
                else:
                    fetched = await self.admin.fetch(name, position, max_wait_ms=1, timeout_ms=PATIENCE_MS)
                    records, mark = fetched.records, fetched.high_watermark
            except KafkaRequestFailed as refused:
                if refused.error is not ErrorCode.offset_out_of_range:
                    raise
                # auto.offset.reset=earliest
                self._positions[name] = await self.admin.list_offset(name, EARLIEST, timeout_ms=PATIENCE_MS)
                self._assignments[name] = self._assignments.get(name, 1) + 1
                continue
            if records:
                rows = tuple((record.offset, (record.value or b"").decode()) for record in records)
                self.history.polled.append(Polled("consumer", self._assignments.get(name, 1), str(name), rows))
                self._positions[name] = records[-1].offset + 1
            elif position > mark:
                # The position is above the high watermark, so the records below it are lost. Without a reset the
                # consumer would wait forever.
                self._positions[name] = 0
                self._assignments[name] = self._assignments.get(name, 1) + 1
            else:
                return mark

    async def _fetch_at(self, name: TopicPartition, offset: int, broker: str) -> tuple[list[Record], int]:
        row = {
            "partition": name.partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
        }
        topics = [{"topic": name.topic, "partitions": [row]}]
        asked = request(ApiKey.FETCH, 12, replica_id=-1, max_wait=1, min_bytes=1, max_bytes=1 << 20, topics=topics)
        answer = await self._around.channel.call(self._around.endpoint_of(broker), asked, PATIENCE_MS)
        got = answer.responses[0].partitions[0]
        if got.error_code != ErrorCode.none:
            raise KafkaRequestFailed(ErrorCode(got.error_code))
        return decode_records(bytes(got.records or b""), offset), int(got.high_watermark)

    async def read_to_the_end(self) -> None:
        """Read every written partition until all its records are committed and read, then store its end offset."""
        for name in dict.fromkeys(sent.partition for sent in self.history.sent):
            partition = partition_of(name)
            while (end := await self.poll(partition)) != self._around.log_end(partition):
                await self._runtime.sleep(COMMITTED_POLL_MS)
            self.history.ends[name] = end

    async def reassign(self, name: TopicPartition, replicas: tuple[int, ...]) -> None:
        """Reassign a partition to these replicas."""
        row = {"partition_index": name.partition, "replicas": replicas}
        topics = [{"name": name.topic, "partitions": [row]}]
        asked = request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout=PATIENCE_MS, topics=topics)
        await self.admin.refresh()
        await self.admin.at_controller(asked, lambda answer: [answer.error_code], PATIENCE_MS)
