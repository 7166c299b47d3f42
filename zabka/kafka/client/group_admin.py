"""Requests of kafka-consumer-groups: groups, their members, and their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, REQUEST_TIMEOUT_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_protocol import BadConsumerProtocol, decode_assignment
from zabka.kafka.client.coordinators import KeyType, find_coordinator
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request

T = TypeVar("T")


class GroupListing(NamedTuple):
    """A group in its coordinator's ListGroups response."""

    group_id: str
    state: str
    group_type: str


class MemberInfo(NamedTuple):
    """A member of a consumer group, and the partitions assigned to it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


class GroupInfo(NamedTuple):
    """A consumer group and the endpoint of its coordinator. `state` is "Dead" if no group has that name."""

    group_id: str
    coordinator: Endpoint
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberInfo, ...]


class GroupAdmin:
    """Sends requests to group coordinators. Methods raise KafkaRequestFailed and KafkaUnavailable."""

    def __init__(self, client: KafkaClient, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    async def coordinator(self, group_id: str, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Endpoint:
        """Return the coordinator of a group."""
        return await find_coordinator(self._client, self._runtime, KeyType.GROUP, group_id, timeout_ms)

    async def _ask(self, group_id: str, message: KafkaMessage) -> KafkaMessage:
        try:
            return await self._client.call(await self.coordinator(group_id), message, ATTEMPT_MS_MAX)
        except ChannelBroken as broken:
            raise KafkaUnavailable(str(broken)) from None

    async def listed(self) -> list[GroupListing]:
        """Ask every live broker for its groups, and return all of them, sorted by name."""
        cluster = await self._client.metadata([])
        found: dict[str, GroupListing] = {}
        for endpoint in cluster.brokers.values():
            try:
                answer = await self._client.call(endpoint, list_request(), ATTEMPT_MS_MAX)
            except ChannelBroken as broken:
                raise KafkaUnavailable(str(broken)) from None
            _check(answer.error_code)
            found.update({listing.group_id: listing for listing in listings_of(answer)})
        return [found[group_id] for group_id in sorted(found)]

    async def described(self, group_id: str) -> GroupInfo:
        """Return one group and its members."""
        coordinator = await self.coordinator(group_id)
        answer = await self._ask(group_id, describe_request([group_id]))
        return _value(descriptions_of(answer, coordinator)[group_id])

    async def offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """Return all committed offsets of a group, ordered by partition."""
        return _value(offsets_of(await self._ask(group_id, offsets_request([group_id])))[group_id])

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": each.partition, "committed_offset": offset, "committed_metadata": ""}
                    for each, offset in offsets.items()
                    if each.topic == topic
                ],
            }
            for topic in dict.fromkeys(each.topic for each in offsets)
        ]
        asked = request(
            ApiKey.OFFSET_COMMIT, 8, group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics
        )
        answer = await self._ask(group_id, asked)
        for topic in answer.topics:
            for row in topic.partitions:
                _check(row.error_code)

    async def delete(self, group_id: str) -> ErrorCode:
        """Delete a group that has no members."""
        answer = await self._ask(group_id, request(ApiKey.DELETE_GROUPS, 2, groups_names=[group_id]))
        return ErrorCode(answer.results[0].error_code)

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Delete committed offsets. Return the error of the whole request, and the error of each partition."""
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": each.partition} for each in partitions if each.topic == topic],
            }
            for topic in dict.fromkeys(each.topic for each in partitions)
        ]
        answer = await self._ask(group_id, request(ApiKey.OFFSET_DELETE, 0, group_id=group_id, topics=topics))
        return ErrorCode(answer.error_code), {
            TopicPartition(str(topic.name), int(row.partition_index)): ErrorCode(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }


# ---- requests and responses about groups of one coordinator ---------------------------------------------------------


def list_request() -> KafkaMessage:
    """Return the ListGroups request, with which one broker is asked for its groups."""
    return request(ApiKey.LIST_GROUPS, 5)


def listings_of(answer: KafkaMessage) -> list[GroupListing]:
    """Read a response to `list_request`."""
    return [GroupListing(str(row.group_id), str(row.group_state), str(row.group_type)) for row in answer.groups]


def describe_request(group_ids: Sequence[str]) -> KafkaMessage:
    """Return a DescribeGroups request for these groups."""
    return request(ApiKey.DESCRIBE_GROUPS, 5, groups=list(group_ids))


def descriptions_of(answer: KafkaMessage, coordinator: Endpoint) -> dict[str, GroupInfo | KafkaRequestFailed]:
    """Read a response to `describe_request`: each group, or its error."""
    return {str(row.group_id): _described(row, coordinator) for row in answer.groups}


def _described(row: KafkaMessage, coordinator: Endpoint) -> GroupInfo | KafkaRequestFailed:
    if row.error_code != ErrorCode.none:
        return KafkaRequestFailed(ErrorCode(row.error_code))
    members = tuple(
        MemberInfo(
            str(member.member_id),
            member.group_instance_id,
            str(member.client_id),
            str(member.client_host),
            _assigned(bytes(member.member_assignment)),
        )
        for member in row.members
    )
    state, assignor = str(row.group_state), str(row.protocol_data)
    return GroupInfo(str(row.group_id), coordinator, state, str(row.protocol_type), assignor, members)


def offsets_request(group_ids: Sequence[str]) -> KafkaMessage:
    """Return an OffsetFetch request for all committed offsets of these groups."""
    rows = [{"group_id": group_id, "topics": None} for group_id in group_ids]
    return request(ApiKey.OFFSET_FETCH, 8, groups=rows, require_stable=False)


def offsets_of(answer: KafkaMessage) -> dict[str, dict[TopicPartition, int] | KafkaRequestFailed]:
    """Read a response to `offsets_request`: each group's offsets ordered by partition, or its error."""
    return {str(row.group_id): _committed(row) for row in answer.groups}


def _committed(row: KafkaMessage) -> dict[TopicPartition, int] | KafkaRequestFailed:
    if row.error_code != ErrorCode.none:
        return KafkaRequestFailed(ErrorCode(row.error_code))
    found = {
        TopicPartition(str(topic.name), int(each.partition_index)): int(each.committed_offset)
        for topic in row.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }
    return dict(sorted(found.items()))


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    try:
        return tuple(sorted(decode_assignment(data))) if data else ()
    except BadConsumerProtocol:
        return ()  # the group is not a consumer group


def _check(error: int) -> None:
    if error != ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(error))


def _value(found: T | KafkaRequestFailed) -> T:
    if isinstance(found, KafkaRequestFailed):
        raise found
    return found
