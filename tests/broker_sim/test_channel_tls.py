"""TLS on the connections that a broker opens: which servers are trusted, and that failures are reported."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker_sim.test_port_connection import run, serving
from tests.broker_sim.test_tls_listeners import authority, broker_keys, securely, tls_keys, trusting  # noqa: F401
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.event_loops import each_event_loop  # noqa: F401
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.secure_kafka_port import check_own_trust, tls_store
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import ChannelSecurity, ServerSecurity
from zabka.kafka.ports import ChannelBroken, Endpoint
from zabka.kafka.wire.kafka_schema import ApiKey, request

pytestmark = needs_openssl
METADATA = request(ApiKey.METADATA, 5, topics=[])


async def ask(number: int, context: Callable[[], ssl.SSLContext], host: str = "127.0.0.1", checks: bool = True) -> str:
    """Send a request over TLS, and return "" or the reported failure."""
    failures: list[str] = []
    security = ServerSecurity(context, checks)
    channel = AsyncioChannel(
        "broker-1", security=ChannelSecurity(lambda to: security, str, lambda to, reason: failures.append(reason))
    )
    try:
        await channel.call(Endpoint(2, host, number), METADATA, 10_000)
    except ChannelBroken:
        (reason,) = failures
        return reason
    finally:
        channel.close()
    assert failures == []
    return ""


def own_context(authority: Authority, name: str = "broker") -> Callable[[], ssl.SSLContext]:  # noqa: F811
    """Return the client side of a broker's own stores."""
    return tls_store(tls_keys(**broker_keys(authority, name, truststore_location=authority.ca)), print).client_context


def test_broker_presents_its_certificate_and_checks_the_servers(authority: Authority) -> None:  # noqa: F811
    keys = broker_keys(authority, truststore_location=authority.ca, client_auth="required")

    async def test() -> None:
        async with securely(keys) as (served, _):
            assert await ask(served.number, own_context(authority)) == ""
            assert served.principals == ["User:CN=broker"]

    run(test)


def test_certificate_for_another_host_is_refused_unless_disabled(authority: Authority) -> None:  # noqa: F811
    authority.store("named", "/CN=named", "DNS:localhost")

    async def test() -> None:
        async with securely(broker_keys(authority, "named")) as (served, _):
            context = own_context(authority)
            assert await ask(served.number, context) == "its certificate is not for 127.0.0.1"
            assert await ask(served.number, context, host="localhost") == ""
            assert await ask(served.number, context, checks=False) == ""

    run(test)


def test_failed_handshakes_are_reported(authority: Authority, tmp_path: Path) -> None:  # noqa: F811
    other = Authority(tmp_path)
    other.store("broker", "/CN=broker", "IP:127.0.0.1")
    keys = broker_keys(authority, truststore_location=authority.ca, client_auth="required")

    async def test() -> None:
        async with securely(keys) as (served, _):
            reason = await ask(served.number, own_context(other))
            assert reason.startswith("its certificate was refused: ")
            reason = await ask(served.number, lambda: trusting(authority))
            assert reason.endswith("was this side's certificate refused?")
        async with serving() as (served, _):
            reason = await ask(served.number, own_context(authority))
            assert reason == "the connection was closed during the TLS handshake"

    run(test)


def test_broker_that_does_not_trust_itself_does_not_start(authority: Authority, tmp_path: Path) -> None:  # noqa: F811
    for auth in ("none", "required"):
        check_own_trust("S", tls_store(tls_keys(**broker_keys(
            authority, truststore_location=authority.ca, client_auth=auth)), print))  # fmt: skip
    store = tls_store(tls_keys(**broker_keys(authority, truststore_location=Authority(tmp_path).ca)), print)
    with pytest.raises(ConfigError, match="listener S: A client SSLEngine created with the provided settings can't "):
        check_own_trust("S", store)
