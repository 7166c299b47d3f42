"""TLS listeners and TLS between peers, in one process.

Tests which handshakes succeed, and that no handshake delays another client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.pem_files import Authority, needs_openssl
from zabka.ensemble.auth.policy import OPEN_POLICY
from zabka.ensemble.records import ConnectRequest
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.config.tls import TlsSettings, TlsStore, openssl_name, stands_for
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.client_port import ClientPort
from zabka.ensemble.server.net.peer_security import PeerSecurity, open_port
from zabka.ensemble.server.net.tls_listener import TlsListener

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("ssl"))
    authority.store("server", "/CN=server", "DNS:localhost,IP:127.0.0.1")
    authority.store("locked", "/CN=locked", "DNS:localhost", password="sesame")
    authority.store("elsewhere", "/CN=elsewhere", "DNS:elsewhere.example")
    authority.store("second", "/CN=second", "DNS:localhost,IP:127.0.0.1")
    return authority


def settings(authority: Authority, name: str = "server", **more: Any) -> TlsSettings:
    return TlsSettings(
        prefix="ssl.",
        key_store=authority.directory / f"{name}.pem",
        key_password=more.pop("password", ""),
        trust_store=authority.ca,
        **more,
    )


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Gate:
    """Connection limits of a listener, with a record of the calls."""

    def __init__(self, plain: bool = False, capacity: int = 100) -> None:
        self.plain = plain
        self.capacity = capacity
        self.inside = 0
        self.failures: list[str] = []
        self.exceeded = 0

    def admit(self, host: str) -> bool:
        assert host == "127.0.0.1"
        self.inside += 1
        if self.inside > self.capacity:
            self.inside -= 1
            return False
        return True

    def leave(self, host: str) -> None:
        self.inside -= 1

    def made(self, host: str) -> asyncio.Protocol:
        return Echo()

    def made_plain(self, host: str) -> asyncio.Protocol | None:
        return Echo() if self.plain else None

    def on_handshake_failed(self, remote: str, reason: str) -> None:
        self.failures.append(reason)

    def on_too_many_handshakes(self) -> None:
        self.exceeded += 1


def listening(
    gate: Gate, store: TlsStore, test: Callable[[int, TlsListener], Coroutine[Any, Any, None]], **more: Any
) -> None:
    """Run a test with a TLS listener on a free port."""

    async def main() -> None:
        listener = TlsListener(store, gate, **{"handshakes_max": 100, "detects_plain": gate.plain, **more})
        await listener.listen("127.0.0.1", 0, "the port")
        try:
            async with asyncio.timeout(20):
                await test(listener.port, listener)
        finally:
            listener.close()

    asyncio.run(main())


async def echoed(port: int, context: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(b"hello")
        return await reader.read(5)
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (what it waits for has no event)
        await asyncio.sleep(0.005)


def test_client_with_a_trusted_certificate_is_accepted(authority: Authority) -> None:
    store, gate = TlsStore(settings(authority)), Gate()

    async def test(port: int, listener: TlsListener) -> None:
        assert await echoed(port, store.client_context()) == b"hello"
        assert listener.handshakes == 0

    listening(gate, store, test)
    assert (gate.inside, gate.failures) == (1, [])


def test_password_protected_private_key_can_be_used(authority: Authority) -> None:
    store = TlsStore(settings(authority, "locked", password="sesame"))
    listening(Gate(), store, lambda port, _: _assert_echo(port, store.client_context()))


async def _assert_echo(port: int, context: ssl.SSLContext | None) -> None:
    assert await echoed(port, context) == b"hello"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"name": "locked"}, "keyStore.location=.* cannot be used: no PEM with what is needed, or a wrong password"),
        ({"name": "locked", "password": "wrong"}, "or a wrong password"),
        ({"name": "absent"}, "absent.pem cannot be used: No such file"),
        ({"ciphers": ("TLS_NO_SUCH_CIPHER",)}, "ssl.ciphersuites names no cipher"),
    ],
)
def test_unusable_tls_store_is_reported_in_one_line(authority: Authority, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        TlsStore(settings(authority, **more))
    assert "\n" not in str(caught.value)
    assert "wrong" not in str(caught.value).replace("wrong password", "")


def test_tls_port_rejects_plain_bytes_and_missing_certificate(authority: Authority) -> None:
    store, gate = TlsStore(settings(authority)), Gate()

    async def test(port: int, listener: TlsListener) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\x2d" + bytes(45))
        assert b"\0\0\0\x2d" not in await reader.read()
        writer.close()
        no_certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        no_certificate.load_verify_locations(authority.ca)
        no_certificate.check_hostname = False
        with pytest.raises((OSError, AssertionError)):
            await _assert_echo(port, no_certificate)
        await until(lambda: len(gate.failures) == 2)

    listening(gate, store, test)
    assert gate.inside == 0
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in gate.failures[1]


def test_stalled_handshake_times_out_and_delays_no_client(authority: Authority) -> None:
    store, gate = TlsStore(settings(authority, handshake_timeout_ms=300)), Gate()

    async def test(port: int, listener: TlsListener) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in silent[1:]:
            writer.write(b"\x16\x03\x01\x02\0\x01")  # the beginning of a ClientHello
        await until(lambda: listener.handshakes == 5)
        assert await echoed(port, store.client_context()) == b"hello"
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()
        await until(lambda: listener.handshakes == 0)

    listening(gate, store, test)
    assert (len(gate.failures), gate.inside) == (5, 1)


def test_tls_handshakes_and_connections_are_limited(authority: Authority) -> None:
    store, gate = TlsStore(settings(authority)), Gate(capacity=2)

    async def test(port: int, listener: TlsListener) -> None:
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for reader, _ in streams[2:]:
            assert await reader.read() == b""
        assert listener.handshakes == 2
        for _, writer in streams:
            writer.close()

    listening(gate, store, test)
    gate = Gate()
    listening(gate, store, test, handshakes_max=2)
    assert gate.exceeded == 3


def test_one_port_can_serve_tls_and_plaintext(authority: Authority) -> None:
    store, gate = TlsStore(settings(authority)), Gate(plain=True)

    async def test(port: int, listener: TlsListener) -> None:
        assert await echoed(port, None) == b"hello"
        assert await echoed(port, store.client_context()) == b"hello"

    listening(gate, store, test)
    assert (gate.inside, gate.failures) == (2, [])


def test_unified_client_port_stays_unified_when_it_moves(authority: Authority) -> None:
    """A client port that accepts TLS and plaintext still accepts both after a membership change has moved it."""
    store, first, second = TlsStore(settings(authority)), *free_ports(2)
    admission = Admission(Limits(), lambda: 0.0, 0)

    async def greeted(port: int, context: ssl.SSLContext | None) -> bool:
        before = admission.counts.connection_request_count
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        hello = ConnectRequest(0, 0, 5000, 0, bytes(16)).encode()
        writer.write(len(hello).to_bytes(4, "big") + hello)
        await until(lambda: admission.counts.connection_request_count > before)
        writer.close()
        return True

    async def main() -> None:
        port = ClientPort(mock.Mock(), admission, OPEN_POLICY)
        async with asyncio.timeout(20):
            await port.listen_unified("127.0.0.1", first, store)
            assert await greeted(first, store.client_context())
            await port.listen("127.0.0.1", second)
            assert await greeted(second, None)
            assert await greeted(second, store.client_context())
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", first)
            await port.close()

    asyncio.run(main())


def test_changed_tls_store_is_reloaded_if_configured(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    path.write_bytes((authority.directory / "server.pem").read_bytes())
    made = settings(authority)
    made = TlsSettings(prefix="ssl.", key_store=path, key_password="", trust_store=made.trust_store, reloads=True)
    problems: list[str] = []
    store = TlsStore(made, problems.append)
    before = store.server_context()
    assert store.server_context() is before
    path.write_bytes(b"half a fi")
    assert store.server_context() is before
    assert ["cannot be used" in problem for problem in problems] == [True]
    path.write_bytes((authority.directory / "second.pem").read_bytes())
    assert store.server_context() is not before
    assert len(problems) == 1


def connected(authority: Authority, mine: str, theirs: str, called: str) -> tuple[list[str | None], list[str | None]]:
    """Connect two servers over TLS, and return the result of the certificate check on each side.

    Their hosts are `localhost` and 127.0.0.1.
    """
    sides: tuple[list[str | None], list[str | None]] = ([], [])
    secure = [
        PeerSecurity(TlsStore(settings(authority, name, verify_client_name=True)), dials=True, accepts_plain=False)
        for name in (mine, theirs)
    ]

    class Caller(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            sides[0].append(secure[0].refusal_of_called(transport, [called]))

    class Called(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            sides[1].append(secure[1].refusal_of_caller(transport, ["localhost"]))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        port = await open_port(secure[1], Called, "127.0.0.1", 0, "the port", lambda *_: None)
        assert isinstance(port, TlsListener)
        transport, _ = await loop.create_connection(Caller, "127.0.0.1", port.port, ssl=secure[0].context)
        await until(lambda: bool(sides[1]))
        transport.close()
        port.close()

    asyncio.run(main())
    return sides


def test_servers_check_host_names_in_each_others_certificates(authority: Authority) -> None:
    assert connected(authority, "server", "second", "localhost") == ([None], [None])
    assert connected(authority, "elsewhere", "server", "127.0.0.1") == (
        [None],
        ["its certificate is not for 127.0.0.1 or localhost"],
    )
    assert connected(authority, "server", "elsewhere", "zk2.example") == (
        ["its certificate is not for zk2.example or 127.0.0.1"],
        [None],
    )


@pytest.mark.parametrize(
    ("alternatives", "common", "name", "expected"),
    [
        ([("DNS", "zk1.example")], "other", "ZK1.example", True),
        ([("DNS", "*.example.org")], "", "zk1.example.org", True),
        ([("DNS", "*.example.org")], "", "a.zk1.example.org", False),
        ([("DNS", "*.org")], "", "example.org", False),
        ([("DNS", "zk*.example.org")], "", "zk1.example.org", False),
        ([("IP Address", "127.0.0.1")], "", "127.0.0.1", True),
        ([("IP Address", "0:0:0:0:0:0:0:1")], "", "::1", True),
        ([("DNS", "127.0.0.1")], "", "127.0.0.1", False),
        ([], "127.0.0.1", "127.0.0.1", True),
        ([("DNS", "other")], "zk1", "zk1", False),
        ([], "zk1", "zk1", True),
        ([], "", "", False),
    ],
)
def test_host_must_match_alternative_names_or_else_common_name(
    alternatives: list[tuple[str, str]], common: str, name: str, expected: bool
) -> None:
    certificate = {"subject": ((("commonName", common),),), "subjectAltName": tuple(alternatives)}
    assert stands_for(certificate, name) is expected


def test_cipher_suites_have_the_names_that_java_uses() -> None:
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256") == "ECDHE-RSA-AES128-GCM-SHA256"
    assert openssl_name("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384") == "ECDHE-ECDSA-AES256-SHA384"
    assert openssl_name("TLS_AES_256_GCM_SHA384") == "TLS_AES_256_GCM_SHA384"
