"""Expired and valid certificates, in chains that Java accepts or rejects."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Identity(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


def identity(
    name: str, issuer: Identity | None = None, *, expired: bool = False, early: bool = False, ca: bool = False
) -> Identity:
    """Create a certificate and its key. It is signed by `issuer`, or self-signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer, signed_by = (key, subject) if issuer is None else (issuer.key, issuer.certificate.subject)
    builder = x509.CertificateBuilder(signed_by, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(NOW + DAY if early else NOW - 10 * DAY)
    builder = builder.not_valid_after(NOW - DAY if expired else NOW + 10 * DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    return Identity(builder.add_extension(names, critical=False).sign(signer, hashes.SHA256()), key)


class Chains:
    """A trust store with expired and valid certificates, and clients with all kinds of certificate chains.

    Both Java and OpenSSL accept `in_time`. Only Java accepts `by_expired_anchor`. Both reject `refused`. These results
    were measured with Apache ZooKeeper 3.9.5 on Java 17.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        good, old = identity("good", ca=True), identity("old", ca=True, expired=True)
        stranger = identity("stranger", ca=True)
        old_self, old_leaf = identity("old-self", expired=True), identity("old-leaf", stranger, expired=True)
        between = identity("between", good, ca=True, expired=True)
        self.trust_store = directory / "trust.pem"
        self.trust_store.write_bytes(good.pem + old.pem + old_self.pem + old_leaf.pem)
        self.key_store = self._written("server", identity("server", good), good)
        self.in_time = [self._written("valid", identity("valid", good))]
        signed_by_old = identity("signed", old)
        self.by_expired_anchor = [
            self._written("self-signed", old_self),
            self._written("leaf", old_leaf),
            self._written("signed-by-expired", signed_by_old),
            self._written("signed-by-expired-sent", signed_by_old, old),
        ]
        self.refused = [
            self._written("expired", identity("expired", good, expired=True)),
            self._written("both", identity("both", old, expired=True)),
            self._written("early", identity("early", good, early=True)),
            self._written("between", identity("under", between), between),
            self._written("unknown", identity("unknown", stranger)),
        ]

    def _written(self, file: str, own: Identity, *chain: Identity) -> Path:
        path = self.directory / f"{file}.pem"
        key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(key + own.pem + b"".join(each.pem for each in chain))
        return path


def client_with(store: Path) -> ssl.SSLContext:
    """Return a client's TLS context that presents the certificate in this file and trusts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(store)
    return context
