"""The SASL mechanisms of brokers: RFC 7677's example, and Kafka's reasons for rejecting messages."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from types import MappingProxyType

import pytest

from zabka.broker_sim.configs.credential_cache import CredentialCache, ScramCredential
from zabka.broker_sim.sasl.mechanism import AuthenticationRefused, InvalidCredentials
from zabka.broker_sim.sasl.plain import PlainServer
from zabka.broker_sim.sasl.scram import ScramServer

USERS = {"alice": "secret", "böb": "pässword"}
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()


def credential(password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> ScramCredential:
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored, hmac.digest(salted, b"Server Key", name), iterations)


def scram(name: str = "user", iterations: int = 4096) -> ScramServer:
    found = credential("pencil", iterations=iterations)
    return ScramServer("SCRAM-SHA-256", lambda mechanism, user: found if user == name else None, SERVER_NONCE)


# ---- PLAIN --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "user"),
    [(b"\0alice\0secret", "alice"), (b"alice\0alice\0secret", "alice"), ("\0böb\0pässword".encode(), "böb")],
)
def test_plain_server_accepts_the_right_password(token: bytes, user: str) -> None:
    server = PlainServer(USERS)
    assert server.respond(token) == b"" and server.user == user


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0carol\0secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"alice secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"bob\0alice\0secret", "Authentication failed: Client requested an authorization id that is different from"),
        (b"\xff\0\xfe\0\xfd", "Authentication failed: Invalid username or password"),
    ],
)
def test_plain_server_rejects_other_messages(token: bytes, expected: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationRefused) as refused:
        server.respond(token)
    assert str(refused.value).startswith(expected) and server.user is None


# ---- SCRAM --------------------------------------------------------------------------------------------------------


def test_scram_server_follows_the_example_of_rfc_7677() -> None:
    server = scram()
    first = server.respond(f"n,,n=user,r={CLIENT_NONCE}".encode())
    assert first == f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert server.user is None
    assert server.respond(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"
    with pytest.raises(InvalidCredentials):
        server.respond(FINAL)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("n,,n=carol,r=x", "no SCRAM-SHA-256 credential of the user carol"),
        ("n,,n=user,r=x,tokenauth=true", "no SCRAM-SHA-256 credential of the user user"),
        ("n,,n=user", "Invalid SCRAM client first message format"),
        ("y,,n=user,r=x", "Invalid SCRAM client first message format"),
        ("p=tls-unique,,n=user,r=x", "Invalid SCRAM client first message format"),
        ("n,,n=us=2Aer,r=x", "Invalid SCRAM client first message format"),
        ("n,,n=üser,r=x", "Invalid SCRAM client first message format"),
        ("", "Invalid SCRAM client first message format"),
    ],
)
def test_scram_server_rejects_a_bad_first_message(first: str, expected: str) -> None:
    with pytest.raises(InvalidCredentials, match=f"^{expected}$"):
        scram().respond(first.encode())


def test_scram_server_rejects_another_authorization_id() -> None:
    assert scram().respond(b"n,a=user,n=user,r=x")
    with pytest.raises(AuthenticationRefused, match="authorization id that is different from username"):
        scram().respond(b"n,a=carol,n=user,r=x")


def test_scram_server_decodes_escaped_names() -> None:
    assert scram("a,b=c").respond(b"n,,n=a=2Cb=3Dc,r=x").startswith(b"r=x")


def test_scram_server_rejects_a_credential_with_few_iterations() -> None:
    with pytest.raises(InvalidCredentials, match="Iterations 4095 is less than the minimum 4096 for SCRAM-SHA-256"):
        scram(iterations=4095).respond(b"n,,n=user,r=x")


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        (FINAL.replace(b"p=d", b"p=e"), "a wrong password of the user user"),
        (FINAL[: FINAL.index(b"p=") + 2], "a wrong password of the user user"),
        (FINAL[: FINAL.index(b"p=") + 2] + b"AAAA", "a wrong password of the user user"),
        (FINAL.replace(b"rOpr", b"other"), "Invalid client nonce in the final client message."),
        (FINAL.replace(b",p=", b",q="), "Invalid SCRAM client final message format"),
        (FINAL + b"=", "Invalid SCRAM client final message format"),
        (b"\xff\xfe", "Invalid SCRAM client final message format"),
    ],
)
def test_scram_server_rejects_a_bad_final_message(final: bytes, expected: str) -> None:
    server = scram()
    server.respond(f"n,,n=user,r={CLIENT_NONCE}".encode())
    with pytest.raises(InvalidCredentials, match=f"^{expected}$"):
        server.respond(final)
    assert server.user is None


# ---- credentials -------------------------------------------------------------------------------------------------


def stored(found: ScramCredential) -> str:
    keys = zip(("salt", "stored_key", "server_key"), found[:3], strict=True)
    return ",".join((*(f"{name}={b64encode(key).decode()}" for name, key in keys), f"iterations={found.iterations}"))


def test_credential_cache_follows_the_users_znode() -> None:
    cache, found = CredentialCache(), credential("pencil", "SCRAM-SHA-512")
    cache.update("ann", {"SCRAM-SHA-512": stored(found), "producer_byte_rate": "1"})
    assert cache.credential("SCRAM-SHA-512", "ann") == found
    assert cache.credential("SCRAM-SHA-256", "ann") is None
    assert "stored" not in repr(found) and str(found.salt) not in repr(found)
    cache.update("ann", MappingProxyType({}))
    assert cache.credential("SCRAM-SHA-512", "ann") is None


@pytest.mark.parametrize(
    "text",
    ["", "salt=AA==", "salt=A,stored_key=AA==,server_key=AA==,iterations=4096",
     "salt=AA==,stored_key=AA==,server_key=AA==,iterations=many"],
)  # fmt: skip
def test_credential_that_cannot_be_parsed_counts_as_absent(text: str) -> None:
    cache = CredentialCache()
    cache.update("ann", {"SCRAM-SHA-256": text})
    assert cache.credential("SCRAM-SHA-256", "ann") is None
