"""Which requests to one broker share a connection.

A connection carries its requests in order, and the server answers each only after the one before.  So kinds of requests
that would block each other have connections of their own, as in Kafka (fetchers, the controller's control requests,
producers, members of a group that join, markers of transactions, their verifications, all others).
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
    """Return the number of the connection to one broker that this request uses."""
    return _LANES.get(api_key_of(request), _OTHER)
