"""The client side of SASL: SCRAM by the example of RFC 7677, and logins at the server side of this project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.credential_cache import CredentialCache
from zabka.broker_sim.configs.sasl_keys import SaslKeys
from zabka.broker_sim.configs.scram_credentials import password_upsertion, stored_credential
from zabka.broker_sim.sasl.authenticator import SaslAuthenticator, SaslPorts
from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.ports import Instant
from zabka.kafka.sasl_login import AuthenticationFailed, Credentials, Login, log_in
from zabka.kafka.scram import scram_messages

CLIENT, SERVER = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={CLIENT}{SERVER},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = f"c=biws,r={CLIENT}{SERVER},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
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


def test_password_is_not_shown() -> None:
    assert "secret" not in repr(Credentials("PLAIN", "broker", "secret"))
