"""Requests about what a broker here does not have, answered as a Kafka broker that has not been given it.

No authorizer, no delegation tokens, no features to finalize, no transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from broker_sim.request_context import Handler, RequestContext
from kafka_protocol.ports import KafkaMessage
from kafka_protocol.wire.kafka_schema import ApiKey, respond

TRANSACTION_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
"""org.apache.kafka.clients.admin.TransactionState, as ListTransactions names them."""
_NO_AUTHORIZER = "No Authorizer is configured."


class AbsentHandlers:
    """Says what is not there."""

    def __init__(self, is_controller: Callable[[], bool]) -> None:
        self._is_controller = is_controller

    def table(self) -> Mapping[ApiKey, Handler]:
        """The requests served here."""
        return {
            ApiKey.DESCRIBE_ACLS: self.describe_acls,
            ApiKey.CREATE_ACLS: self.create_acls,
            ApiKey.DELETE_ACLS: self.delete_acls,
            ApiKey.CREATE_DELEGATION_TOKEN: self.token,
            ApiKey.RENEW_DELEGATION_TOKEN: self.token,
            ApiKey.EXPIRE_DELEGATION_TOKEN: self.token,
            ApiKey.DESCRIBE_DELEGATION_TOKEN: self.token,
            ApiKey.UPDATE_FEATURES: self.update_features,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe_transactions,
            ApiKey.LIST_TRANSACTIONS: self.list_transactions,
        }

    # ---- who may do what --------------------------------------------------------------------------------------

    async def describe_acls(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer DescribeAcls: nobody is held to any."""
        message = "No Authorizer is configured on the broker"
        return respond(request, error_code=ErrorCode.security_disabled, error_message=message)

    async def create_acls(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer CreateAcls."""
        return respond(request, results=[_security_disabled() for _ in request.creations])

    async def delete_acls(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer DeleteAcls."""
        return respond(request, filter_results=[_security_disabled() for _ in request.filters])

    async def token(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer any request about delegation tokens: none are given out on plain connections."""
        anonymous = {"principal_type": "User", "principal_name": "ANONYMOUS"}
        return respond(
            request,
            error_code=ErrorCode.delegation_token_request_not_allowed,
            token_requester_principal_type="User",
            token_requester_principal_name="ANONYMOUS",
            **anonymous,
        )

    # ---- features ---------------------------------------------------------------------------------------------

    async def update_features(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer UpdateFeatures: in ZooKeeper mode Kafka 3.9 supports no feature that could be finalized."""
        if not self._is_controller():
            return respond(request, error_code=ErrorCode.not_controller)
        updates = {str(update.feature): update for update in request.feature_updates}
        rows = [{"feature": feature, **_unsupported_feature(update)} for feature, update in updates.items()]
        return respond(request, results=rows)

    # ---- transactions -----------------------------------------------------------------------------------------

    async def describe_transactions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer DescribeTransactions: no transactional id is known."""
        rows = [
            {
                "transactional_id": each,
                "error_code": ErrorCode.transactional_id_not_found if each else ErrorCode.invalid_request,
            }
            for each in request.transactional_ids
        ]
        return respond(request, transaction_states=rows)

    async def list_transactions(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Answer ListTransactions: there are none."""
        unknown = [state for state in request.state_filters if state not in TRANSACTION_STATES]
        return respond(request, unknown_state_filters=unknown)


def _security_disabled() -> dict[str, Any]:
    return {"error_code": ErrorCode.security_disabled, "error_message": _NO_AUTHORIZER}


def _unsupported_feature(update: KafkaMessage) -> dict[str, Any]:
    if not update.feature:
        return {"error_code": ErrorCode.invalid_request, "error_message": "Feature name can not be empty."}
    return {
        "error_code": ErrorCode.invalid_request,
        "error_message": "Could not apply finalized feature update because the provided feature is not supported.",
    }
