"""A throw-away certificate authority for one cluster: certificates of its brokers and users, in PEM files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zabka.compose.topology import PRIVATE
from zabka.ensemble.runtime.extras import require

AUTHORITY, BROKER = "ca.pem", "broker.pem"
BROKER_NAMES = ("localhost", "127.0.0.1", "::1")


def write_certificates(directory: Path, users: Iterable[str]) -> None:
    """Write the authority's certificate, one PEM file for all brokers, and `NAME.pem` for each user.

    Each PEM file contains a private key in PKCS 8, which Java reads, and the certificate chain. Raises Lacking if the
    extra `tls` is not installed.
    """
    require("tls", "trustme, which makes certificates for tests, is")
    import trustme

    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / AUTHORITY)
    _write(directory / BROKER, authority.issue_cert(*BROKER_NAMES, common_name="broker"))
    for user in users:
        _write(directory / f"{user}.pem", authority.issue_cert(f"{user}@example.org", common_name=user))


def _write(path: Path, issued: object) -> None:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
    from trustme import LeafCert

    assert isinstance(issued, LeafCert)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    path.touch(PRIVATE)
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + b"".join(part.bytes() for part in issued.cert_chain_pems)
    )
