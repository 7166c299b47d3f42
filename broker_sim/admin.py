"""Creates, deletes and grows topics by writes to ZooKeeper (kafka.server.ZkAdminManager).

The controller notices the written znodes and acts on them. If a request is rejected, functions return Kafka's error
code with Kafka's message. Unlike in Kafka, the controller epoch fences these writes. Otherwise a frozen controller
could process a request after it resumes, although the client has since sent the request to the next controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.topic_config import validate_topic_config
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.client.service import Create, SetData
from zabka.ensemble.errors import ErrorCode, NoNode, SessionExpired, ZooKeeperError, error_for
from zabka.ensemble.ports import Runtime
from zabka.journal.admin_requests import admin_requested
from zabka.kafka.assignment import RacksIncomplete, assign_replicas
from zabka.kafka.ports import Emit
from zabka.kafka.topic_ids import random_topic_id
from zabka.kafka.topic_names import collide, invalid_name
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import ControllerMoved, FencedWriter, Zk
from zabka.kafka.zk.znodes import ReplicaAssignment, TopicAssignment

PARTITIONS_MAX = 10_000
"""Maximum number of partitions per topic."""


class NewTopic(NamedTuple):
    """A topic to create. A count of -1 means the broker's default. An assignment maps partitions to replicas."""

    name: str
    num_partitions: int
    replication_factor: int
    assignment: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str | None]


class TopicResult(NamedTuple):
    """Result for one topic of a request."""

    name: str
    error: KafkaError = KafkaError.none
    message: str | None = None
    topic_id: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] | None = None


class NewPartitions(NamedTuple):
    """A topic to grow to `total` partitions, optionally with the replica assignments of the new partitions."""

    name: str
    total: int
    assignments: Sequence[tuple[int, ...]] | None


Count = Callable[[int], None]
"""Function that records the number of partitions to be created or deleted. Raises Refused if a quota rejects them."""


CurrentWriter = Callable[[], Awaitable[FencedWriter | None]]
"""Returns a writer that is fenced by the controller epoch, or None if there is no controller term.

For requests that only the controller processes, the writer uses this broker's own controller term. For other requests,
it uses the controller term of any broker.
"""


def count_nothing(_: int) -> None:
    """Do nothing: the `Count` of a request whose client has no quota."""


async def guarded(name: str, work: Awaitable[TopicResult]) -> TopicResult:
    """Return one topic's result. Convert Refused and ZooKeeper errors to a result with an error code."""
    try:
        return await work
    except Refused as refused:
        return TopicResult(name, refused.error, refused.message)
    except SessionExpired:
        return TopicResult(name, KafkaError.not_controller, "This broker's session has expired.")
    except ZooKeeperError as failure:
        return TopicResult(name, KafkaError.unknown_server_error, str(failure))


class ZkAdminManager:
    """Implements CreateTopics, DeleteTopics and CreatePartitions."""

    def __init__(
        self,
        zk: Zk,
        runtime: Runtime,
        config: KafkaConfig,
        metadata: MetadataCache,
        emit: Emit,
        current_writer: CurrentWriter,
    ) -> None:
        self._zk = zk
        self._current_writer = current_writer
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._emit = emit

    async def _writer(self) -> FencedWriter:
        """Return the writer of the current controller term for a new request. Raises Refused, and ZooKeeperError."""
        writer = await self._current_writer()
        if writer is None:
            raise Refused(KafkaError.not_controller, "This is not the correct controller for this cluster.")
        return writer

    # ---- create -----------------------------------------------------------------------------------------------

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        timeout_ms: int,
        validate_only: bool,
        count: Count = count_nothing,
        *,
        client: str,
    ) -> list[TopicResult]:
        """Create topics, and wait until every partition has a leader.

        If some partitions of a topic have no leader when the timeout ends, the topic's error is REQUEST_TIMED_OUT.
        """
        results = [
            await guarded(topic.name, self._create_topic(topic, validate_only, count, client)) for topic in topics
        ]
        if validate_only:
            return results
        made = [result for result in results if result.error is KafkaError.none]
        await self._metadata.wait_until(lambda: all(self._is_led(r.name, r.num_partitions) for r in made), timeout_ms)
        return [
            result
            if result.error is not KafkaError.none or self._is_led(result.name, result.num_partitions)
            else TopicResult(result.name, KafkaError.request_timed_out, "The topic was made, but has no leaders yet.")
            for result in results
        ]

    def _is_led(self, topic: str, partitions: int) -> bool:
        known = self._metadata.partitions(topic)
        return len(known) >= partitions and all(partition.leader >= 0 for partition in known)

    async def _create_topic(self, topic: NewTopic, validate_only: bool, count: Count, client: str) -> TopicResult:
        writer = await self._writer()
        await self._check_name(topic.name)
        configs = _checked_configs(topic.configs)
        assignment = self._assignment(topic)
        topic_id = random_topic_id(self._runtime.random)
        if not validate_only:
            count(len(assignment))
            self._emit(admin_requested("CreateTopics", [topic.name, topic_id], client))
            await self._write_topic(writer, topic.name, configs, topic_id, assignment)
        return TopicResult(
            topic.name,
            topic_id=None if validate_only else topic_id,
            num_partitions=len(assignment),
            replication_factor=len(assignment[0]),
            configs=configs,
        )

    async def _check_name(self, name: str) -> None:
        wrong = invalid_name(name)
        if wrong is not None:
            raise Refused(KafkaError.invalid_topic_exception, wrong)
        existing = await self._zk.call(lambda: self._zk.service.get_children(znodes.BROKER_TOPICS))
        if name in existing:
            if await self._zk.call(lambda: self._zk.service.exists(znodes.delete_topic_path(name))) is not None:
                raise Refused(KafkaError.topic_already_exists, f"Topic '{name}' is marked for deletion.")
            raise Refused(KafkaError.topic_already_exists, f"Topic '{name}' already exists.")
        colliding = [other for other in existing if collide(name, other)]
        if colliding:
            raise Refused(
                KafkaError.invalid_topic_exception,
                f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
            )

    def _assignment(self, topic: NewTopic) -> dict[int, tuple[int, ...]]:
        if topic.assignment:
            if topic.num_partitions != -1 or topic.replication_factor != -1:
                raise Refused(
                    KafkaError.invalid_request,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                )
            return _checked_assignment(topic.assignment)
        partitions = topic.num_partitions if topic.num_partitions != -1 else self._config.number("num.partitions")
        if partitions <= 0:
            raise Refused(KafkaError.invalid_partitions, "Number of partitions must be larger than 0.")
        if partitions > PARTITIONS_MAX:
            raise Refused(KafkaError.invalid_partitions, f"Number of partitions must not exceed {PARTITIONS_MAX}.")
        factor = topic.replication_factor
        if factor == -1:
            factor = self._config.number("default.replication.factor")
        return self._spread(self._live_brokers(factor), partitions, factor)

    def _spread(
        self, brokers: Sequence[int], partitions: int, factor: int, first_partition: int = 0, start_index: int = -1
    ) -> dict[int, tuple[int, ...]]:
        racks = {broker.broker_id: broker.rack for broker in self._metadata.brokers()}
        try:
            return assign_replicas(
                brokers,
                partitions,
                factor,
                self._runtime.random,
                racks=racks,
                first_partition=first_partition,
                start_index=start_index,
            )
        except RacksIncomplete:
            raise Refused(
                KafkaError.unknown_server_error,
                "Not all brokers have rack information for replica rack aware assignment.",
            ) from None

    def _live_brokers(self, factor: int) -> list[int]:
        if factor <= 0:
            raise Refused(KafkaError.invalid_replication_factor, "Replication factor must be larger than 0.")
        brokers = [broker.broker_id for broker in self._metadata.brokers()]
        if factor > len(brokers):
            raise Refused(
                KafkaError.invalid_replication_factor,
                f"Replication factor: {factor} larger than available brokers: {len(brokers)}.",
            )
        return brokers

    async def _write_topic(
        self,
        writer: FencedWriter,
        name: str,
        configs: Mapping[str, str],
        topic_id: str,
        assignment: Mapping[int, tuple[int, ...]],
    ) -> None:
        config_path, config_data = znodes.config_path("topics", name), znodes.encode_config(configs)
        partitions = {number: ReplicaAssignment(replicas) for number, replicas in assignment.items()}
        data = znodes.encode_topic(TopicAssignment(topic_id, partitions))
        _check_size(data, config_data)
        # Write the overrides first, as Kafka does, so that they are present when the controller sees the topic.
        if await _write(writer, Create(config_path, config_data), ErrorCode.NODE_EXISTS) is not ErrorCode.OK:
            await _write(writer, SetData(config_path, config_data))
        path = znodes.topic_path(name)
        if await _write(writer, Create(path, data), ErrorCode.NODE_EXISTS) is not ErrorCode.OK:
            standing, _ = await self._zk.call(lambda: self._zk.service.get(path))
            # If the znode's data, including the random topic id, equal ours, our own first transmission created this
            # topic, and its response was lost.
            if standing != data:
                raise Refused(KafkaError.topic_already_exists, f"Topic '{name}' already exists.")

    # ---- delete -----------------------------------------------------------------------------------------------

    async def delete_topics(
        self, names: Sequence[str], timeout_ms: int, count: Count = count_nothing, *, client: str
    ) -> list[TopicResult]:
        """Mark topics for deletion and wait until they are deleted.

        The error is REQUEST_TIMED_OUT for topics that still exist when the timeout ends.
        """
        results = [await guarded(name, self._delete_topic(name, count, client)) for name in names]
        gone = [result.name for result in results if result.error is KafkaError.none]
        await self._metadata.wait_until(lambda: not any(name in self._metadata for name in gone), timeout_ms)
        return [
            TopicResult(result.name, KafkaError.request_timed_out, "The topic is still being deleted.")
            if result.error is KafkaError.none and result.name in self._metadata
            else result
            for result in results
        ]

    async def _delete_topic(self, name: str, count: Count, client: str) -> TopicResult:
        zk, service, writer = self._zk, self._zk.service, await self._writer()
        if not self._config.flag("delete.topic.enable"):
            raise Refused(KafkaError.topic_deletion_disabled, "Topic deletion is disabled.")
        if await zk.call(lambda: service.exists(znodes.topic_path(name))) is None:
            raise Refused(KafkaError.unknown_topic_or_partition, "This server does not host this topic-partition.")
        count(len(self._metadata.partitions(name)))
        self._emit(admin_requested("DeleteTopics", [name], client))
        # NODE_EXISTS means that the topic is already marked for deletion.
        await _write(writer, Create(znodes.delete_topic_path(name), None), ErrorCode.NODE_EXISTS)
        return TopicResult(name)

    # ---- add partitions ---------------------------------------------------------------------------------------

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        timeout_ms: int,
        validate_only: bool,
        count: Count = count_nothing,
        *,
        client: str,
    ) -> list[TopicResult]:
        """Add partitions to topics, and wait until each new partition has a leader."""
        results = [await guarded(topic.name, self._grow(topic, validate_only, count, client)) for topic in topics]
        if validate_only:
            return results
        grown = [result for result in results if result.error is KafkaError.none]
        await self._metadata.wait_until(lambda: all(self._is_led(r.name, r.num_partitions) for r in grown), timeout_ms)
        return [
            TopicResult(result.name, KafkaError.request_timed_out, "The new partitions have no leaders yet.")
            if result.error is KafkaError.none and not self._is_led(result.name, result.num_partitions)
            else result
            for result in results
        ]

    async def _grow(self, topic: NewPartitions, validate_only: bool, count: Count, client: str) -> TopicResult:
        zk, service, writer = self._zk, self._zk.service, await self._writer()
        path = znodes.topic_path(topic.name)
        counted = False
        while True:
            try:
                data, stat = await zk.call(lambda: service.get(path))
            except NoNode:
                raise Refused(
                    KafkaError.unknown_topic_or_partition, f"The topic '{topic.name}' does not exist."
                ) from None
            if await zk.call(lambda: service.exists(znodes.delete_topic_path(topic.name))) is not None:
                raise Refused(KafkaError.invalid_topic_exception, "The topic is queued for deletion.")
            known = znodes.decode_topic(data)
            if known is None:
                raise Refused(KafkaError.unknown_server_error, f"{path} cannot be read.")
            grown = self._grown(topic, known)
            encoded = znodes.encode_topic(grown)
            _check_size(encoded)
            if not validate_only:
                if not counted:
                    count(len(grown.partitions) - len(known.partitions))
                    counted = True
                    self._emit(admin_requested("CreatePartitions", [topic.name], client))
                op = SetData(path, encoded, stat.version)
                if await _write(writer, op, ErrorCode.BAD_VERSION) is not ErrorCode.OK:
                    continue
            return TopicResult(topic.name, num_partitions=len(grown.partitions))

    def _grown(self, topic: NewPartitions, known: TopicAssignment) -> TopicAssignment:
        if any(replicas.adding or replicas.removing for replicas in known.partitions.values()):
            raise Refused(
                KafkaError.reassignment_in_progress,
                f"A partition reassignment is in progress for the topic '{topic.name}'.",
            )
        count = len(known.partitions)
        more = topic.total - count
        if more < 0:
            raise Refused(
                KafkaError.invalid_partitions,
                f"Topic currently has {count} partitions, which is higher than the requested {topic.total}.",
            )
        if more == 0:
            raise Refused(KafkaError.invalid_partitions, f"Topic already has {count} partitions.")
        if topic.total > PARTITIONS_MAX:
            raise Refused(KafkaError.invalid_partitions, f"Number of partitions must not exceed {PARTITIONS_MAX}.")
        factor = len(known.partitions[0].replicas) if 0 in known.partitions else 1
        if topic.assignments is None:
            brokers = self._live_brokers(factor)
            leader = known.partitions[0].replicas[0] if 0 in known.partitions else brokers[0]
            start = max(0, next((i for i, broker in enumerate(brokers) if broker >= leader), 0))
            added = self._spread(brokers, more, factor, count, start)
        else:
            added = self._given(topic.assignments, count, more, factor)
        partitions = dict(known.partitions)
        partitions.update({number: ReplicaAssignment(replicas) for number, replicas in added.items()})
        return known._replace(partitions=partitions)

    def _given(
        self, assignments: Sequence[tuple[int, ...]], count: int, more: int, factor: int
    ) -> dict[int, tuple[int, ...]]:
        if len(assignments) != more:
            raise Refused(
                KafkaError.invalid_replica_assignment,
                f"Increasing the number of partitions by {more} but {len(assignments)} assignments provided.",
            )
        unknown = sorted({b for replicas in assignments for b in replicas if not self._metadata.is_alive(b)})
        if unknown:
            named = ", ".join(map(str, unknown))
            raise Refused(KafkaError.invalid_replica_assignment, f"Unknown broker(s) in replica assignment: {named}.")
        for replicas in assignments:
            if len(replicas) != factor or len(set(replicas)) != len(replicas):
                raise Refused(
                    KafkaError.invalid_replica_assignment,
                    f"Inconsistent replication factor between partitions, partition 0 has {factor} replicas.",
                )
        return {count + i: tuple(replicas) for i, replicas in enumerate(assignments)}


async def _write(writer: FencedWriter, op: Create | SetData, expected: ErrorCode = ErrorCode.OK) -> ErrorCode:
    """Send one write, fenced by the controller epoch. Return OK, or the `expected` error if it occurs.

    Raises Refused if the controller term has ended, and ZooKeeperError.
    """
    try:
        [written] = await writer.write([op])
    except ControllerMoved:
        raise Refused(KafkaError.not_controller, "Another broker has become controller.") from None
    if written.error not in (ErrorCode.OK, expected):
        raise error_for(written.error, op.path)
    return written.error


def _check_size(*contents: bytes) -> None:
    if max(map(len, contents)) > znodes.ZNODE_BYTES_MAX:
        wrong = f"The topic needs a znode of more than {znodes.ZNODE_BYTES_MAX} bytes."
        raise Refused(KafkaError.invalid_request, wrong)


def _checked_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    empty = sorted(name for name, value in configs.items() if value is None)
    if empty:
        raise Refused(KafkaError.invalid_config, f"Null value not supported for topic configs: {','.join(empty)}")
    overrides = {name: value for name, value in configs.items() if value is not None}
    try:
        validate_topic_config(overrides)
    except ConfigError as wrong:
        raise Refused(KafkaError.invalid_config, str(wrong)) from None
    return overrides


def _checked_assignment(assignment: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    if sorted(assignment) != list(range(len(assignment))):
        raise Refused(
            KafkaError.invalid_replica_assignment, "Partitions should be a consecutive 0-based integer sequence"
        )
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise Refused(KafkaError.invalid_replica_assignment, "All partitions should have the same number of replicas")
    for replicas in assignment.values():
        if not replicas or len(set(replicas)) != len(replicas) or min(replicas) < 0:
            raise Refused(KafkaError.invalid_replica_assignment, "Duplicate replica assignment found")
    return {number: tuple(assignment[number]) for number in sorted(assignment)}
