"""Changes topics, configurations and leaders through Kafka's protocol, and reads groups and records.

Errors become problem documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import structlog
from kio.schema.errors import ErrorCode

from zabka.api.http.problems import Problem
from zabka.api.kafka.kafka_client import make_client, make_runtime
from zabka.api.views.models import ElectionResult, NewTopic
from zabka.journal.events import TopicPartition
from zabka.kafka.acls import EVERY_ACL, AclBinding
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity
from zabka.kafka.client.acl_admin import describe_acls
from zabka.kafka.client.admin_client import BROKER_RESOURCE, PREFERRED, TOPIC_RESOURCE, UNCLEAN, AdminClient
from zabka.kafka.client.client_errors import KafkaFateUnknown, KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_admin import GroupAdmin
from zabka.kafka.client.group_reading import GroupReading, read_groups
from zabka.kafka.client.record_reading import OffsetOutOfRange, RecordsSeen, fetch_records
from zabka.kafka.client.topic_reading import TopicReading, read_topics
from zabka.kafka.record_batch import BatchUnreadable

ADMIN_TIMEOUT_MS = 15_000
SETTINGS_TIMEOUT_MS = 2_000

_STATUS = {
    ErrorCode.topic_already_exists: 409,
    ErrorCode.topic_deletion_disabled: 409,
    ErrorCode.election_not_needed: 409,
    ErrorCode.cluster_authorization_failed: 403,
    ErrorCode.non_empty_group: 409,
    ErrorCode.unknown_topic_or_partition: 404,
    ErrorCode.unknown_topic_id: 404,
    ErrorCode.not_controller: 503,
    ErrorCode.request_timed_out: 503,
    ErrorCode.broker_not_available: 503,
    ErrorCode.unknown_server_error: 503,
    ErrorCode.network_exception: 503,
}

log = structlog.get_logger()


def refused(failure: KafkaRequestFailed) -> Problem:
    """Return a Kafka error as a problem document."""
    return Problem(_STATUS.get(failure.error, 422), failure.message, kafka_error=failure.error.name.upper())


def unavailable(reason: KafkaUnavailable) -> Problem:
    """Return the error for brokers that do not respond.

    If a request was already sent, the error contains `may_have_been_made`, because the change may have been made.
    """
    return Problem(503, str(reason), may_have_been_made=isinstance(reason, KafkaFateUnknown))


class KafkaAdmin:
    """Sends admin requests to the brokers.

    A request takes at most ADMIN_TIMEOUT_MS, plus up to `failover_ms` if a new controller must be elected first.
    """

    def __init__(self, bootstrap: str, failover_ms: int = 0, security: ChannelSecurity = PLAIN_TEXT) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._failover_ms = failover_ms
        self._made: tuple[AdminClient, AsyncioChannel] | None = None
        self._made_for: dict[str, tuple[AdminClient, AsyncioChannel]] = {}
        self._decoding = asyncio.Lock()

    async def _client(self) -> AdminClient:
        """Return a client with newly fetched metadata. Older metadata may name a controller that has since frozen."""
        client = self._connected()
        await client.metadata([], timeout_ms=ADMIN_TIMEOUT_MS)
        return client

    def _connected(self) -> AdminClient:
        if self._made is None:
            self._made = self._new_client("api-admin")
        return self._made[0]

    def _new_client(self, client_id: str) -> tuple[AdminClient, AsyncioChannel]:
        try:
            made = make_client(self._bootstrap, client_id, self._security)
        except ValueError as reason:
            raise Problem(503, str(reason)) from None
        made[0].failover_ms = self._failover_ms
        return made

    async def create_topic(self, topic: NewTopic) -> None:
        """Create a topic."""
        assignment = None
        if topic.assignment is not None:
            assignment = {int(partition): replicas for partition, replicas in topic.assignment.items()}
        try:
            await (await self._client()).create_topic(
                topic.name,
                topic.partitions or -1,
                topic.replication_factor or -1,
                assignment=assignment,
                configs=topic.config,
                timeout_ms=ADMIN_TIMEOUT_MS,
            )
        except KafkaRequestFailed as failure:
            if failure.error is not ErrorCode.request_timed_out:
                raise refused(failure) from None
            # The topic is created, but some leaders are not known yet. The response shows that state.
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None

    async def delete_topic(self, name: str) -> None:
        """Mark a topic for deletion."""
        try:
            await (await self._client()).delete_topic(name, timeout_ms=ADMIN_TIMEOUT_MS // 3)
        except KafkaRequestFailed as failure:
            if failure.error is not ErrorCode.request_timed_out:
                raise refused(failure) from None
            # The topic is marked for deletion. It is deleted once every broker that holds a replica is running again.
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None

    async def alter_topic_config(self, name: str, changes: dict[str, str | None]) -> None:
        """Set or remove a topic's overrides."""
        try:
            await (await self._client()).alter_configs(TOPIC_RESOURCE, name, changes, timeout_ms=ADMIN_TIMEOUT_MS)
        except KafkaRequestFailed as failure:
            raise refused(failure) from None
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None

    async def elect(self, kind: str, partitions: Sequence[TopicPartition] | None) -> list[ElectionResult]:
        """Trigger elections. Return one result per partition."""
        number = PREFERRED if kind == "PREFERRED" else UNCLEAN
        try:
            found = await (await self._client()).elect_leaders(number, partitions, timeout_ms=ADMIN_TIMEOUT_MS)
        except KafkaRequestFailed as failure:
            raise refused(failure) from None
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None
        return [
            ElectionResult(
                topic=name.topic,
                partition=name.partition,
                elected=error is ErrorCode.none,
                error=None if error is ErrorCode.none else error.name.upper(),
                message=message,
            )
            for name, (error, message) in sorted(found.items())
        ]

    async def groups(self, known: Collection[str]) -> GroupReading:
        """Read all consumer groups, including the `known` ones that no broker lists now.

        The client has connections of its own. A broker answers the requests of a connection in order, so on a shared
        connection a reading would wait for the creation of a topic, time out, and close that connection.
        """
        return await read_groups(self._own_client("api-groups"), make_runtime(), known)

    async def delete_group(self, name: str) -> None:
        """Delete a consumer group without members, if there is a group of that name."""
        try:
            error = await GroupAdmin(self._own_client("api-groups"), make_runtime()).delete(name)
        except KafkaRequestFailed as failure:
            raise refused(failure) from None
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None
        if error not in (ErrorCode.none, ErrorCode.group_id_not_found):
            raise refused(KafkaRequestFailed(error))

    async def topics(self) -> TopicReading:
        """Read the sizes and offsets of all topics, with connections of their own as for groups."""
        return await read_topics(self._own_client("api-topics"), make_runtime())

    async def records(self, partition: TopicPartition, offset: int | None, limit: int) -> RecordsSeen:
        """Read at most `limit` records of a partition from `offset` on, or the last ones if it is None.

        A thread decodes them, for one request at a time: a batch can decompress to 64 MiB.
        """
        try:
            fetched = await fetch_records(self._own_client("api-records"), partition, offset, limit)
            async with self._decoding:
                return await asyncio.to_thread(fetched.decode)
        except OffsetOutOfRange as found:
            detail = f"offset {offset} is out of range: {partition} has the offsets {found.first_offset} to"
            raise Problem(
                416, f"{detail} {found.end_offset}", first_offset=found.first_offset, end_offset=found.end_offset
            ) from None
        except BatchUnreadable as reason:
            raise Problem(503, f"the records of {partition} cannot be read: {reason}") from None
        except KafkaRequestFailed as failure:
            raise refused(failure) from None
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None

    def _own_client(self, client_id: str) -> AdminClient:
        if client_id not in self._made_for:
            self._made_for[client_id] = self._new_client(client_id)
        return self._made_for[client_id][0]

    async def broker_settings(self, broker_id: int) -> dict[str, str]:
        """Return the effective settings of a broker."""
        client = self._connected()
        try:
            rows = await client.describe_configs(BROKER_RESOURCE, str(broker_id), timeout_ms=SETTINGS_TIMEOUT_MS)
        except KafkaRequestFailed as failure:
            raise refused(failure) from None
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None
        return {row.name: row.value for row in rows if row.value is not None}

    async def acls(self) -> list[AclBinding]:
        """Return all ACLs, as one of the brokers with an authorizer knows them."""
        try:
            return await describe_acls(await self._client(), EVERY_ACL)
        except KafkaRequestFailed as failure:
            raise refused(failure) from None
        except KafkaUnavailable as reason:
            raise unavailable(reason) from None

    async def close(self) -> None:
        """Close the connections."""
        for made in (self._made, *self._made_for.values()):
            if made is not None:
                made[1].close()
