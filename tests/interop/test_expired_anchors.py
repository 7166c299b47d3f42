"""Expired certificates in the trust stores of Apache ZooKeeper 3.9.5 and of our server.

Our server has `zabka.ssl.trustExpired` set. Both must accept and reject the same clients.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.ensemble.server.dated_certificates import Chains, client_with
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [pytest.mark.long, needs_java]


def answers(port: int, shown: Path) -> bool:
    """Return whether the server accepts a client with this certificate."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            client_with(shown).wrap_socket(plain) as secure,
        ):
            secure.sendall(b"ruok")
            return secure.recv(4) == b"imok"
    except (ssl.SSLError, ConnectionError):
        return False


def test_client_with_expired_anchor_is_accepted_as_in_java(tmp_path: Path) -> None:
    chains = Chains(tmp_path)
    taken: list[list[str]] = []
    for name in ("java", "ours"):
        (tmp_path / name).mkdir()
        server, [port] = MixedEnsemble(tmp_path / name, 1), free_ports(1)
        with server.config(1).open("a") as config:
            config.write(
                f"secureClientPort={port}\nssl.keyStore.location={chains.key_store}\nssl.keyStore.type=PEM\n"
                f"ssl.trustStore.location={chains.trust_store}\nssl.trustStore.type=PEM\n"
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nzabka.ssl.trustExpired=true\n"
                "ssl.clientHostnameVerification=false\n"
            )
        try:
            (server.start_java if name == "java" else server.start)(1)
            server.wait_for_quorum()
            everybody = (*chains.in_time, *chains.by_expired_anchor, *chains.refused)
            taken.append([shown.stem for shown in everybody if answers(port, shown)])
        finally:
            server.close()
    assert taken[0] == taken[1] == [shown.stem for shown in (*chains.in_time, *chains.by_expired_anchor)]
