"""The state machine of SASL on one connection, with the errors and messages of Kafka's SaslServerAuthenticator."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.sasl_keys import SaslKeys
from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal
from zabka.broker_sim.sasl.authenticator import Outcome, SaslAuthenticator, SaslPorts
from zabka.broker_sim.sasl.tokens import Token, TokenRejected
from zabka.ensemble.ports import Instant
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, request

ALICE, BOB = b"\0alice\0secret", b"\0bob\0secret"
AHEAD_MS = 1_700_000_000_000
"""By how much the wall clock is ahead of the monotonic clock."""
HANDSHAKE, AUTHENTICATE, VERSIONS = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS


class Connection:
    """A connection, and a clock. A token is valid if it is the name of a user, and expires at `token_ends_ms`."""

    def __init__(self, reauth_ms: int = 0, *more: str) -> None:
        self.now_ms = 1_000_000
        self.token_ends_ms = 0
        mechanisms = ("PLAIN", "SCRAM-SHA-256", *more)
        keys = SaslKeys(
            "CLIENTS", mechanisms, {"alice": "secret", "bob": "secret"}, 1000, dict.fromkeys(mechanisms, reauth_ms)
        )
        ports = SaslPorts(
            lambda mechanism, user: None,
            lambda: "nonce",
            lambda: Instant(self.now_ms, self.now_ms + AHEAD_MS),
            self.verify,
        )
        self.sasl = SaslAuthenticator(keys, ports)

    def verify(self, token: str) -> Token:
        if token not in ("alice", "bob"):
            raise TokenRejected("no such user")
        return Token(token, self.token_ends_ms)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Outcome:
        assert self.sasl.refusal(HANDSHAKE) is None
        return self.sasl.request(request(HANDSHAKE, version, mechanism=mechanism))

    def authenticate(self, token: bytes, version: int = 2) -> Outcome:
        assert self.sasl.refusal(AUTHENTICATE) is None
        return self.sasl.request(request(AUTHENTICATE, version, auth_bytes=token))


def response(outcome: Outcome) -> Any:
    assert outcome.response is not None
    return outcome.response


@pytest.mark.parametrize("version", [0, 1, 2])
def test_right_password_completes_the_exchange(version: int) -> None:
    connection = Connection()
    connection.sasl.versions_sent()
    offered = response(connection.handshake())
    assert (offered.error_code, offered.mechanisms) == (ErrorCode.none, ("PLAIN", "SCRAM-SHA-256"))
    assert connection.sasl.principal == ANONYMOUS and not connection.sasl.is_complete
    answer = response(connection.authenticate(ALICE, version))
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (ErrorCode.none, None, b"")
    assert version == 0 or milliseconds(answer.session_lifetime) == 0
    assert connection.sasl.is_complete and not connection.sasl.has_expired
    assert connection.sasl.principal == KafkaPrincipal("User", "alice")


def test_bare_tokens_follow_a_handshake_of_version_0() -> None:
    connection = Connection()
    connection.handshake(version=0)
    assert connection.sasl.expects_token
    assert connection.sasl.token(ALICE) == Outcome(token=b"")
    assert connection.sasl.is_complete and not connection.sasl.expects_token


def test_wrong_bare_token_fails_without_a_response() -> None:
    connection = Connection()
    connection.handshake(version=0)
    outcome = connection.sasl.token(b"\0alice\0wrong")
    assert outcome == Outcome(failure="Authentication failed: Invalid username or password", cause="wrong_credentials")
    assert not connection.sasl.is_complete


def test_unknown_mechanism_is_refused_with_the_enabled_ones() -> None:
    connection = Connection()
    outcome = connection.handshake("GSSAPI")
    assert response(outcome).error_code == ErrorCode.unsupported_sasl_mechanism
    assert response(outcome).mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert outcome.failure == "Unsupported SASL mechanism GSSAPI"


def test_wrong_plain_password_returns_kafkas_message() -> None:
    connection = Connection()
    connection.handshake()
    outcome = connection.authenticate(b"\0alice\0wrong")
    assert response(outcome).error_code == ErrorCode.sasl_authentication_failed
    assert response(outcome).error_message == "Authentication failed: Invalid username or password"
    assert outcome.failure and connection.sasl.principal == ANONYMOUS


def test_response_to_an_unknown_scram_user_reveals_no_names() -> None:
    connection = Connection()
    connection.handshake("SCRAM-SHA-256")
    outcome = connection.authenticate(b"n,,n=alice,r=x")
    assert response(outcome).error_code == ErrorCode.sasl_authentication_failed
    assert response(outcome).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert outcome.failure == "no SCRAM-SHA-256 credential of the user alice"


@pytest.mark.parametrize(
    ("steps", "api_key", "expected"),
    [
        ("", ApiKey.METADATA, "Unexpected Kafka request of type Metadata during SASL handshake. Does the client use"),
        ("", AUTHENTICATE, "Unexpected Kafka request of type SaslAuthenticate during SASL handshake"),
        ("", 5000, "a request with the unknown API key 5000 before SASL authentication"),
        ("v", VERSIONS, "Unexpected Kafka request of type ApiVersions during SASL handshake"),
        ("vh", ApiKey.PRODUCE, "Unexpected Kafka request of type Produce during SASL authentication"),
    ],
)
def test_request_before_authentication_is_refused_undecoded(steps: str, api_key: int, expected: str) -> None:
    connection = Connection()
    if "v" in steps:
        connection.sasl.versions_sent()
    if "h" in steps:
        connection.handshake()
    refusal = connection.sasl.refusal(api_key)
    assert refusal is not None and refusal.startswith(expected)


def test_second_handshake_gets_illegal_sasl_state() -> None:
    connection = Connection()
    connection.handshake()
    outcome = connection.handshake()
    assert response(outcome).error_code == ErrorCode.illegal_sasl_state
    assert outcome.failure == "Unexpected Kafka request of type SaslHandshake during SASL authentication"


# ---- re-authentication -------------------------------------------------------------------------------------------


def authenticated(reauth_ms: int = 60_000) -> Connection:
    connection = Connection(reauth_ms)
    connection.handshake()
    answer = response(connection.authenticate(ALICE))
    assert milliseconds(answer.session_lifetime) == reauth_ms
    return connection


def test_session_expires_unless_it_is_renewed() -> None:
    connection = authenticated()
    connection.now_ms += 60_000
    assert not connection.sasl.has_expired
    assert connection.sasl.begin_again()
    connection.handshake()
    assert connection.sasl.principal == KafkaPrincipal("User", "alice") and not connection.sasl.is_complete
    assert milliseconds(response(connection.authenticate(ALICE)).session_lifetime) == 60_000
    connection.now_ms += 60_000
    assert not connection.sasl.has_expired
    connection.now_ms += 1
    assert connection.sasl.has_expired


def test_reauthentication_needs_a_lifetime_and_a_pause() -> None:
    assert not authenticated(0).sasl.begin_again()
    connection = authenticated()
    assert connection.sasl.begin_again()
    connection.handshake()
    connection.authenticate(ALICE)
    connection.now_ms += 999
    assert not connection.sasl.begin_again()
    connection.now_ms += 1
    assert connection.sasl.begin_again()


@pytest.mark.parametrize(
    ("mechanism", "token", "expected"),
    [
        ("PLAIN", BOB, "Cannot change principals during re-authentication from User.alice: User.bob"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=x", "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
         "re-authentication of mechanism 'PLAIN'"),
    ],
)  # fmt: skip
def test_reauthentication_with_another_identity_fails(mechanism: str, token: bytes, expected: str) -> None:
    connection = authenticated()
    assert connection.sasl.begin_again()
    connection.handshake(mechanism)
    outcome = connection.authenticate(token)
    assert response(outcome).error_code == ErrorCode.sasl_authentication_failed
    assert response(outcome).error_message == outcome.failure == expected
    assert connection.sasl.principal == KafkaPrincipal("User", "alice") and not connection.sasl.is_complete


# ---- tokens ------------------------------------------------------------------------------------------------------


def with_token(
    left_ms: int, reauth_ms: int = 0, user: str = "alice", of: Connection | None = None
) -> tuple[Connection, Any]:
    """Authenticate with a token that expires after `left_ms`. Return the connection and the response."""
    connection = of or Connection(reauth_ms, "OAUTHBEARER")
    connection.token_ends_ms = connection.now_ms + AHEAD_MS + left_ms
    connection.handshake("OAUTHBEARER")
    return connection, response(connection.authenticate(f"n,,\x01auth=Bearer {user}\x01\x01".encode()))


@pytest.mark.parametrize(
    ("left_ms", "reauth_ms", "session_ms"),
    [(5_000, 0, 5_000), (5_000, 9_000, 5_000), (9_000, 5_000, 5_000), (-1, 9_000, 0)],
)
def test_session_ends_with_its_token_or_its_maximum(left_ms: int, reauth_ms: int, session_ms: int) -> None:
    """A token that is valid only because of the allowed clock skew gives a session that ends at once."""
    connection, answer = with_token(left_ms, reauth_ms)
    assert milliseconds(answer.session_lifetime) == session_ms
    connection.now_ms += session_ms
    assert connection.sasl.is_complete and not connection.sasl.has_expired
    connection.now_ms += 1
    assert connection.sasl.has_expired


def test_new_token_extends_the_session_of_the_same_user() -> None:
    connection, _ = with_token(5_000)
    connection.now_ms += 4_000
    assert connection.sasl.begin_again()
    _, answer = with_token(60_000, of=connection)
    assert milliseconds(answer.session_lifetime) == 60_000
    connection.now_ms += 60_000
    assert not connection.sasl.has_expired and connection.sasl.begin_again()
    _, answer = with_token(60_000, user="bob", of=connection)
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"


def test_rejected_token_fails_after_the_clients_confirmation() -> None:
    connection, answer = with_token(5_000, user="carol")
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b'{"status":"invalid_token"}')
    assert milliseconds(answer.session_lifetime) == 0 and not connection.sasl.is_complete
    refusal = connection.sasl.refusal(ApiKey.METADATA)
    assert refusal is not None and refusal.endswith(", after its token was rejected: invalid_token: no such user")
    outcome = connection.authenticate(b"\x01")
    assert response(outcome).error_code == ErrorCode.sasl_authentication_failed
    assert response(outcome).error_message == '{"status":"invalid_token"}'
    assert outcome.failure == "invalid_token: no such user"
