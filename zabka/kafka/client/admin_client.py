"""Administrative requests to a Kafka cluster: topics, leader elections, configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import ATTEMPT_MS_MAX, REQUEST_TIMEOUT_MS
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.controller_client import ControllerClient
from zabka.kafka.ports import ChannelBroken, KafkaMessage
from zabka.kafka.topic_ids import topic_id_from_kafka
from zabka.kafka.wire.kafka_schema import ApiKey, request

PREFERRED = 0
UNCLEAN = 1
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
SET = 0
DELETE = 1
ANSWER_MS = 1_000
"""Additional time in ms for which a client waits for a reply after the request's timeout at the controller."""


class ConfigEntry(NamedTuple):
    """A config key and its value. `source` is the code in DescribeConfigs (1: the topic's own override)."""

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool
    type: int
    synonyms: tuple[tuple[str, str | None, int], ...]


class AdminClient(ControllerClient):
    """A `KafkaClient` for administrators.

    `timeout_ms` is how long the controller may take for a request. `failover_ms` is added to it if a new controller may
    have to be elected first.
    """

    failover_ms = 0

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> str | None:
        """Create a topic, and wait until its partitions have leaders. Return the topic id as Kafka's tools print it."""
        row = {
            "name": name,
            "num_partitions": -1 if assignment else partitions,
            "replication_factor": -1 if assignment else replication_factor,
            "assignments": [
                {"partition_index": number, "broker_ids": tuple(replicas)}
                for number, replicas in sorted((assignment or {}).items())
            ],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        message = request(ApiKey.CREATE_TOPICS, 7, topics=[row], timeout=timeout_ms, validate_only=validate_only)
        response = await self.at_controller(message, _created_errors, timeout_ms + ANSWER_MS + self.failover_ms)
        result = response.topics[0]
        _check(result.error_code, result.error_message)
        await self.refresh()
        return topic_id_from_kafka(result.topic_id)

    async def delete_topic(self, name: str, *, timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        """Delete a topic, and wait until it is deleted."""
        message = request(ApiKey.DELETE_TOPICS, 6, topics=[{"name": name}], timeout=timeout_ms)
        response = await self.at_controller(message, _deleted_errors, timeout_ms + ANSWER_MS + self.failover_ms)
        _check(response.responses[0].error_code, response.responses[0].error_message)

    async def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Increase the number of a topic's partitions to `total`."""
        given = None if assignments is None else [{"broker_ids": tuple(replicas)} for replicas in assignments]
        row = {"name": name, "count": total, "assignments": given}
        message = request(ApiKey.CREATE_PARTITIONS, 3, topics=[row], timeout=timeout_ms)
        response = await self.at_controller(message, _grown_errors, timeout_ms + ANSWER_MS + self.failover_ms)
        _check(response.results[0].error_code, response.results[0].error_message)

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> dict[TopicPartition, tuple[ErrorCode, str | None]]:
        """Elect preferred (0) or unclean (1) leaders for these partitions, or for all partitions.

        Return the result of each election.
        """
        topics: dict[str, list[int]] = {}
        for topic_partition in partitions or ():
            topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        rows = None
        if partitions is not None:
            rows = [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]
        message = request(
            ApiKey.ELECT_LEADERS, 2, election_type=election_type, topic_partitions=rows, timeout=timeout_ms
        )
        response = await self.at_controller(message, lambda r: [r.error_code], timeout_ms + self.failover_ms)
        _check(response.error_code, None)
        return {
            TopicPartition(str(topic.topic), int(row.partition_id)): (ErrorCode(row.error_code), row.error_message)
            for topic in response.replica_election_results
            for row in topic.partition_result
        }

    async def describe_configs(
        self, resource_type: int, name: str, *, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> list[ConfigEntry]:
        """Return the configs of a topic (resource type 2) or a broker (4; the name "" means the default of all
        brokers).
        """
        resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
        message = request(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True)
        response = await self._for_resource(resource_type, name, message, timeout_ms)
        result = response.results[0]
        _check(result.error_code, result.error_message)
        return [_config_entry(row) for row in result.configs]

    async def alter_configs(
        self,
        resource_type: int,
        name: str,
        changes: Mapping[str, str | None],
        *,
        validate_only: bool = False,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Set config keys, or remove their overrides if the value is None. Other keys are not changed."""
        configs = [
            {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
            for key, value in changes.items()
        ]
        resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
        message = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=validate_only)
        if self.cluster is None:
            await self.refresh()
        if (resource_type == BROKER_RESOURCE and name.isdigit()) or self.controller() is None:
            response = await self._for_resource(resource_type, name, message, timeout_ms)
        else:
            response = await self.at_controller(message, lambda _: [], timeout_ms + self.failover_ms)
        _check(response.responses[0].error_code, response.responses[0].error_message)

    async def _for_resource(
        self, resource_type: int, name: str, message: KafkaMessage, timeout_ms: int
    ) -> KafkaMessage:
        """Send a request about configs to the right broker, and return the response.

        A request about a broker goes to that broker. Any other request goes to the controller, or to any broker if the
        controller is unknown. Any broker could reply to these requests, but a broker that has just started may not know
        every topic yet.
        """
        own = resource_type == BROKER_RESOURCE and name.isdigit()
        if own or self.cluster is None:
            await self.refresh()
        broker_id = -1 if self.cluster is None else int(name) if own else self.cluster.controller_id
        endpoint = None if self.cluster is None else self.cluster.brokers.get(broker_id)
        if own and endpoint is None:
            raise KafkaUnavailable(f"broker {name} is not alive")
        if endpoint is not None:
            try:
                return await self._channel.call(endpoint, message, timeout_ms if own else ATTEMPT_MS_MAX)
            except ChannelBroken as broken:
                if own:
                    raise KafkaUnavailable(str(broken)) from None
        return await self.any_broker(message, timeout_ms)


def _created_errors(response: KafkaMessage) -> list[int]:
    return [topic.error_code for topic in response.topics]


def _deleted_errors(response: KafkaMessage) -> list[int]:
    return [topic.error_code for topic in response.responses]


def _grown_errors(response: KafkaMessage) -> list[int]:
    return [topic.error_code for topic in response.results]


def _check(error: int, message: str | None) -> None:
    if error != ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(error), message)


def _config_entry(row: Any) -> ConfigEntry:
    return ConfigEntry(
        name=str(row.name),
        value=row.value,
        source=int(row.config_source),
        read_only=bool(row.read_only),
        is_sensitive=bool(row.is_sensitive),
        type=int(row.config_type),
        synonyms=tuple((str(s.name), s.value, int(s.source)) for s in row.synonyms),
    )
