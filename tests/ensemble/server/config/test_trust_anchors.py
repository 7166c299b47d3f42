"""Expired certificates in a trust store are either rejected and reported, or trusted as in Java."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tests.ensemble.server.dated_certificates import Chains, client_with
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.tls import TlsSettings, TlsStore
from zabka.ensemble.server.config.zoo_cfg import parse
from zabka.ensemble.server.net.peer_security import PeerSecurity


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Chains:
    return Chains(tmp_path_factory.mktemp("chains"))


def store(chains: Chains, *, trusts_expired: bool, warnings: list[str] | None = None) -> TlsStore:
    settings = TlsSettings(
        prefix="ssl.", key_store=chains.key_store, key_password="", trust_store=chains.trust_store,
        trusts_expired=trusts_expired,
    )  # fmt: skip
    return TlsStore(settings, (warnings if warnings is not None else []).append)


class Secured(asyncio.Transport):
    """Transport of the server's end of a TLS connection."""

    def __init__(self, secured: ssl.SSLObject) -> None:
        super().__init__({"ssl_object": secured})


def shaken(server_store: TlsStore, client_context: ssl.SSLContext) -> Secured:
    """Run a TLS handshake in memory, and return the server's end. Raises SSLCertVerificationError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_store.server_context().wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert server.getpeercert(binary_form=True) is not None
    return Secured(server)


def is_taken(server_store: TlsStore, shown: Path) -> bool:
    try:
        return server_store.outdated(shaken(server_store, client_with(shown))) is None
    except ssl.SSLCertVerificationError:
        return False


def test_expired_trusted_certificate_is_rejected(chains: Chains) -> None:
    by_default = store(chains, trusts_expired=False)
    assert all(is_taken(by_default, shown) for shown in chains.in_time)
    assert not any(is_taken(by_default, shown) for shown in (*chains.by_expired_anchor, *chains.refused))


def test_option_for_expired_anchors_exempts_only_trust_anchors(chains: Chains) -> None:
    like_java = store(chains, trusts_expired=True)
    assert all(is_taken(like_java, shown) for shown in (*chains.in_time, *chains.by_expired_anchor))
    assert not any(is_taken(like_java, shown) for shown in chains.refused)


def test_expired_trust_anchor_is_reported(chains: Chains) -> None:
    like_java = store(chains, trusts_expired=True)
    expired, _, early, between, _ = chains.refused
    reasons = [like_java.outdated(shaken(like_java, client_with(shown))) or "" for shown in (expired, early, between)]
    assert [reason.rpartition(" ")[0] for reason in reasons] == [
        "its certificate CN=expired expired on",
        "its certificate CN=early is not valid before",
        "its certificate CN=between expired on",
    ]


def test_servers_reject_each_others_expired_certificates(chains: Chains) -> None:
    like_java = store(chains, trusts_expired=True)
    security = PeerSecurity(like_java, dials=True, accepts_plain=False)
    taken = shaken(like_java, client_with(chains.by_expired_anchor[0]))
    assert security.refusal_of_caller(taken, []) is None
    refused = shaken(like_java, client_with(chains.refused[0]))
    for reason in (security.refusal_of_caller(refused, []), security.refusal_of_called(refused, [])):
        assert (reason or "").startswith("its certificate CN=expired expired on")


@pytest.mark.parametrize(
    ("trusts", "warnings"),
    [
        (False, "is refused, unless zabka.ssl.trustExpired=true"),
        (True, "it is trusted all the same (zabka.ssl.trustExpired)"),
    ],
)
def test_log_lists_expired_trust_anchors(chains: Chains, trusts: bool, warnings: str) -> None:
    lines: list[str] = []
    store(chains, trusts_expired=trusts, warnings=lines)
    assert [line.split(": ", 1)[1].split(" ")[0] for line in lines] == ["CN=old", "CN=old-self", "CN=old-leaf"]
    assert all(line.startswith("ssl.trustStore.location=") and line.endswith(warnings) for line in lines)


def test_client_without_tls_has_no_expired_trust_anchor(chains: Chains) -> None:
    assert store(chains, trusts_expired=True).outdated(asyncio.Transport({})) is None


KEYS = "ssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\nsecureClientPort=1\nzabka.ssl.trustExpired=true\n"


def test_expired_anchor_option_with_revocation_list_is_rejected(tmp_path: Path) -> None:
    assert parse(f"dataDir={tmp_path}\n{KEYS}").client_tls is not None
    with pytest.raises(ConfigError, match="an outdated list would be believed"):
        parse(f"dataDir={tmp_path}\n{KEYS}ssl.crl=true\nzabka.ssl.crl.location=/l.pem\n")


def test_admin_server_never_accepts_expired_trust_anchors(tmp_path: Path) -> None:
    quorum = KEYS.replace("ssl.", "ssl.quorum.").replace("secureClientPort=1", "clientPort=1\nsslQuorum=true")
    config = parse(f"dataDir={tmp_path}\n{quorum}admin.enableServer=true\nadmin.forceHttps=true\n")
    assert config.quorum_tls is not None and config.quorum_tls.trusts_expired
    assert config.admin is not None and config.admin.tls is not None and not config.admin.tls.trusts_expired
