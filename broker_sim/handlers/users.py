"""Handlers of client quota requests and SCRAM credential requests.

DescribeClientQuotas, AlterClientQuotas, DescribeUserScramCredentials and AlterUserScramCredentials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.scram_credentials import ScramCredentials
from zabka.broker_sim.quotas.client_quotas import ClientQuotas, Component, Entity, QuotaChange
from zabka.broker_sim.refusals import Refused
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.ensemble.errors import ZooKeeperError
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.scram import Upsertion
from zabka.kafka.wire.kafka_schema import ApiKey, respond


class UserHandlers:
    """Handles requests about users: quotas on any broker, SCRAM credentials only on the controller."""

    def __init__(self, quotas: ClientQuotas, credentials: ScramCredentials, is_controller: Callable[[], bool]) -> None:
        self._quotas = quotas
        self._credentials = credentials
        self._is_controller = is_controller

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe_client_quotas,
            ApiKey.ALTER_CLIENT_QUOTAS: self.alter_client_quotas,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe_credentials,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter_credentials,
        }

    # ---- quotas -----------------------------------------------------------------------------------------------

    async def describe_client_quotas(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DescribeClientQuotas request."""
        components = [Component(str(c.entity_type), int(c.match_type), c.match) for c in request.components]
        try:
            found = await self._quotas.describe(components, bool(request.strict))
        except Refused as refused:
            return respond(request, error_code=refused.error, error_message=refused.message, entries=None)
        except ZooKeeperError as failure:
            return respond(request, error_code=ErrorCode.unknown_server_error, error_message=str(failure), entries=None)
        entries = [
            {
                "entity": _entity_rows(entity),
                "values": [{"key": key, "value": value} for key, value in sorted(values.items())],
            }
            for entity, values in found
        ]
        return respond(request, entries=entries)

    async def alter_client_quotas(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process AlterClientQuotas. If an entity is repeated, it is altered twice but has one result, as in Kafka."""
        rows: dict[Entity, dict[str, Any]] = {}
        for entry in request.entries:
            entity = tuple({str(part.entity_type): part.entity_name for part in entry.entity}.items())
            changes = [QuotaChange(str(op.key), None if op.remove else float(op.value)) for op in entry.ops]
            result = await self._quotas.alter(entity, changes, bool(request.validate_only))
            row = {"entity": _entity_rows(entity), "error_code": result.error, "error_message": result.message}
            rows[tuple(sorted(entity, key=str))] = row
        return respond(request, entries=list(rows.values()))

    # ---- credentials ------------------------------------------------------------------------------------------

    async def describe_credentials(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DescribeUserScramCredentials request."""
        users = None if request.users is None else [str(user.name) for user in request.users]
        try:
            results = await self._credentials.describe(users)
        except ZooKeeperError as failure:
            return respond(request, error_code=ErrorCode.unknown_server_error, error_message=str(failure))
        rows = [
            {
                "user": result.user,
                "error_code": result.error,
                "error_message": result.message,
                "credential_infos": [credential._asdict() for credential in result.credentials],
            }
            for result in results
        ]
        return respond(request, results=rows)

    async def alter_credentials(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an AlterUserScramCredentials request."""
        users = [str(each.name) for each in (*request.deletions, *request.upsertions)]
        rows = []
        for user in dict.fromkeys(users):
            if not self._is_controller():
                rows.append({"user": user, "error_code": ErrorCode.not_controller})
                continue
            result = await self._credentials.alter(
                user,
                [int(deletion.mechanism) for deletion in request.deletions if deletion.name == user],
                [
                    Upsertion(int(u.mechanism), int(u.iterations), bytes(u.salt), bytes(u.salted_password))
                    for u in request.upsertions
                    if u.name == user
                ],
            )
            rows.append({"user": user, "error_code": result.error, "error_message": result.message})
        return respond(request, results=rows)


def _entity_rows(entity: Entity) -> list[dict[str, Any]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]
