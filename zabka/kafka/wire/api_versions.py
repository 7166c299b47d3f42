"""Requests that zabka's brokers support, with the versions of each (KIP-35), and the ApiVersions response."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, fill, respond, response_class

SUPPORTED: dict[ApiKey, tuple[int, int]] = {
    ApiKey.PRODUCE: (0, 11),
    ApiKey.FETCH: (0, 17),
    ApiKey.LIST_OFFSETS: (0, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.LEADER_AND_ISR: (0, 7),
    ApiKey.STOP_REPLICA: (0, 4),
    ApiKey.UPDATE_METADATA: (0, 8),
    ApiKey.CONTROLLED_SHUTDOWN: (0, 3),
    ApiKey.OFFSET_COMMIT: (0, 9),
    ApiKey.OFFSET_FETCH: (0, 9),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (0, 7),
    ApiKey.DELETE_TOPICS: (0, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 4),
    ApiKey.WRITE_TXN_MARKERS: (0, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 4),
    ApiKey.DESCRIBE_ACLS: (0, 3),
    ApiKey.CREATE_ACLS: (0, 3),
    ApiKey.DELETE_ACLS: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (0, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (0, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (0, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_PARTITION: (0, 3),
    ApiKey.UPDATE_FEATURES: (0, 1),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
}
"""Lowest and highest version of each request that a broker advertises.

They are the same as in Kafka 3.9.1 in ZooKeeper mode, on every listener. If zabka lacks a feature, a broker responds to
requests for it like a Kafka broker on which the feature is disabled.
"""

FEATURES_EPOCH = 0
"""Version of the znode /feature.

No controller in ZooKeeper mode changes it, because Kafka 3.9 cannot finalize features there.
"""


def is_supported(api_key: int, version: int) -> bool:
    """Return whether zabka's brokers support that version of that request."""
    if api_key not in ApiKey.__members__.values():
        return False
    lowest, highest = SUPPORTED[ApiKey(api_key)]
    return lowest <= version <= highest


def _ranges(api_keys: tuple[ApiKey, ...]) -> list[dict[str, int]]:
    return [
        {"api_key": int(key), "min_version": SUPPORTED[key][0], "max_version": SUPPORTED[key][1]} for key in api_keys
    ]


def answer(to: KafkaMessage) -> KafkaMessage:
    """Return the response to an ApiVersions request."""
    return respond(to, api_keys=_ranges(tuple(sorted(SUPPORTED))), finalized_features_epoch=FEATURES_EPOCH)


def answer_unknown_version() -> KafkaMessage:
    """Return the response to an ApiVersions request of an unsupported version (KIP-511).

    The response has a v0 body with error 35 and the version range of ApiVersions itself, from which the client learns
    which version to use.
    """
    values = {"error_code": ErrorCode.unsupported_version, "api_keys": _ranges((ApiKey.API_VERSIONS,))}
    return fill(response_class(ApiKey.API_VERSIONS, 0), values)
