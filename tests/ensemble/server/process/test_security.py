"""A peer process from its clients' view: TLS with certificates, SASL, super user, limits, and no secrets in its
logs.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import PATIENCE_S, Ensemble, exchange, wait_until
from tests.ensemble.server.pem_files import Authority, needs_openssl
from zabka.ensemble.client.kazoo import KazooClient as OurClient
from zabka.ensemble.server.config.zoo_cfg import load
from zabka.ensemble.server.net.client_port import ClientPort
from zabka.ensemble.server.process import peer_process

pytestmark = needs_openssl

SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
JAAS = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};
"""
SECRETS = ("sesame-street", "jaas_password", "super_secret", SUPER_DIGEST.partition(":")[2], "swordfish")
ANN = "CN=ann,OU=Frogs,O=Zabka\\, Inc.,C=DE"


class Secured:
    """One peer with a plaintext port and a TLS port."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ssl")
        self.strangers = Authority(directory / "other", "other")
        store = self.authority.store("server", "/CN=server", "DNS:localhost,IP:127.0.0.1", password="sesame-street")
        self.ann = self.authority.issue("ann", "/C=DE/O=Zabka, Inc./OU=Frogs/CN=ann")
        self.eve = self.strangers.issue("eve", "/CN=eve")
        (self.secure_port,) = free_ports(1)
        (directory / "jaas").write_text(JAAS)
        self.peer = Ensemble(directory, 1)
        config = self.peer.config(1)
        lines = [line for line in config.read_text().splitlines() if not line.startswith(("4lw", "maxClientCnxns"))]
        lines += [
            f"secureClientPort={self.secure_port}", "secureClientPortAddress=127.0.0.1",
            f"ssl.keyStore.location={store}", "ssl.keyStore.password=sesame-street",
            f"ssl.trustStore.location={self.authority.ca}", "ssl.handshakeDetectionTimeoutMillis=500",
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            f"java.security.auth.login.config={directory / 'jaas'}", "maxClientCnxns=20",
            f"DigestAuthenticationProvider.superDigest={SUPER_DIGEST}",
        ]  # fmt: skip
        config.write_text("\n".join(lines) + "\n")
        self.peer.start(1)
        wait_until(lambda: "Mode: standalone" in self.peer.word(1, "srvr"))

    @property
    def plain_port(self) -> int:
        return self.peer.client_ports[1]

    def tls(self, who: tuple[Path, Path] | None) -> dict[str, Any]:
        """Return kazoo's arguments for a connection to the TLS port with this certificate and key."""
        certificate, key = who or (None, None)
        return {
            "hosts": f"localhost:{self.secure_port}", "use_ssl": True, "ca": str(self.authority.ca),
            "certfile": certificate and str(certificate), "keyfile": key and str(key), "timeout": 10,
        }  # fmt: skip

    @contextmanager
    def client(self, kind: Any = KazooClient, **arguments: Any) -> Iterator[Any]:
        """Yield a connected client, by default of the plaintext port."""
        client = kind(**{"hosts": f"127.0.0.1:{self.plain_port}", "timeout": 10, **arguments})
        try:
            client.start(PATIENCE_S)
            yield client
        finally:
            client.stop()
            client.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        yield made
    finally:
        made.peer.close()


@pytest.mark.parametrize("kind", [KazooClient, OurClient], ids=["kazoo", "ours"])
def test_certificate_subject_gets_the_access_of_its_acl(secured: Secured, kind: Any) -> None:
    with secured.client(kind, **secured.tls(secured.ann)) as ann, secured.client() as plain:
        ann.create("/x509", b"x", acl=[make_acl("auth", "", all=True)])
        assert ann.get_acls("/x509")[0][0].id.id == ANN
        with pytest.raises(NoAuthError):
            plain.get("/x509")
        ann.delete("/x509")


@pytest.mark.parametrize("who", ["eve", "nobody"])
def test_client_without_a_trusted_certificate_is_rejected(secured: Secured, who: str) -> None:
    client = KazooClient(**secured.tls(secured.eve if who == "eve" else None), connection_retry={"max_tries": 0})
    try:
        with pytest.raises(KazooTimeoutError):
            client.start(1)
    finally:
        client.stop()
        client.close()


def test_client_can_authenticate_with_sasl(secured: Secured) -> None:
    options = {"mechanism": "DIGEST-MD5", "username": "jaasuser", "password": "jaas_password"}
    with secured.client(sasl_options=options) as client, secured.client() as other:
        client.create("/sasl", b"x", acl=[make_acl("sasl", "jaasuser", all=True)])
        with pytest.raises(NoAuthError):
            other.get("/sasl")
        assert client.get("/sasl")[0] == b"x"
        client.delete("/sasl")


def test_wrong_sasl_password_disconnects_the_client(secured: Secured) -> None:
    options = {"mechanism": "DIGEST-MD5", "username": "jaasuser", "password": "swordfish"}
    client = KazooClient(f"127.0.0.1:{secured.plain_port}", timeout=10, sasl_options=options)
    states: list[str] = []
    client.add_listener(lambda state: states.append(client.client_state))
    try:
        # Use `start_async`: kazoo's `start` waits for a connection, which the server may already have closed.
        client.start_async()
        wait_until(lambda: "AUTH_FAILED" in (client.client_state, *states))
        with pytest.raises((AuthFailedError, ConnectionClosedError)):
            client.get("/")
    finally:
        client.stop()
        client.close()


def test_super_user_passes_every_acl(secured: Secured) -> None:
    with secured.client(auth_data=[("digest", "ann:swordfish")]) as owner, secured.client() as admin:
        owner.create("/own", b"x", acl=[make_acl("auth", "", all=True)])
        with pytest.raises(NoAuthError):
            admin.get("/own")
        admin.add_auth("digest", "super:test")
        admin.delete("/own")


def test_garbage_and_stalled_tls_handshakes_affect_no_client(secured: Secured) -> None:
    assert b"Mode" not in exchange(secured.secure_port, b"srvr")
    assert b"HTTP" not in exchange(secured.secure_port, b"GET / HTTP/1.1\r\n\r\n")
    stalled = [socket.create_connection(("127.0.0.1", secured.secure_port), 5) for _ in range(10)]
    try:
        for each in stalled[:5]:
            each.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        began = time.monotonic()
        with secured.client(**secured.tls(secured.ann)) as client:
            assert client.get_children("/") == ["zookeeper"]
        for each in stalled:
            while each.recv(4096):
                pass
        assert time.monotonic() - began < PATIENCE_S
    finally:
        for each in stalled:
            each.close()


def test_connections_per_client_host_are_limited(secured: Secured) -> None:
    connections = [socket.create_connection(("127.0.0.1", secured.plain_port), 5) for _ in range(20)]
    try:
        wait_until(lambda: exchange(secured.plain_port, b"srvr") == b"")
    finally:
        for each in connections:
            each.close()
    wait_until(lambda: b"Mode" in exchange(secured.plain_port, b"srvr"))


def test_request_over_jute_maxbuffer_closes_its_connection(secured: Secured) -> None:
    for size, answered in ((0xFFFFF, True), (0x100000, False), (0x80000000, False)):
        with socket.create_connection(("127.0.0.1", secured.plain_port), 5) as connection:
            hello = struct.pack(">iqiqi", 0, 0, 5000, 0, 16) + bytes(17)
            connection.sendall(struct.pack(">i", len(hello)) + hello)
            assert len(connection.recv(41)) == 41
            connection.sendall(struct.pack(">I", size) + struct.pack(">ii", 5, 3))
            connection.settimeout(0.2 if answered else 5)
            try:
                assert connection.recv(1) == b""
                assert not answered
            except TimeoutError:
                assert answered, "the server waits for the rest"


def test_only_the_srvr_command_is_allowed_by_default(secured: Secured) -> None:
    for word in ("ruok", "stat", "cons", "dump", "envi", "conf", "mntr", "wchp"):
        assert secured.peer.word(1, word) == f"{word} is not executed because it is not in the whitelist.\n"
    assert "Mode: standalone" in secured.peer.word(1, "srvr")


def test_secrets_are_never_logged_or_journaled(secured: Secured) -> None:
    """No secret is in the logs or journals of the peer.

    This test runs last, after all tests that could write a secret.
    """
    written = [path for path in (secured.peer.directory / "1").rglob("*") if path.is_file() and path.name != "zoo.cfg"]
    texts = {path: path.read_bytes() for path in written}
    assert any(b"node_started" in text for text in texts.values())
    assert [(path.name, secret) for path, text in texts.items() for secret in SECRETS if secret.encode() in text] == []


def test_server_without_client_port_key_has_no_plaintext_port(tmp_path: Path) -> None:
    """A server without clientPort opens no plaintext port, even with client.portUnification=true."""
    path = tmp_path / "zoo.cfg"
    path.write_text(
        f"dataDir={tmp_path}\nsecureClientPort=2281\nclient.portUnification=true\n"
        f"ssl.keyStore.location={Authority(tmp_path / 'ssl').store('server', '/CN=server', 'DNS:localhost')}\n"
        f"ssl.trustStore.location={tmp_path / 'ssl' / 'ca.pem'}\n"
    )
    clients = mock.Mock(spec=ClientPort)
    asyncio.run(peer_process._listen_for_clients(load(path), clients, lambda problem: None))
    assert [call[0] for call in clients.method_calls] == ["listen_secure"]


def test_wrong_tls_store_password_is_reported_in_one_line(secured: Secured, tmp_path: Path) -> None:
    other = Ensemble(tmp_path, 1)
    text = secured.peer.config(1).read_text().replace("sesame-street", "wrong-one")
    text = text.replace(str(secured.peer.directory / "1" / "data"), str(tmp_path / "1" / "data"))
    other.config(1).write_text(text)
    code, output = other.run_to_its_end(1)
    assert code == 1
    assert output.splitlines()[-1].startswith("zabka peer: ssl.keyStore.location=")
    assert "Traceback" not in output
    assert "wrong-one" not in output


def test_servers_move_to_tls_one_by_one_and_check_host_names(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ssl")
    good = authority.store("peer", "/CN=peer", "DNS:localhost,IP:127.0.0.1")
    wrong = authority.store("wrong", "/CN=wrong", "DNS:elsewhere.example")
    peers = Ensemble(tmp_path, 3, tick_time=2000)
    plain = {i: peers.config(i).read_text() for i in peers.client_ports}

    def configure(i: int, store: Path, *, begins: bool, unified: bool) -> None:
        peers.config(i).write_text(
            f"{plain[i]}sslQuorum={str(begins).lower()}\nportUnification={str(unified).lower()}\n"
            f"ssl.quorum.keyStore.location={store}\nssl.quorum.trustStore.location={authority.ca}\n"
        )

    configure(1, good, begins=False, unified=True)
    configure(2, good, begins=True, unified=True)
    configure(3, wrong, begins=True, unified=True)
    try:
        peers.start(1, 2)
        peers.wait_for_quorum()
        with peers.client(1) as client:
            client.create("/a", b"over plain and TLS")
            # Write so much data that server 3 receives a snapshot, and that its sender must wait until server 3 has
            # read a part.
            made = [client.create_async(f"/{n}", bytes(900_000 if n < 10 else 1)) for n in range(520)]
            assert all(each.get(PATIENCE_S) for each in made)
        peers.start(3)
        wait_until(lambda: "its certificate is not for 127.0.0.1'" in peers.log(2))
        assert peers.modes()[3] == "none"
        peers.stop(3)
        configure(1, good, begins=True, unified=False)
        configure(3, good, begins=True, unified=False)
        peers.stop(1)
        peers.start(1, 3)
        peers.wait_for_quorum()
        with peers.client(3) as client:
            assert client.get("/a")[0] == b"over plain and TLS"
            assert len(client.get("/9")[0]) == 900_000
    finally:
        peers.close()
