"""The requests a broker here serves, with the versions of each (KIP-35), and the answer to ApiVersions."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_sim.kafka_schema import ApiKey, fill, respond, response_class
from controller.ports import KafkaMessage

SUPPORTED: dict[ApiKey, tuple[int, int]] = {
    ApiKey.PRODUCE: (3, 9),
    ApiKey.FETCH: (4, 12),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.METADATA: (0, 12),
    ApiKey.LEADER_AND_ISR: (2, 7),
    ApiKey.STOP_REPLICA: (3, 4),
    ApiKey.UPDATE_METADATA: (5, 8),
    ApiKey.CONTROLLED_SHUTDOWN: (3, 3),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION: (3, 3),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
}
"""Lowest and highest version of each request.

Of the control requests: from where they group partitions by topic, which is what brokers since Kafka 2.6 send.
"""


def is_supported(api_key: int, version: int) -> bool:
    """Does a broker here serve that version of that request?"""
    if api_key not in ApiKey.__members__.values():
        return False
    lowest, highest = SUPPORTED[ApiKey(api_key)]
    return lowest <= version <= highest


def _ranges(api_keys: tuple[ApiKey, ...]) -> list[dict[str, int]]:
    return [
        {"api_key": int(key), "min_version": SUPPORTED[key][0], "max_version": SUPPORTED[key][1]} for key in api_keys
    ]


def answer(to: KafkaMessage) -> KafkaMessage:
    """The answer to an ApiVersions request."""
    return respond(to, api_keys=_ranges(tuple(sorted(SUPPORTED))))


def answer_unknown_version() -> KafkaMessage:
    """The answer to an ApiVersions request of a version not served: a v0 body, error 35, and the range of ApiVersions
    itself, from which the client learns which version to ask with (KIP-511)."""
    values = {"error_code": ErrorCode.unsupported_version, "api_keys": _ranges((ApiKey.API_VERSIONS,))}
    return fill(response_class(ApiKey.API_VERSIONS, 0), values)
