"""Distributes the requests that are sent to one broker over several connections.

A connection sends its requests in order, and the server replies to each request only after the earlier ones. Kinds of
requests that would block each other therefore use separate connections, as in Kafka: fetches, the controller's control
requests, produce requests, JoinGroup and SyncGroup, transaction markers, AddPartitionsToTxn, and all others.
"""

from __future__ import annotations

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of

_FETCHES, _CONTROL, _PRODUCES, _GROUPS, _MARKERS, _VERIFICATIONS, _OTHER = range(7)
_LANES: dict[int, int] = {
    ApiKey.FETCH: _FETCHES,
    ApiKey.LEADER_AND_ISR: _CONTROL,
    ApiKey.STOP_REPLICA: _CONTROL,
    ApiKey.UPDATE_METADATA: _CONTROL,
    ApiKey.PRODUCE: _PRODUCES,
    ApiKey.JOIN_GROUP: _GROUPS,
    ApiKey.SYNC_GROUP: _GROUPS,
    ApiKey.WRITE_TXN_MARKERS: _MARKERS,
    ApiKey.ADD_PARTITIONS_TO_TXN: _VERIFICATIONS,
}


def lane_of(request: KafkaMessage) -> int:
    """Return the number of the connection for this request, among the connections to one broker."""
    return _LANES.get(api_key_of(request), _OTHER)
