"""Handlers for features that zabka's brokers lack. They return the errors of a Kafka broker without these features.

There is no feature that could be finalized, no forwarding to the controller (KIP-590), and no group protocol except the
classic one (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond

_AUTHENTICATED_BEFORE = "SaslAuthenticate request received after successful authentication"
_NOT_CONTROLLER = "This is not the correct controller for this cluster."


class AbsentHandlers:
    """Handles requests about disabled features."""

    def __init__(self, is_controller: Callable[[], bool]) -> None:
        self._is_controller = is_controller

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.SASL_HANDSHAKE: self.sasl,
            ApiKey.SASL_AUTHENTICATE: self.sasl,
            ApiKey.UPDATE_FEATURES: self.update_features,
            ApiKey.ENVELOPE: self.envelope,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.consumer_group_heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.consumer_group_describe,
        }

    # ---- authentication ----------------------------------------------------------------------------------------

    async def sasl(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process SaslHandshake and SaslAuthenticate of a connection that needs no authentication, or no other one.

        `SaslConnection` processes all others.
        """
        return respond(request, error_code=ErrorCode.illegal_sasl_state, error_message=_AUTHENTICATED_BEFORE)

    # ---- features ---------------------------------------------------------------------------------------------

    async def update_features(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process UpdateFeatures. In ZooKeeper mode, Kafka 3.9 has no feature that can be finalized."""
        if not self._is_controller():
            return respond(request, error_code=ErrorCode.not_controller, error_message=_NOT_CONTROLLER)
        updates = {str(update.feature): update for update in request.feature_updates}
        rows = [{"feature": feature, **_unsupported_feature(update)} for feature, update in updates.items()]
        return respond(request, results=rows)

    # ---- other protocols --------------------------------------------------------------------------------------

    async def envelope(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process Envelope: close the connection, as Kafka does if forwarding is not enabled. Raises RequestRefused."""
        raise RequestRefused("forwarding is not enabled")

    async def consumer_group_heartbeat(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process ConsumerGroupHeartbeat. Return UNSUPPORTED_VERSION."""
        return respond(request, error_code=ErrorCode.unsupported_version)

    async def consumer_group_describe(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process ConsumerGroupDescribe. Return UNSUPPORTED_VERSION."""
        rows = [{"group_id": group, "error_code": ErrorCode.unsupported_version} for group in request.group_ids]
        return respond(request, groups=rows)


def _unsupported_feature(update: KafkaMessage) -> dict[str, Any]:
    if not update.feature:
        return {"error_code": ErrorCode.invalid_request, "error_message": "Feature name can not be empty."}
    return {
        "error_code": ErrorCode.invalid_request,
        "error_message": "Could not apply finalized feature update because the provided feature is not supported.",
    }
