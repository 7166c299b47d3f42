"""A client's connection on a listener with SASL. Its requests are processed after it has authenticated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zabka.broker_sim.configs.sasl_keys import SaslKeys
from zabka.broker_sim.failed_authentications import Cause, FailedAuthentication
from zabka.broker_sim.kafka_port import Connection, KafkaPort
from zabka.broker_sim.sasl.authenticator import Outcome, SaslAuthenticator, SaslPorts
from zabka.kafka.wire.frame_reader import FRAME_SIZE, FrameReader
from zabka.kafka.wire.frames import DecodedRequest, UnsupportedVersion, decode_request
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.kafka.wire.primitives import WireError

REASON_MAX = 260
"""Maximum length of the reported reason of a failed authentication, which can contain a name that a client chose."""
REJECTED_TOKENS_MAX = 3
"""Number of rejected tokens after which a connection is closed."""
_HANDSHAKE, _VERSIONS = (int(key).to_bytes(2) for key in (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS))


class Authentication(NamedTuple):
    """Authentication of one listener's connections.

    `failure_delay_ms` is connection.failed.authentication.delay.ms. `failed` reports a failure.
    """

    keys: SaslKeys
    ports: SaslPorts
    failure_delay_ms: int
    failed: Callable[[FailedAuthentication], None]

    def connection(self, port: KafkaPort) -> Connection:
        """Return a new connection of a port."""
        return SaslConnection(port, self)


class SaslConnection(Connection):
    """One client's connection. Before it is authenticated, its frames are limited to sasl.server.max.receive.size."""

    def __init__(self, port: KafkaPort, authentication: Authentication) -> None:
        super().__init__(port)
        self._authentication = authentication
        self._authenticator = SaslAuthenticator(authentication.keys, authentication.ports)
        self._rejected_tokens = 0
        self._rejection = ""
        """The reported reason of the last rejected token."""
        self._frame_reader = self._reader = FrameReader(authentication.keys.receive_bytes_max)

    async def _carry_out(self, frame: bytes) -> bool:
        authenticator = self._authenticator
        if authenticator.is_complete and not (frame.startswith(_HANDSHAKE) and authenticator.begin_again()):
            if not authenticator.has_expired:
                return await super()._carry_out(frame)
            # As in Kafka, close the connection without a response: the client should have authenticated again.
            self.close()
            return False
        if authenticator.expects_token:
            return await self._answer_with(authenticator.token(frame), None)
        refusal = authenticator.refusal(int.from_bytes(frame[:2], signed=True))
        if refusal is not None:
            return await self._refuse(refusal, "unexpected_request")
        try:
            request = decode_request(frame)
        except UnsupportedVersion as unsupported:
            if unsupported.api_key == ApiKey.API_VERSIONS:
                return await super()._carry_out(frame)
            return await self._refuse(str(unsupported), "unexpected_request")
        except WireError as malformed:
            return await self._refuse(str(malformed), "invalid_message")
        if authenticator.takes_versions and frame.startswith(_VERSIONS):
            authenticator.versions_sent()
            return await self._answer(request, None)
        if self._client_id is None:
            self._named(request.client_id or "")
        return await self._answer_with(authenticator.request(request.payload), request)

    async def _answer_with(self, outcome: Outcome, request: DecodedRequest | None) -> bool:
        """Send the response to a message of the exchange. Return False if the connection was closed."""
        parts: list[bytes] = []
        if outcome.response is not None and request is not None:
            parts = self._port.encoder.encode_parts(request.correlation_id, outcome.response)
        elif outcome.token is not None:
            parts = [FRAME_SIZE.pack(len(outcome.token)) + outcome.token]
        if outcome.failure:
            return await self._refuse(outcome.failure, outcome.cause, parts)
        if outcome.rejection:
            self._report(outcome.rejection, "wrong_credentials")
            self._rejected_tokens, self._rejection = self._rejected_tokens + 1, outcome.rejection
            if self._rejected_tokens >= REJECTED_TOKENS_MAX:
                return await self._refuse(outcome.rejection, "wrong_credentials", parts)
        if self._authenticator.is_complete:
            self._rejected_tokens, self._rejection = 0, ""
            self.principal = self._authenticator.principal
            self._frame_reader.bytes_max = self._port.frame_bytes_max
        self._replies += parts
        self._flush()
        return True

    async def _refuse(self, reason: str, cause: Cause, parts: list[bytes] | None = None) -> bool:
        """Report a failed authentication. As in Kafka, send the response and close the connection after a delay.

        A client confirms the rejection of its token, which is reported already.
        """
        if reason != self._rejection:
            self._report(reason, cause)
        await self._hang(self._authentication.failure_delay_ms)
        self._replies += parts or []
        self.close()
        return False

    def _report(self, reason: str, cause: Cause) -> None:
        listener, mechanism = self._port.listener, self._authenticator.mechanism
        self._authentication.failed(FailedAuthentication(listener, mechanism, self._remote, cause, reason[:REASON_MAX]))

    def _drop(self, reason: str) -> None:
        if self._authenticator.is_complete:
            super()._drop(reason)
            return
        self._frames.clear()
        if self._transport is not None and not self._transport.is_closing():
            # As in Kafka, a frame with an invalid size is a failed authentication.
            self._report(reason, "invalid_message")
            self.close()
