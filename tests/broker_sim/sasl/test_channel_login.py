"""A channel that authenticates at a listener with SASL: requests wait for the login, and failures are reported."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from tests.broker_sim.sasl.test_sasl_connection import METADATA, Secured, secured
from tests.broker_sim.sasl.token_cases import signed
from tests.broker_sim.test_port_connection import run
from tests.event_loops import each_event_loop  # noqa: F401
from zabka.broker_sim.client_security import client_security
from zabka.broker_sim.configs.client_properties import parse_client_properties
from zabka.broker_sim.configs.login_keys import FETCHED_LOGINS
from zabka.broker_sim.configs.oauth_keys import LOGIN_MODULE
from zabka.kafka import channel as channels
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import ChannelSecurity, ServerSecurity
from zabka.kafka.ports import ChannelBroken, Endpoint, NeverSent
from zabka.kafka.sasl_login import Credentials

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TIMEOUT_MS = 5_000


class Caller:
    """A channel to one port, with the failures of authentication that it reported."""

    def __init__(self, number: int, mechanism: str = "PLAIN", password: str = "secret") -> None:
        self.failures: list[str] = []
        self.to = Endpoint(7, "127.0.0.1", number)
        nonces = count()
        security = ServerSecurity(credentials=Credentials(mechanism, "alice", password))
        self.channel = AsyncioChannel(
            "broker-1",
            security=ChannelSecurity(
                lambda to: security, lambda: f"nonce{next(nonces)}", lambda to, reason: self.failures.append(reason)
            ),
        )

    async def ask(self) -> str:
        return str((await self.channel.call(self.to, METADATA, TIMEOUT_MS)).cluster_id)


def check(test: Callable[[Secured], Awaitable[None]], **options: int) -> None:
    async def main() -> None:
        async with secured(**options) as port:
            await test(port)

    run(main)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_requests_wait_for_the_login(mechanism: str) -> None:
    async def test(port: Secured) -> None:
        caller = Caller(port.served.number, mechanism)
        answers = [caller.channel.call(caller.to, METADATA, TIMEOUT_MS) for _ in range(3)]
        assert [(await answer).cluster_id for answer in answers] == ["c"] * 3
        assert port.served.principals == ["User:alice"] * 3 and caller.failures == port.failures == []
        caller.channel.close()

    check(test)


def test_rejected_login_is_reported_and_nothing_is_sent() -> None:
    async def test(port: Secured) -> None:
        caller = Caller(port.served.number, password="wrong")
        answers = [caller.channel.call(caller.to, METADATA, TIMEOUT_MS) for _ in range(2)]
        for answer in answers:
            with pytest.raises(NeverSent, match="broker 7: Authentication failed: Invalid username or password"):
                await answer
        assert caller.failures == ["Authentication failed: Invalid username or password"]
        # The next request opens a new connection.
        with pytest.raises(NeverSent):
            await caller.ask()
        assert len(caller.failures) == 2 and port.served.requests == []

    check(test)


def test_connection_authenticates_again_before_its_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Kafka's clients, the next request after 85 % of the lifetime waits for a new login."""
    monkeypatch.setattr(channels, "LOGIN_AGAIN_AT", 0.0)

    async def test(port: Secured) -> None:
        caller = Caller(port.served.number, "SCRAM-SHA-512")
        for ahead_ms in (0, 50_000, 200_000):
            # At 200 s, the session of 60 s has expired.
            port.ahead_ms = ahead_ms
            answers = [caller.channel.call(caller.to, METADATA, TIMEOUT_MS) for _ in range(2)]
            assert [(await answer).cluster_id for answer in answers] == ["c"] * 2
        assert len(port.port.connections) == 1 and port.served.principals == ["User:alice"] * 6
        assert caller.failures == port.failures == []
        caller.channel.close()

    check(test, reauth_ms=60_000)


def test_client_without_a_token_sends_nothing_and_tries_again(tmp_path: Path) -> None:
    """The second try sends a token, which the server does not accept because it is signed."""
    path = tmp_path / "token"
    found = parse_client_properties(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={LOGIN_MODULE} required;\n"
        f"sasl.login.callback.handler.class={FETCHED_LOGINS[0]}\nsasl.oauthbearer.token.endpoint.url={path.as_uri()}\n"
    )

    async def test(port: Secured) -> None:
        failures: list[str] = []
        security = client_security(found).reporting(lambda to, reason: failures.append(reason))
        channel, to = AsyncioChannel("shop", security=security), Endpoint(7, "127.0.0.1", port.served.number)
        for reason in (
            f"no token from {path.as_uri()}: No such file or directory",
            '{"status":"invalid_token"}',
        ):
            with pytest.raises(NeverSent, match=re.escape(reason)):
                await channel.call(to, METADATA, TIMEOUT_MS)
            assert reason in failures.pop()
            path.write_text(signed(1_800_000_000))
        channel.close()

    check(test)


def test_connection_without_login_is_rejected_by_a_sasl_listener() -> None:
    async def test(port: Secured) -> None:
        channel = AsyncioChannel("broker-1")
        with pytest.raises(ChannelBroken):
            await channel.call(Endpoint(7, "127.0.0.1", port.served.number), METADATA, TIMEOUT_MS)
        assert len(port.failures) == 1 and port.served.requests == []

    check(test)
