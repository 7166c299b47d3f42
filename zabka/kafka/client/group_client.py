"""One member of a consumer group: its requests to the coordinator, and how the member reacts to their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_protocol import (
    NO_GENERATION,
    NO_MEMBER,
    PROTOCOL_TYPE,
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zabka.kafka.client.transactional_producer import GroupMetadata
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request

ASSIGNOR = "range"
_MOVED = (ErrorCode.not_coordinator, ErrorCode.coordinator_not_available)
_NOT_A_MEMBER = (
    ErrorCode.unknown_member_id,
    ErrorCode.illegal_generation,
    ErrorCode.fenced_instance_id,
)
_JOIN_AGAIN = (*_NOT_A_MEMBER, ErrorCode.rebalance_in_progress)
_GROUP = 0


class GroupSettings(NamedTuple):
    """Settings of a group member. The defaults are those of the Java consumer, except for a shorter session timeout."""

    group_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000


class GroupMember:
    """Sends the requests of one group member.

    Methods raise KafkaRequestFailed with the coordinator's error, and KafkaUnavailable if no broker replies. After such
    an exception, `joined` shows whether the member is still in the group. Each member needs its own channel, because
    JoinGroup blocks the connection until every member has joined.
    """

    def __init__(self, client: KafkaClient, settings: GroupSettings) -> None:
        self.settings = settings
        self.member_id = NO_MEMBER
        self.generation_id = NO_GENERATION
        self.joined = False
        self._client = client
        self._shared_out: dict[str, int] = {}
        """Number of partitions of each topic at the time when this member, as the leader, assigned them."""
        self._coordinator: Endpoint | None = None

    # ---- the coordinator --------------------------------------------------------------------------------------

    async def _find(self) -> Endpoint:
        if self._coordinator is None:
            keys = [self.settings.group_id]
            asked = request(ApiKey.FIND_COORDINATOR, 4, key_type=_GROUP, coordinator_keys=keys)
            (row,) = (await self._client.any_broker(asked, ATTEMPT_MS_MAX)).coordinators
            if row.error_code != ErrorCode.none:
                raise KafkaRequestFailed(ErrorCode(row.error_code))
            self._coordinator = Endpoint(int(row.node_id), str(row.host), int(row.port))
        return self._coordinator

    async def _ask(self, message: KafkaMessage, timeout_ms: int = ATTEMPT_MS_MAX) -> KafkaMessage:
        coordinator = await self._find()
        try:
            return await self._client.call(coordinator, message, timeout_ms)
        except ChannelBroken as broken:
            self._coordinator = None
            raise KafkaUnavailable(str(broken)) from None

    def _check(self, error: int) -> None:
        if error == ErrorCode.none:
            return
        if error in _MOVED:
            self._coordinator = None
        if error in _JOIN_AGAIN:
            self.joined = False
        if error in _NOT_A_MEMBER:
            self.generation_id = NO_GENERATION
        if error == ErrorCode.unknown_member_id:
            self.member_id = NO_MEMBER
        raise KafkaRequestFailed(ErrorCode(error))

    # ---- membership -------------------------------------------------------------------------------------------

    async def join(self) -> tuple[TopicPartition, ...]:
        """Join or rejoin the group, and return the partitions assigned to this member.

        If this member is the leader, it assigns the partitions of all members.
        """
        self.joined = False
        self._shared_out = {}
        answer = await self._join_once()
        if answer.error_code == ErrorCode.member_id_required:
            self.member_id = str(answer.member_id)
            answer = await self._join_once()
        self._check(answer.error_code)
        self.member_id, self.generation_id = str(answer.member_id), int(answer.generation_id)
        assignments = {}
        if answer.leader == self.member_id:
            assignments = await self._assign({str(row.member_id): bytes(row.metadata) for row in answer.members})
        synced = await self._ask(
            request(
                ApiKey.SYNC_GROUP,
                5,
                **self._identity(),
                protocol_type=PROTOCOL_TYPE,
                protocol_name=ASSIGNOR,
                assignments=[{"member_id": member, "assignment": given} for member, given in assignments.items()],
            ),
            self.settings.rebalance_timeout_ms,
        )
        self._check(synced.error_code)
        self.joined = True
        return decode_assignment(bytes(synced.assignment))

    async def _join_once(self) -> KafkaMessage:
        settings = self.settings
        subscription = encode_subscription(settings.topics)
        message = request(
            ApiKey.JOIN_GROUP,
            7,
            group_id=settings.group_id,
            session_timeout=settings.session_timeout_ms,
            rebalance_timeout=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[{"name": ASSIGNOR, "metadata": subscription}],
        )
        return await self._ask(message, settings.rebalance_timeout_ms + ATTEMPT_MS_MAX)

    async def _assign(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        subscriptions = {member: decode_subscription(data) for member, data in members.items()}
        topics = sorted({topic for subscribed in subscriptions.values() for topic in subscribed})
        info = await self._client.metadata(topics, timeout_ms=ATTEMPT_MS_MAX)
        counts = {name: len(topic.partitions) for name, topic in info.topics.items() if topic.partitions}
        self._shared_out = {topic: counts.get(topic, 0) for topic in topics}
        given = assign_ranges(subscriptions, counts)
        return {member: encode_assignment(partitions) for member, partitions in given.items()}

    @property
    def metadata(self) -> GroupMetadata:
        """Group metadata of this member, which a transactional producer sends with the offsets that it commits."""
        return GroupMetadata(
            self.settings.group_id, self.generation_id, self.member_id, self.settings.group_instance_id
        )

    def _identity(self) -> dict[str, object]:
        return {
            "group_id": self.settings.group_id,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": self.settings.group_instance_id,
        }

    @property
    def misses_topics(self) -> bool:
        """Whether this member, as the leader of the group, found no partitions for a topic.

        A possible cause is that the broker had just started.
        """
        return not all(self._shared_out.values())

    async def topics_grew(self) -> bool:
        """Return whether topics have more partitions now than when this member, as the leader, assigned them.

        If so, the member must rejoin (ConsumerCoordinator's metadata snapshot).
        """
        if not self._shared_out:
            return False
        info = await self._client.metadata(list(self._shared_out), timeout_ms=ATTEMPT_MS_MAX)
        return any(len(topic.partitions) > self._shared_out.get(name, 0) for name, topic in info.topics.items())

    async def heartbeat(self) -> None:
        """Send a heartbeat. Raises KafkaRequestFailed if the member must rejoin."""
        answer = await self._ask(request(ApiKey.HEARTBEAT, 4, **self._identity()))
        self._check(answer.error_code)

    async def leave(self) -> None:
        """Leave the group. A static member sends nothing: it remains a member until its session expires."""
        self.joined = False
        if self.settings.group_instance_id is None and self.member_id != NO_MEMBER:
            members = [{"member_id": self.member_id}]
            await self._ask(request(ApiKey.LEAVE_GROUP, 4, group_id=self.settings.group_id, members=members))

    # ---- offsets ----------------------------------------------------------------------------------------------

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset that the group has committed for each of these partitions, -1 for none."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        rows = [{"name": topic, "partition_indexes": numbers} for topic, numbers in topics.items()]
        message = request(ApiKey.OFFSET_FETCH, 7, group_id=self.settings.group_id, topics=rows, require_stable=True)
        answer = await self._ask(message)
        self._check(answer.error_code)
        found = {}
        for topic in answer.topics:
            for row in topic.partitions:
                if row.error_code != ErrorCode.none:
                    raise KafkaRequestFailed(ErrorCode(row.error_code))
                found[TopicPartition(str(topic.name), int(row.partition_index))] = int(row.committed_offset)
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these positions for the group, if the member has a generation.

        Without a generation, nothing is sent: the coordinator of a group that has become empty would accept the commit,
        as from a consumer with manual assignment (ConsumerCoordinator.sendOffsetCommitRequest).
        """
        if self.generation_id == NO_GENERATION:
            raise KafkaRequestFailed(ErrorCode.unknown_member_id)
        await self.commit_alone(offsets)

    async def commit_alone(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these positions. This also works for a consumer with manual assignment.

        Such a consumer has never joined the group, and so has no generation.
        """
        topics: dict[str, list[dict[str, object]]] = {}
        for (topic, partition), offset in offsets.items():
            row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(topic, []).append(row)
        identity = self._identity()
        generation = identity.pop("generation_id")
        message = request(
            ApiKey.OFFSET_COMMIT,
            8,
            **identity,
            generation_id_or_member_epoch=generation,
            topics=[{"name": topic, "partitions": rows} for topic, rows in topics.items()],
        )
        answer = await self._ask(message, 2 * ATTEMPT_MS_MAX)
        for rows in answer.topics:
            for row in rows.partitions:
                self._check(row.error_code)
