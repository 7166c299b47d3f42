"""A throw-away certificate authority for one cluster: certificates of its nodes and users, in PEM files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zabka.compose.secured_nodes import AUTHORITY
from zabka.compose.topology import PRIVATE, write_atomically
from zabka.ensemble.runtime.extras import require

if TYPE_CHECKING:
    from trustme import CA, LeafCert

AUTHORITY_KEY = "ca-key.pem"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def write_certificates(directory: Path, servers: Mapping[str, Iterable[str]], users: Iterable[str]) -> None:
    """Write the authority's certificate and key, and `NAME.pem` for each server and user.

    `servers` maps each server to the host names and addresses of its certificate. Each file contains a private key in
    PKCS 8, which Java reads, and the certificate chain. Existing files are kept: an authority issues only certificates
    that are missing, or that lack a name of their server. Raises Lacking if the extra `tls` is not installed, OSError.
    """
    require("tls", "trustme, which makes certificates, is")
    directory.mkdir(parents=True, exist_ok=True)
    authority, is_new = _authority(directory)
    for server, names in servers.items():
        path, wanted = directory / f"{server}.pem", dict.fromkeys((*LOOPBACK_NAMES, *names))
        if is_new or not set(wanted) <= _names_in(path):
            _write(path, authority.issue_cert(*wanted, common_name=server))
    for user in users:
        path = directory / f"{user}.pem"
        if is_new or not path.exists():
            _write(path, authority.issue_cert(f"{user}@example.org", common_name=user))


def _authority(directory: Path) -> tuple[CA, bool]:
    """Return the authority of a directory, and whether it is new."""
    import trustme

    certificate, key = directory / AUTHORITY, directory / AUTHORITY_KEY
    if certificate.exists() and key.exists():
        return trustme.CA.from_pem(certificate.read_bytes(), key.read_bytes()), False
    made = trustme.CA()
    # Write the key first: an authority whose key is missing would have to be replaced.
    write_atomically(key, made.private_key_pem.bytes(), PRIVATE)
    write_atomically(certificate, made.cert_pem.bytes())
    return made, True


def _names_in(path: Path) -> set[str]:
    """Return the host names and addresses in a certificate, or an empty set if there is no such file."""
    from cryptography.x509 import DNSName, IPAddress, SubjectAlternativeName, load_pem_x509_certificates

    if not path.exists():
        return set()
    names = load_pem_x509_certificates(path.read_bytes())[0].extensions.get_extension_for_class(SubjectAlternativeName)
    return {str(name.value) for name in names.value if isinstance(name, DNSName | IPAddress)}


def _write(path: Path, issued: LeafCert) -> None:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_atomically(path, text + b"".join(part.bytes() for part in issued.cert_chain_pems), PRIVATE)
