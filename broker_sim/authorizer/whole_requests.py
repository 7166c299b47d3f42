"""Permissions that a request needs as a whole, and the responses without them (kafka.server.KafkaApis).

Each response has the fields that Kafka's `getErrorResponse` sets, because clients read different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Access
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond, version_of

CLUSTER_OPERATIONS: Mapping[ApiKey, tuple[AclOperation, ...]] = {
    ApiKey.LEADER_AND_ISR: (AclOperation.CLUSTER_ACTION,),
    ApiKey.STOP_REPLICA: (AclOperation.CLUSTER_ACTION,),
    ApiKey.UPDATE_METADATA: (AclOperation.CLUSTER_ACTION,),
    ApiKey.CONTROLLED_SHUTDOWN: (AclOperation.CLUSTER_ACTION,),
    ApiKey.ALTER_PARTITION: (AclOperation.CLUSTER_ACTION,),
    ApiKey.ALLOCATE_PRODUCER_IDS: (AclOperation.CLUSTER_ACTION,),
    ApiKey.WRITE_TXN_MARKERS: (AclOperation.ALTER, AclOperation.CLUSTER_ACTION),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (AclOperation.ALTER,),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (AclOperation.DESCRIBE,),
    ApiKey.ELECT_LEADERS: (AclOperation.ALTER,),
    ApiKey.DESCRIBE_ACLS: (AclOperation.DESCRIBE,),
    ApiKey.CREATE_ACLS: (AclOperation.ALTER,),
    ApiKey.DELETE_ACLS: (AclOperation.ALTER,),
    ApiKey.UPDATE_FEATURES: (AclOperation.ALTER,),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (AclOperation.DESCRIBE_CONFIGS,),
    ApiKey.ALTER_CLIENT_QUOTAS: (AclOperation.ALTER_CONFIGS,),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (AclOperation.DESCRIBE,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (AclOperation.ALTER,),
    ApiKey.DESCRIBE_LOG_DIRS: (AclOperation.DESCRIBE,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (AclOperation.ALTER,),
}
"""The operations on the cluster of which each API needs one."""
NAMED_RESOURCES: Mapping[ApiKey, tuple[tuple[str, ResourceType, AclOperation], ...]] = {
    ApiKey.JOIN_GROUP: (("group_id", ResourceType.GROUP, AclOperation.READ),),
    ApiKey.SYNC_GROUP: (("group_id", ResourceType.GROUP, AclOperation.READ),),
    ApiKey.HEARTBEAT: (("group_id", ResourceType.GROUP, AclOperation.READ),),
    ApiKey.LEAVE_GROUP: (("group_id", ResourceType.GROUP, AclOperation.READ),),
    ApiKey.OFFSET_COMMIT: (("group_id", ResourceType.GROUP, AclOperation.READ),),
    ApiKey.OFFSET_DELETE: (("group_id", ResourceType.GROUP, AclOperation.DELETE),),
    ApiKey.TXN_OFFSET_COMMIT: (
        ("transactional_id", ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        ("group_id", ResourceType.GROUP, AclOperation.READ),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (
        ("transactional_id", ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        ("group_id", ResourceType.GROUP, AclOperation.READ),
    ),
    ApiKey.END_TXN: (("transactional_id", ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),),
}
"""The resources that a request names in a field, and the operations on them. All of them are needed."""
ERRORS: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}
"""The error for each type of resource (AclEntry.authorizationError)."""
MESSAGES: Mapping[ErrorCode, str] = {
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
}
"""Kafka's messages for the errors (org.apache.kafka.common.protocol.Errors)."""
_NAMES_THE_REQUEST = (
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
)
"""APIs whose message names the denied request (AuthHelper.authorizeClusterOperation)."""
_WITHOUT_MESSAGE = (
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)
"""APIs whose response has no message, because it would be the error's own (ApiError.fromThrowable)."""
_NULL_PROTOCOL_FROM = 7


def cluster_error(api: ApiKey, request: KafkaMessage, access: Access) -> ErrorCode | None:
    """Return the error if the request needs an operation on the cluster that the client is denied."""
    *others, last = CLUSTER_OPERATIONS[api]
    if any(access.allows_cluster(operation, is_noted=False) for operation in others) or access.allows_cluster(last):
        return None
    return ErrorCode.cluster_authorization_failed


def named_error(api: ApiKey, request: KafkaMessage, access: Access) -> ErrorCode | None:
    """Return the error if the client is denied an operation on a resource that a field of the request names."""
    for field, resource_type, operation in NAMED_RESOURCES[api]:
        if not access.allows(operation, resource_type, getattr(request, field)):
            return ERRORS[resource_type]
    return None


def init_producer_id_error(request: KafkaMessage, access: Access) -> ErrorCode | None:
    """Return the error of InitProducerId if the client is denied idempotent or transactional writes (KIP-679)."""
    if request.transactional_id is not None:
        allowed = access.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        return None if allowed else ErrorCode.transactional_id_authorization_failed
    if access.allows_cluster(AclOperation.IDEMPOTENT_WRITE, is_noted=False):
        return None
    if access.allows_any(AclOperation.WRITE, ResourceType.TOPIC):
        return None
    access.note(AclOperation.IDEMPOTENT_WRITE)
    return ErrorCode.cluster_authorization_failed


def refuse(api: ApiKey, request: KafkaMessage, error: ErrorCode, access: Access) -> KafkaMessage:
    """Return the response to a request that was denied as a whole."""
    rows = _ROWS.get(api)
    message: str | None = MESSAGES[error]
    if api in _NAMES_THE_REQUEST:
        message = access.kafkas_refusal()
    elif api in _WITHOUT_MESSAGE:
        message = None
    values = {"error_code": error, "error_message": message}
    return respond(request, **{**values, **({} if rows is None else rows(request, values))})


_Values = dict[str, Any]


def _join_group(request: KafkaMessage, values: _Values) -> _Values:
    name = None if version_of(request) >= _NULL_PROTOCOL_FROM else ""
    return {"generation_id": -1, "protocol_name": name}


def _init_producer_id(request: KafkaMessage, values: _Values) -> _Values:
    return {"producer_id": -1, "producer_epoch": -1}


def _client_quotas(request: KafkaMessage, values: _Values) -> _Values:
    rows = []
    for entry in request.entries:
        entity = [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]
        rows.append({**values, "entity": entity})
    return {"entries": rows}


def _credentials(request: KafkaMessage, values: _Values) -> _Values:
    users = {str(each.name) for each in (*request.deletions, *request.upsertions)}
    return {"results": [{**values, "user": user} for user in sorted(users)]}


def _log_dirs(request: KafkaMessage, values: _Values) -> _Values:
    rows = [
        {
            "topic_name": topic.name,
            "partitions": [{**values, "partition_index": number} for number in topic.partitions],
        }
        for directory in request.dirs
        for topic in directory.topics
    ]
    return {"results": rows}


def _reassignments(request: KafkaMessage, values: _Values) -> _Values:
    rows = [
        {"name": topic.name, "partitions": [{**values, "partition_index": p.partition_index} for p in topic.partitions]}
        for topic in request.topics
    ]
    return {"responses": rows}


def _elections(request: KafkaMessage, values: _Values) -> _Values:
    no_message = {**values, "error_message": None}
    rows = [
        {"topic": topic.topic, "partition_result": [{**no_message, "partition_id": each} for each in topic.partitions]}
        for topic in request.topic_partitions or ()
    ]
    return {"replica_election_results": rows}


def _markers(request: KafkaMessage, values: _Values) -> _Values:
    rows = [
        {
            "producer_id": marker.producer_id,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [{**values, "partition_index": number} for number in topic.partition_indexes],
                }
                for topic in marker.topics
            ],
        }
        for marker in request.markers
    ]
    return {"markers": rows}


def _offsets(request: KafkaMessage, values: _Values) -> _Values:
    rows = [
        {"name": topic.name, "partitions": [{**values, "partition_index": p.partition_index} for p in topic.partitions]}
        for topic in request.topics
    ]
    return {"topics": rows}


_ROWS: Mapping[ApiKey, Callable[[KafkaMessage, _Values], _Values]] = {
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ALTER_CLIENT_QUOTAS: _client_quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda request, values: {"entries": None},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _log_dirs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.OFFSET_COMMIT: _offsets,
    ApiKey.TXN_OFFSET_COMMIT: _offsets,
    ApiKey.CREATE_ACLS: lambda request, values: {"results": [values for _ in request.creations]},
    ApiKey.DELETE_ACLS: lambda request, values: {"filter_results": [values for _ in request.filters]},
}
"""Functions that return the rows of the response, which contain the error again."""
