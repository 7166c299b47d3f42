"""Finds the coordinator of a group or of a transactional id (FindCoordinator, KIP-699)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from kio.schema.errors import ErrorCode

from zabka.ensemble.ports import Runtime
from zabka.kafka.client.client import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request

LATER = (
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_load_in_progress,
)
"""Transient errors: the coordinator is not elected yet, has moved, or is still loading its log."""


class KeyType(IntEnum):
    """Type of the key that a coordinator is responsible for: a group or a transactional id."""

    GROUP = 0
    TRANSACTION = 1


async def find_coordinator(
    client: KafkaClient, runtime: Runtime, key_type: KeyType, key: str, timeout_ms: int = REQUEST_TIMEOUT_MS
) -> Endpoint:
    """Return the coordinator of a group or of a transactional id. Raises KafkaRequestFailed, KafkaUnavailable."""
    deadline_ms = runtime.now().mono_ms + timeout_ms
    while True:
        found = coordinators_of(await client.any_broker(coordinators_request(key_type, [key]), timeout_ms))[key]
        if isinstance(found, Endpoint):
            return found
        if found.error not in LATER or runtime.now().mono_ms >= deadline_ms:
            raise found
        await runtime.sleep(RETRY_BACKOFF_MS)


def coordinators_request(key_type: KeyType, keys: Sequence[str]) -> KafkaMessage:
    """Return a FindCoordinator request for these groups or transactional ids."""
    return request(ApiKey.FIND_COORDINATOR, 4, key_type=int(key_type), coordinator_keys=list(keys))


def coordinators_of(answer: KafkaMessage) -> dict[str, Endpoint | KafkaRequestFailed]:
    """Read a response to `coordinators_request`: the coordinator of each key, or the key's error."""
    return {
        str(row.key): Endpoint(int(row.node_id), str(row.host), int(row.port))
        if row.error_code == ErrorCode.none
        else KafkaRequestFailed(ErrorCode(row.error_code), row.error_message)
        for row in answer.coordinators
    }
