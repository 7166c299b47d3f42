"""A certificate authority for one test run. It issues PEM files for a server and a client."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = datetime.timedelta(days=1)


class Certificates:
    """Certificates created once in `directory` and valid for a day."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("ca.zabka.test")
        own = _builder(self._name, self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.authority = directory / "ca.pem"
        self.authority.write_bytes(_pem(own.sign(self._key, hashes.SHA256())))
        server_certificate, server_key = self._issue("localhost")
        self.server_store = directory / "server.pem"
        """Path of a file with the server's key and certificate, as ssl.keyStore.type=PEM requires."""
        self.server_store.write_bytes(server_key + server_certificate)
        self._client_certificate, self._client_key = self._issue("client")

    def _issue(self, name: str) -> tuple[bytes, bytes]:
        """Return a certificate and its key, both as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key.public_key())
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _pem(certificate), private

    def client_configuration(self) -> dict[str, bytes]:
        """Return the configuration that kazoo's test harness passes to tests whose clients need a certificate."""
        return {
            "client_key": self._client_key,
            "client_cert": self._client_certificate,
            "ca_cert": self.authority.read_bytes(),
        }


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - LIFETIME).not_valid_after(now + LIFETIME)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
