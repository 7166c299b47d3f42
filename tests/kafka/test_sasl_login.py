"""The client side of SASL: SCRAM by the example of RFC 7677, and logins at the server side of this project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.sasl.token_cases import first, unsigned
from zabka.broker_sim.configs.credential_cache import CredentialCache
from zabka.broker_sim.configs.oauth_keys import UnsecuredTokenKeys
from zabka.broker_sim.configs.sasl_keys import SaslKeys
from zabka.broker_sim.configs.scram_credentials import password_upsertion, stored_credential
from zabka.broker_sim.sasl.authenticator import SaslAuthenticator, SaslPorts
from zabka.broker_sim.sasl.unsecured_tokens import UnsecuredTokens
from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.ports import Instant
from zabka.kafka.sasl_login import AuthenticationFailed, BearerToken, Credentials, Login, log_in
from zabka.kafka.scram import scram_messages

CLIENT, SERVER = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={CLIENT}{SERVER},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = f"c=biws,r={CLIENT}{SERVER},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NOW_S = 1_800_000_000
SECRET = "pä=ss,word"


def test_scram_client_follows_the_example_of_rfc_7677() -> None:
    exchange = scram_messages("SCRAM-SHA-256", "user", "pencil", CLIENT)
    assert next(exchange) == f"n,,n=user,r={CLIENT}".encode()
    assert exchange.send(FIRST.encode()) == PROOF.encode()
    with pytest.raises(StopIteration):
        exchange.send(SIGNATURE.encode())


def test_scram_client_escapes_the_name() -> None:
    assert next(scram_messages("SCRAM-SHA-512", "a=b,c", "x", "n")) == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        (["nonsense"], "Invalid SCRAM server first message format"),
        ([FIRST.replace("rOpr", "other")], "Invalid server nonce: does not start with client nonce"),
        ([FIRST.replace("4096", "4095")], "Requested iterations 4095 is less than the minimum 4096 for SCRAM-SHA-256"),
        ([FIRST.replace("4096", "1000001")], "Requested iterations 1000001 is more than the maximum 1000000"),
        ([FIRST, SIGNATURE[:-1]], "Invalid SCRAM server final message format"),
        ([FIRST, "e=other-error"], "Sasl authentication using SCRAM-SHA-256 failed with error: other-error"),
        ([FIRST, SIGNATURE.replace("6rr", "7rr")], "Invalid server signature in server final message"),
    ],
)
def test_scram_client_rejects_an_unproved_server(responses: list[str], expected: str) -> None:
    exchange = scram_messages("SCRAM-SHA-256", "user", "pencil", CLIENT)
    next(exchange)
    with pytest.raises(SaslError) as failed:
        for response in responses:
            exchange.send(response.encode())
    assert str(failed.value) == expected


# ---- logins at our own server side ----------------------------------------------------------------------------


def server(*mechanisms: str, reauth_ms: int = 0) -> SaslAuthenticator:
    cache = CredentialCache()
    overrides = {
        name: stored_credential(password_upsertion(number, SECRET, b"salt"))
        for number, name in ((1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512"))
    }
    cache.update("broker", overrides)
    keys = SaslKeys("B", mechanisms, {"broker": SECRET}, 1000, dict.fromkeys(mechanisms, reauth_ms))
    return SaslAuthenticator(keys, SaslPorts(cache.credential, lambda: "server", lambda: Instant(0, 0)))


def outcome(login: Login, respond: Callable[[Any], Any]) -> int:
    """Complete a login, and return the session's lifetime. Raises AuthenticationFailed."""
    try:
        message = next(login)
        while True:
            message = login.send(respond(message))
    except StopIteration as complete:
        return int(complete.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_login_with_the_right_password_completes(mechanism: str) -> None:
    sasl = server(mechanism, reauth_ms=60_000)
    login = log_in(Credentials(mechanism, "broker", SECRET), "client")
    assert outcome(login, lambda message: sasl.request(message).response) == 60_000
    assert str(sasl.principal) == "User:broker" and sasl.is_complete


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (Credentials("PLAIN", "broker", "wrong"), "Authentication failed: Invalid username or password"),
        (
            Credentials("SCRAM-SHA-256", "broker", "wrong"),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
        (
            Credentials("SCRAM-SHA-512", "broker", SECRET),
            "Client SASL mechanism 'SCRAM-SHA-512' not enabled in the server, enabled mechanisms are "
            "[PLAIN, SCRAM-SHA-256]",
        ),
    ],
)
def test_rejected_login_raises_the_servers_reason(credentials: Credentials, expected: str) -> None:
    sasl = server("PLAIN", "SCRAM-SHA-256")
    with pytest.raises(AuthenticationFailed) as failed:
        outcome(log_in(credentials, "client"), lambda message: sasl.request(message).response)
    assert str(failed.value) == expected


def test_login_at_a_listener_without_sasl_fails() -> None:
    def respond(message: Any) -> Any:
        from zabka.kafka.wire.kafka_schema import respond

        return respond(message, error_code=ErrorCode.illegal_sasl_state, mechanisms=())

    with pytest.raises(AuthenticationFailed, match="Unexpected handshake request with client mechanism PLAIN"):
        outcome(log_in(Credentials("PLAIN", "broker", SECRET), "n"), respond)


def bearer_server(now_s: int, reauth_ms: int = 0) -> SaslAuthenticator:
    keys = SaslKeys("B", ("OAUTHBEARER",), {}, 10_000, {"OAUTHBEARER": reauth_ms})
    now = Instant(0, now_s * 1_000)
    verify = UnsecuredTokens(UnsecuredTokenKeys("sub", "scope", (), 0), lambda: now.wall_ms).verify
    return SaslAuthenticator(keys, SaslPorts(CredentialCache().credential, lambda: "server", lambda: now, verify))


def test_login_with_a_token_lasts_until_it_expires() -> None:
    """The lifetime is that of the token, or the shorter `connections.max.reauth.ms`."""
    for reauth_ms, expected in ((0, 600_000), (60_000, 60_000)):
        sasl, messages = bearer_server(NOW_S, reauth_ms), []

        def respond(message: Any, sasl: SaslAuthenticator = sasl, messages: list[Any] = messages) -> Any:
            messages.append(message)
            return sasl.request(message).response

        login = log_in(BearerToken(unsigned(NOW_S), {"a": "1", "B": "x=y"}), "n")
        assert outcome(login, respond) == expected and str(sasl.principal) == "User:alice"
        assert bytes(messages[1].auth_bytes) == first(unsigned(NOW_S), extensions="\x01a=1\x01B=x=y")


def test_rejected_token_is_acknowledged_and_raises_the_error() -> None:
    sasl, sent = bearer_server(NOW_S), []

    def respond(message: Any) -> Any:
        sent.append(message)
        return sasl.request(message).response

    with pytest.raises(AuthenticationFailed, match=r'^\{"status":"invalid_token"\}$'):
        outcome(log_in(BearerToken(unsigned(NOW_S, exp=-1)), "n"), respond)
    assert bytes(sent[-1].auth_bytes) == b"\x01"


def test_password_and_token_are_not_shown() -> None:
    assert "secret" not in repr(Credentials("PLAIN", "broker", "secret"))
    assert "secret" not in repr(BearerToken("secret", {"a": "secret"}))
