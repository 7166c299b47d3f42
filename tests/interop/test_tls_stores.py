"""PKCS12 stores created with Java's keytool, used by Apache ZooKeeper 3.9.5 and ours in one ensemble with TLS."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [pytest.mark.long, needs_java, pytest.mark.skipif(shutil.which("keytool") is None, reason="no keytool")]


def keytool(*arguments: object) -> None:
    subprocess.run(["keytool", *map(str, arguments)], check=True, capture_output=True)


def stores(directory: Path) -> tuple[Path, Path]:
    """Create (key store, trust store) with a certificate for 127.0.0.1 that all servers trust."""
    key, trust, certificate = directory / "key.p12", directory / "trust.p12", directory / "peer.crt"
    common = "-storetype", "PKCS12", "-storepass", "swordfish"
    keytool(
        "-genkeypair", "-alias", "peer", "-keyalg", "EC", "-dname", "CN=peer", "-ext", "SAN=IP:127.0.0.1,DNS:localhost",
        "-keystore", key, *common,
    )  # fmt: skip
    keytool("-exportcert", "-rfc", "-alias", "peer", "-file", certificate, "-keystore", key, *common)
    keytool("-importcert", "-noprompt", "-alias", "peer", "-file", certificate, "-keystore", trust, *common)
    return key, trust


def test_our_server_follows_and_leads_java_with_keytool_stores(tmp_path: Path) -> None:
    ensemble = MixedEnsemble(tmp_path, 3, tick_time=500)
    key, trust = stores(tmp_path)
    for i in ensemble.client_ports:
        with ensemble.config(i).open("a") as config:
            config.write(
                f"sslQuorum=true\nssl.quorum.keyStore.location={key}\nssl.quorum.keyStore.password=swordfish\n"
                f"ssl.quorum.trustStore.location={trust}\nssl.quorum.trustStore.password=swordfish\n"
                "ssl.quorum.ciphersuites=TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\n"
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            )
    try:
        ensemble.start_java(3)
        ensemble.start(1)
        assert ensemble.wait_for_quorum() == 3
        with ensemble.client(1) as client:
            client.create("/secret", b"from ours")
        ensemble.kill(3)
        ensemble.start(2)
        leader = ensemble.wait_for_quorum()
        ensemble.start_java(3)
        assert ensemble.wait_for_quorum() == leader
        with ensemble.client(3) as client:
            assert client.get("/secret")[0] == b"from ours"
    finally:
        ensemble.close()
