"""Requests about delegation tokens (KIP-48). They fail as on a Kafka broker without `delegation.token.secret.key`."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Authorizer
from zabka.broker_sim.configs.listeners import PLAINTEXT, SSL, Listener
from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.kafka.acls import AclOperation, ResourceType
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond, wall_time

_NO_TIME = wall_time(-1)


class DelegationTokenHandlers:
    """Handles requests about delegation tokens. `authorizer` is None on a broker without one."""

    def __init__(self, listeners: tuple[Listener, ...], authorizer: Authorizer | None) -> None:
        self._protocols = {listener.name: listener.protocol for listener in listeners}
        self._authorizer = authorizer

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.CREATE_DELEGATION_TOKEN: self.create,
            ApiKey.RENEW_DELEGATION_TOKEN: self.other,
            ApiKey.EXPIRE_DELEGATION_TOKEN: self.other,
            ApiKey.DESCRIBE_DELEGATION_TOKEN: self.other,
        }

    async def create(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process CreateDelegationToken. The owner in the response is the requested owner."""
        owner, name = context.principal, getattr(request, "owner_principal_name", None)
        if name:
            owner = KafkaPrincipal(getattr(request, "owner_principal_type", None) or "", str(name))
        error = self._error(context)
        if error is ErrorCode.delegation_token_auth_disabled:
            if owner != context.principal and not self._may_create(context, owner):
                error = ErrorCode.delegation_token_authorization_failed
            elif any(renewer.principal_type != "User" for renewer in request.renewers):
                error = ErrorCode.invalid_principal_type
        return respond(
            request,
            error_code=error,
            principal_type=owner.kind,
            principal_name=owner.name,
            token_requester_principal_type=context.principal.kind,
            token_requester_principal_name=context.principal.name,
            issue_timestamp=_NO_TIME,
            expiry_timestamp=_NO_TIME,
            max_timestamp=_NO_TIME,
        )

    async def other(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process any other request about delegation tokens."""
        return respond(request, error_code=self._error(context), expiry_timestamp=_NO_TIME)

    def _error(self, context: RequestContext) -> ErrorCode:
        """Return the error of all requests, which depends on the listener (KafkaApis.allowTokenRequests)."""
        protocol = self._protocols.get(context.listener, PLAINTEXT)
        if protocol == PLAINTEXT or (protocol == SSL and context.principal == ANONYMOUS):
            return ErrorCode.delegation_token_request_not_allowed
        return ErrorCode.delegation_token_auth_disabled

    def _may_create(self, context: RequestContext, owner: KafkaPrincipal) -> bool:
        if self._authorizer is None:
            return True
        access = self._authorizer.access(context, ApiKey.CREATE_DELEGATION_TOKEN)
        return access.allows(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner))
