"""Connections with SASL on an open port: the exchange, and clients that fail it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.sasl.sasl_client import SaslClient
from tests.broker_sim.sasl.test_mechanisms import credential
from tests.broker_sim.test_port_connection import FRAME_BYTES_MAX, Served, run, serving, until
from tests.event_loops import each_event_loop  # noqa: F401
from zabka.broker_sim.configs.credential_cache import ScramCredential
from zabka.broker_sim.configs.sasl_keys import SaslKeys
from zabka.broker_sim.failed_authentications import FailedAuthentication
from zabka.broker_sim.kafka_port import KafkaPort
from zabka.broker_sim.sasl.authenticator import SaslPorts
from zabka.broker_sim.sasl.sasl_connection import Authentication
from zabka.broker_sim.sasl.tokens import Token, TokenRejected
from zabka.ensemble.ports import Instant
from zabka.kafka.scram import scram_messages
from zabka.kafka.wire.frames import encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RECEIVE_BYTES_MAX = 2_000
METADATA = request(ApiKey.METADATA, 5, topics=[])


def verified(token: str) -> Token:
    """Accept only the token "good"."""
    if token != "good":
        raise TokenRejected(f"token {token}")
    return Token("alice", 10_000_000)


class Secured:
    """A port with SASL, its clock, and the failures that it reported."""

    def __init__(self, served: Served, port: KafkaPort, failures: list[FailedAuthentication]) -> None:
        self.served, self.port, self.failures = served, port, failures
        self.credentials = {(name, "alice"): credential("secret", name) for name in MECHANISMS[1:]}
        self.ahead_ms = 0


def authentication(
    failures: list[FailedAuthentication],
    clock: Callable[[], int],
    delay_ms: int,
    reauth_ms: int,
    credential_of: Callable[[str, str], ScramCredential | None] = lambda mechanism, user: None,
) -> Authentication:
    names = (*MECHANISMS, "OAUTHBEARER")
    keys = SaslKeys("CLIENTS", names, {"alice": "secret"}, RECEIVE_BYTES_MAX, dict.fromkeys(names, reauth_ms))
    ports = SaslPorts(credential_of, lambda: "server", lambda: Instant(clock(), clock()), verified)
    return Authentication(keys, ports, delay_ms, failures.append)


@asynccontextmanager
async def secured(delay_ms: int = 0, reauth_ms: int = 0) -> AsyncIterator[Secured]:
    failures: list[FailedAuthentication] = []
    made: list[Secured] = []
    settings = authentication(
        failures,
        lambda: 1_000_000 + made[0].ahead_ms,
        delay_ms,
        reauth_ms,
        lambda mechanism, user: made[0].credentials.get((mechanism, user)),
    )
    async with serving(connect=settings.connection) as (served, port):
        made.append(Secured(served, port, failures))
        yield made[0]
        await until(lambda: not port.connections)
        assert served.failures == []


def check(test: Callable[[Secured, SaslClient], Awaitable[None]], **options: int) -> None:
    async def main() -> None:
        async with secured(**options) as port:
            client = await SaslClient.to(port.served.number)
            await test(port, client)
            await client.close()

    run(main)


async def serves_others(port: Secured) -> None:
    other = await SaslClient.to(port.served.number)
    assert (await other.plain()).error_code == ErrorCode.none
    assert (await other.ask(METADATA)).cluster_id == "c"
    await other.close()


def test_requests_of_an_authenticated_client_have_its_principal() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.ask(request(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1"))
        assert (await client.plain()).error_code == ErrorCode.none
        assert (await client.ask(METADATA)).cluster_id == "c"
        assert port.served.principals == ["User:ANONYMOUS", "User:alice"]
        assert port.failures == port.served.broken == []

    check(test)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_scram_client_authenticates(mechanism: str, version: int) -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.handshake(mechanism, version)
        exchange: Any = scram_messages(mechanism, "alice", "secret", "client")
        message = next(exchange)
        for _ in range(2):
            if version:
                answer = (await client.authenticate(message)).auth_bytes
            else:
                answer = await client.frame(message)
            message = next_of(exchange, answer)
        assert message is None
        assert (await client.ask(METADATA)).cluster_id == "c"
        assert port.served.principals == ["User:alice"]

    check(test)


def next_of(exchange: Any, answer: bytes) -> bytes | None:
    try:
        return exchange.send(answer)  # type: ignore[no-any-return]
    except StopIteration:
        return None


def test_unsupported_version_of_api_versions_can_be_asked_again() -> None:
    """A client that is newer than the broker learns the version of ApiVersions to use (KIP-511)."""

    async def test(port: Secured, client: SaslClient) -> None:
        asked = request(ApiKey.API_VERSIONS, 4, client_software_name="a", client_software_version="1")
        frame = bytearray(encode_request(7, "shop", asked)[4:])
        frame[2:4] = (99).to_bytes(2)
        answer = await client.frame(bytes(frame))
        assert int.from_bytes(answer[4:6]) == ErrorCode.unsupported_version.value
        assert (await client.ask(asked)).error_code == ErrorCode.none
        assert (await client.plain()).error_code == ErrorCode.none

    check(test)


def test_wrong_password_gets_its_response_after_the_delay() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.handshake("PLAIN")
        begun = monotonic()
        answer = await client.authenticate(b"\0alice\0wrong")
        assert monotonic() - begun >= 0.2
        assert answer.error_code == ErrorCode.sasl_authentication_failed
        assert await client.at_end()
        (failed,) = port.failures
        assert failed[:2] == ("PLAINTEXT", "PLAIN") and failed.cause == "wrong_credentials"
        assert failed.reason == "Authentication failed: Invalid username or password"
        await serves_others(port)

    check(test, delay_ms=200)


async def send_tokens(client: SaslClient, *tokens: str) -> list[Any]:
    await client.handshake("OAUTHBEARER")
    return [await client.authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode()) for token in tokens]


def test_third_rejected_token_closes_the_connection() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        answers = await send_tokens(client, "a", "b", "b")
        assert {answer.auth_bytes for answer in answers} == {b'{"status":"invalid_token"}'}
        assert await client.at_end()
        assert [failed.reason for failed in port.failures] == [f"invalid_token: token {name}" for name in "abb"]
        assert {(failed.mechanism, failed.cause) for failed in port.failures} == {("OAUTHBEARER", "wrong_credentials")}

    check(test)


def test_rejected_token_is_reported_once_and_can_be_followed() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        *_, last = await send_tokens(client, "a", "b", "good")
        assert last.auth_bytes == b"" and (await client.ask(METADATA)).cluster_id == "c"
        other = await SaslClient.to(port.served.number)
        await send_tokens(other, "c")
        assert (await other.authenticate(b"\x01")).error_code == ErrorCode.sasl_authentication_failed
        assert await other.at_end()
        await other.close()
        assert [failed.reason for failed in port.failures] == [f"invalid_token: token {name}" for name in "abc"]

    check(test)


def test_other_clients_are_served_during_the_delay() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.handshake("PLAIN")
        waiting = asyncio.ensure_future(client.authenticate(b"\0alice\0wrong"))
        await until(lambda: bool(port.failures))
        await serves_others(port)
        assert not waiting.done()
        await client.close()
        with suppress(asyncio.IncompleteReadError):
            await waiting

    check(test, delay_ms=60_000)


def test_request_larger_than_the_receive_size_is_dropped() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.handshake("PLAIN")
        client.writer.write((RECEIVE_BYTES_MAX + 1).to_bytes(4))
        assert await client.at_end()
        (failed,) = port.failures
        assert (failed.cause, failed.reason) == ("invalid_message", f"invalid frame length {RECEIVE_BYTES_MAX + 1}")
        await serves_others(port)

    check(test)


def test_frames_of_an_authenticated_client_have_the_larger_limit() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.plain()
        topics = [{"name": "t" * 200}] * (2 * RECEIVE_BYTES_MAX // 200)
        assert (await client.ask(request(ApiKey.METADATA, 5, topics=topics))).cluster_id == "c"
        client.writer.write((FRAME_BYTES_MAX + 1).to_bytes(4))
        assert await client.at_end()
        assert port.served.broken == [f"invalid frame length {FRAME_BYTES_MAX + 1}"]

    check(test)


GARBAGE = {
    "a plain Kafka client": (encode_request(1, "c", METADATA), "Unexpected Kafka request of type Metadata"),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "invalid frame length"),
    "a TLS handshake": (
        b"\x16\x03\x01\x00\xc8" + bytes(200),
        "a TLS handshake on the plain",
    ),
    "zeros": (bytes(64), "invalid frame length 0"),
    "a GSSAPI token": (b"\0\0\0\x08\x60\x06\x01\x02\x03\x04\x05\x06", "a request with the unknown API key 24582"),
    "one byte": (b"\0\0\0\x01\x11", "a request header that ends early"),
    "a handshake cut short": (b"\0\0\0\x0a" + b"\0\x11\0\x01\0\0\0\x07\0\x30", "a client id that ends early"),
    "an unknown version": (b"\0\0\0\x0a" + b"\0\x11\0\x63\0\0\0\x07\xff\xff", "version 99"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_closes_only_its_own_connection(kind: str) -> None:
    data, expected = GARBAGE[kind]

    async def test(port: Secured, client: SaslClient) -> None:
        client.writer.write(data)
        assert await client.at_end()
        (failed,) = port.failures
        assert expected in failed.reason and "\n" not in failed.reason
        assert failed.cause in ("invalid_message", "unexpected_request") and port.served.broken == []
        await serves_others(port)

    check(test)


def test_open_exchange_does_not_affect_other_clients() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.handshake("SCRAM-SHA-256")
        client.writer.write(b"\0\0\x01")
        await serves_others(port)
        assert len(port.port.connections) >= 1 and port.failures == []

    check(test)


def test_open_exchange_is_closed_after_the_idle_time() -> None:
    async def main() -> None:
        settings = authentication([], lambda: 0, 0, 0)
        async with serving(idle_ms_max=100, connect=settings.connection) as (served, _):
            client = await SaslClient.to(served.number)
            await client.handshake("PLAIN")
            assert await client.at_end()
            await client.close()

    run(main)


# ---- re-authentication -------------------------------------------------------------------------------------------


def test_client_authenticates_again_on_its_connection() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.plain()
        port.ahead_ms = 4_000
        assert (await client.plain()).error_code == ErrorCode.none
        port.ahead_ms = 8_000
        assert (await client.ask(METADATA)).cluster_id == "c"
        assert port.served.principals == ["User:alice"]

    check(test, reauth_ms=5_000)


async def scram(client: SaslClient) -> Any:
    await client.handshake("SCRAM-SHA-256")
    exchange: Any = scram_messages("SCRAM-SHA-256", "alice", "secret", "client")
    first = await client.authenticate(next(exchange))
    return first if first.error_code else await client.authenticate(exchange.send(first.auth_bytes))


def test_deleted_user_is_served_until_the_next_authentication() -> None:
    """As in Kafka, only a new authentication reads the credentials."""

    async def test(port: Secured, client: SaslClient) -> None:
        assert (await scram(client)).error_code == ErrorCode.none
        port.credentials.clear()
        assert (await client.ask(METADATA)).cluster_id == "c"
        port.ahead_ms = 4_000
        assert (await scram(client)).error_code == ErrorCode.sasl_authentication_failed
        assert await client.at_end()
        (failed,) = port.failures
        assert failed[:2] == ("PLAINTEXT", "SCRAM-SHA-256") and failed.cause == "wrong_credentials"
        await serves_others(port)

    check(test, reauth_ms=5_000)


def test_expired_session_is_closed_at_its_next_request() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.plain()
        port.ahead_ms = 5_001
        client.writer.write(encode_request(1, "c", METADATA))
        assert await client.at_end()
        assert port.served.requests == [] and port.failures == []

    check(test, reauth_ms=5_000)


def test_handshake_without_a_lifetime_is_an_ordinary_request() -> None:
    async def test(port: Secured, client: SaslClient) -> None:
        await client.plain()
        await client.handshake("PLAIN")
        assert [type(asked).__name__ for asked, _, _ in port.served.requests] == ["SaslHandshakeRequest"]

    check(test)
