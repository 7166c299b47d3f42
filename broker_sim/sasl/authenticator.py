"""Server side of SASL on one connection (Kafka's SaslServerAuthenticator: KIP-43, KIP-152, KIP-255, KIP-368).

| state | accepted from the client | next state |
|---|---|---|
| START | ApiVersions | HANDSHAKE |
| START, HANDSHAKE | SaslHandshake | EXCHANGE |
| EXCHANGE | SaslAuthenticate after SaslHandshake v1; a bare token after v0 | EXCHANGE, then COMPLETE |
| COMPLETE | any request; SaslHandshake begins a re-authentication, if sessions have a maximum lifetime | EXCHANGE |

Anything else is a failure, after which the connection must be closed. A re-authentication must have the same mechanism
and the same user. The response to a failed SaslAuthenticate does not depend on whether the user exists. A session ends
with its token, or after connections.max.reauth.ms if that is earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.credential_cache import ScramCredential
from zabka.broker_sim.configs.sasl_keys import SaslKeys
from zabka.broker_sim.failed_authentications import Cause
from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal
from zabka.broker_sim.sasl.mechanism import (
    OAUTHBEARER,
    PLAIN,
    AuthenticationRefused,
    RefusedIdentity,
    SaslServer,
    cause_of,
)
from zabka.broker_sim.sasl.oauthbearer import OAuthBearerServer
from zabka.broker_sim.sasl.plain import PlainServer
from zabka.broker_sim.sasl.scram import ScramServer
from zabka.broker_sim.sasl.tokens import Verify
from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.ports import Instant
from zabka.kafka.message_names import api_name
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, respond, version_of

REAUTHENTICATION_MIN_MS = 1_000
"""Minimum time between two re-authentications of a connection (KafkaChannel)."""


class _State(Enum):
    START, HANDSHAKE, EXCHANGE, COMPLETE = range(4)


class SaslPorts(NamedTuple):
    """What the authentication of a listener's connections needs from its environment.

    `credential_of(mechanism, user)` returns a SCRAM credential, `nonce` returns an unpredictable string, and `now`
    returns the time. `verify` verifies tokens, if OAUTHBEARER is enabled.
    """

    credential_of: Callable[[str, str], ScramCredential | None]
    nonce: Callable[[], str]
    now: Callable[[], Instant]
    verify: Verify | None = None


class Outcome(NamedTuple):
    """Result of a message: the response, or the bare token of the response, and why the authentication failed.

    After a `rejection` of the client's token, the exchange can continue with another one.
    """

    response: KafkaMessage | None = None
    token: bytes | None = None
    failure: str = ""
    cause: Cause = "unexpected_request"
    rejection: str = ""


class SaslAuthenticator:
    """Authentication of one connection."""

    __slots__ = (
        "_began_again_ms", "_expires_ms", "_has_frames", "_mechanism", "_ports", "_previous", "_server",
        "_session_ms", "_state", "keys", "principal",
    )  # fmt: skip

    def __init__(self, keys: SaslKeys, ports: SaslPorts) -> None:
        self.keys = keys
        self.principal = ANONYMOUS
        self._ports = ports
        self._state = _State.START
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._has_frames = False
        self._previous: tuple[str, KafkaPrincipal] | None = None
        """Mechanism and principal of the connection, while it authenticates again."""
        self._expires_ms: int | None = None
        self._session_ms = 0
        """Lifetime of the session that the client is informed of, or 0 if it has none."""
        self._began_again_ms: int | None = None

    # ---- state ------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> str:
        """The mechanism that the client has chosen last, or an empty string."""
        return self._mechanism

    @property
    def is_complete(self) -> bool:
        """Whether the connection is authenticated, and not authenticating again."""
        return self._state is _State.COMPLETE

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a bare token instead of a request."""
        return self._state is _State.EXCHANGE and not self._has_frames

    @property
    def takes_versions(self) -> bool:
        """Whether ApiVersions can be the next request."""
        return self._state is _State.START

    @property
    def has_expired(self) -> bool:
        """Whether the session has exceeded its lifetime without a re-authentication."""
        return self._expires_ms is not None and self._ports.now().mono_ms > self._expires_ms

    def begin_again(self) -> bool:
        """Begin a re-authentication. Return False if SaslHandshake is an ordinary request now, as Kafka decides it."""
        now_ms = self._ports.now().mono_ms
        is_early = self._began_again_ms is not None and now_ms - self._began_again_ms < REAUTHENTICATION_MIN_MS
        if self._expires_ms is None or is_early:
            return False
        self._began_again_ms = now_ms
        self._previous = self._mechanism, self.principal
        self._state, self._has_frames = _State.HANDSHAKE, False
        return True

    def refusal(self, api_key: int) -> str | None:
        """Return why a request must not even be decoded, or None if it can be."""
        if self._state is _State.EXCHANGE:
            allowed = api_key in (ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS)
        elif self._state is _State.START:
            allowed = api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS)
        else:
            allowed = api_key == ApiKey.SASL_HANDSHAKE
        if allowed:
            return None
        if api_key not in ApiKey.__members__.values():
            return f"a request with the unknown API key {api_key} before SASL authentication"
        stage = "authentication" if self._state is _State.EXCHANGE else "handshake"
        hint = ". Does the client use SASL?" if self._state is not _State.EXCHANGE else ""
        if self._rejection():
            hint = f", after its token was rejected: {self._rejection()}"
        return f"Unexpected Kafka request of type {api_name(api_key)} during SASL {stage}{hint}"

    def _rejection(self) -> str:
        return "" if self._server is None else self._server.rejection

    # ---- messages ---------------------------------------------------------------------------------------------

    def versions_sent(self) -> None:
        """Handle the successful response to ApiVersions: the next request must be SaslHandshake."""
        self._state = _State.HANDSHAKE

    def request(self, request: KafkaMessage) -> Outcome:
        """Process SaslHandshake and SaslAuthenticate."""
        if self._state is not _State.EXCHANGE:
            return self._handshake(request)
        if api_key_of(request) != ApiKey.SASL_AUTHENTICATE:
            reason = f"Unexpected Kafka request of type {api_name(api_key_of(request))} during SASL authentication"
            return Outcome(respond(request, error_code=ErrorCode.illegal_sasl_state), failure=reason)
        try:
            response = self._respond(bytes(request.auth_bytes))
        except SaslError as failed:
            shown = str(failed) if isinstance(failed, AuthenticationRefused) else self._invalid_credentials()
            error = {"error_code": ErrorCode.sasl_authentication_failed, "error_message": shown}
            return Outcome(respond(request, **error, auth_bytes=b""), failure=_logged(failed), cause=cause_of(failed))
        lifetime = {}
        if version_of(request) >= 1:
            lifetime["session_lifetime"] = self._session_ms if self.is_complete else 0
        answer = respond(request, error_message=None, auth_bytes=response, **lifetime)
        return Outcome(answer, rejection=self._rejection())

    def token(self, token: bytes) -> Outcome:
        """Process a bare token, which a client sends after SaslHandshake v0."""
        try:
            response = self._respond(token)
            return Outcome(token=response, rejection=self._rejection())
        except SaslError as failed:
            return Outcome(failure=_logged(failed), cause=cause_of(failed))

    def _handshake(self, request: KafkaMessage) -> Outcome:
        mechanism = str(request.mechanism)
        self._has_frames = version_of(request) >= 1
        offered = {"mechanisms": self.keys.mechanisms}
        if mechanism not in self.keys.mechanisms:
            response = respond(request, error_code=ErrorCode.unsupported_sasl_mechanism, **offered)
            return Outcome(response, failure=f"Unsupported SASL mechanism {mechanism}", cause="unsupported_mechanism")
        if mechanism == PLAIN:
            self._server = PlainServer(self.keys.plain_users)
        elif mechanism == OAUTHBEARER:
            assert self._ports.verify is not None
            self._server = OAuthBearerServer(self._ports.verify)
        else:
            self._server = ScramServer(mechanism, self._ports.credential_of, self._ports.nonce())
        self._mechanism, self._state = mechanism, _State.EXCHANGE
        return Outcome(respond(request, **offered))

    def _respond(self, token: bytes) -> bytes:
        assert self._server is not None
        if self._previous is not None and self._previous[0] != self._mechanism:
            raise RefusedIdentity(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._previous[0]}'"
            )
        response = self._server.respond(token)
        if self._server.user is not None:
            self._complete(self._server.user, self._server.expires_ms)
        return response

    def _complete(self, user: str, credentials_expire_ms: int | None) -> None:
        principal = KafkaPrincipal("User", user)
        if self._previous is not None and self._previous[1] != principal:
            before = self._previous[1]
            raise RefusedIdentity(
                f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
                f"{principal.kind}.{principal.name}"
            )
        now, lifetime_ms = self._ports.now(), self.keys.reauth_ms[self._mechanism] or None
        if credentials_expire_ms is not None:
            left_ms = credentials_expire_ms - now.wall_ms
            lifetime_ms = max(0, left_ms if lifetime_ms is None else min(left_ms, lifetime_ms))
        self._session_ms = lifetime_ms or 0
        self._expires_ms = None if lifetime_ms is None else now.mono_ms + lifetime_ms
        self.principal, self._server, self._previous = principal, None, None
        self._state = _State.COMPLETE

    def _invalid_credentials(self) -> str:
        during = "authentication" if self._previous is None else "re-authentication"
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._mechanism}"


def _logged(failed: SaslError) -> str:
    """Return the reason of a failed authentication for the log."""
    detail = failed.detail if isinstance(failed, AuthenticationRefused) else ""
    return detail or str(failed)
