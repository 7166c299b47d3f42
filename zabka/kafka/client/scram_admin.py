"""Requests of kafka-configs for users: describe and alter SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kio.schema.errors import ErrorCode

from zabka.kafka.client.client import REQUEST_TIMEOUT_MS
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.controller_client import ControllerClient
from zabka.kafka.scram import Upsertion
from zabka.kafka.wire.kafka_schema import ApiKey, request

_VERSION = 0


async def alter_scram_credentials(
    client: ControllerClient, user: str, upsertions: Sequence[Upsertion], deletions: Sequence[int]
) -> None:
    """Change credentials of one user. Raises KafkaRequestFailed, KafkaUnavailable."""
    asked = request(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        _VERSION,
        deletions=[{"name": user, "mechanism": code} for code in deletions],
        upsertions=[{"name": user, **upsertion._asdict()} for upsertion in upsertions],
    )
    answer = await client.at_controller(
        asked, lambda answer: [result.error_code for result in answer.results], REQUEST_TIMEOUT_MS
    )
    for result in answer.results:
        _check(result.error_code, result.error_message)


async def describe_scram_credentials(
    client: ControllerClient, user: str | None = None
) -> Mapping[str, Mapping[int, int]]:
    """Return the iterations of each credential, by user and mechanism code.

    Without `user`, return those of all users. A user without credentials has an empty mapping. Raises
    KafkaRequestFailed, KafkaUnavailable.
    """
    users = None if user is None else [{"name": user}]
    asked = request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _VERSION, users=users)
    answer = await client.any_broker(asked, REQUEST_TIMEOUT_MS)
    _check(answer.error_code, answer.error_message)
    found: dict[str, dict[int, int]] = {}
    for result in answer.results:
        if result.error_code != ErrorCode.resource_not_found:
            _check(result.error_code, result.error_message)
        found[result.user] = {info.mechanism: info.iterations for info in result.credential_infos}
    return found


def _check(error: int, message: str | None) -> None:
    if error != ErrorCode.none:
        raise KafkaRequestFailed(ErrorCode(error), message or "")
