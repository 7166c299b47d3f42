"""Loads key stores, trust stores and revocation lists into a TLS context: PEM and PKCS12 files.

Sources: org.apache.zookeeper.common.KeyStoreFileType, PEMFileLoader, PKCS12FileLoader. A Java key store (JKS, BCFKS)
must be converted: `conversion` returns the command.
"""

from __future__ import annotations

import re
import secrets
import ssl
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from zabka.ensemble.auth.names import subject_of
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.runtime.extras import is_installed, sentence
from zabka.ensemble.server.config.store_limits import TooManyIterations, check_iterations, check_pem, read_store

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

StoreType = Literal["PEM", "PKCS12"]
_SUPPORTED: dict[str, StoreType] = {"PEM": "PEM", "PKCS12": "PKCS12"}
_CONVERTIBLE = ("JKS", "BCFKS")
_BY_SUFFIX = {".pem": "PEM", ".p12": "PKCS12", ".jks": "JKS", ".bcfks": "BCFKS"}
_CRL = re.compile(rb"-----BEGIN X509 CRL-----")
_PEM_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_NAME_TYPES = {
    "OtherName": 0, "RFC822Name": 1, "DNSName": 2, "DirectoryName": 4, "UniformResourceIdentifier": 6, "IPAddress": 7,
    "RegisteredID": 8,
}  # fmt: skip
"""Numbers of the types of alternative names (GeneralName), by the names of cryptography's classes."""
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class BadStore(Exception):
    """A store cannot be used. The message gives the reason, without secrets."""


class Store(msgspec.Struct, frozen=True):
    """File, type and password of a key store or a trust store.

    `content` is the store itself, in PEM, instead of a file.
    """

    path: Path
    kind: StoreType
    password: str
    content: bytes = b""

    def __repr__(self) -> str:
        """Representation without the password."""
        return f"Store({self.path}, {self.kind})"


def kind_of(name: str, path: Path) -> StoreType:
    """Return a store's type: the configured type, or else the type for the file's suffix.

    Raises ValueError with a message that says what to do.
    """
    kind = name.upper() or _BY_SUFFIX.get(path.suffix.lower(), "")
    if kind in _CONVERTIBLE:
        raise ValueError(f"{kind} stores are not supported; convert it: {conversion(kind, path)}")
    supported = _SUPPORTED.get(kind)
    if supported is not None:
        return supported
    raise ValueError("only PEM and PKCS12 stores are supported; say which by .type=PEM or .type=PKCS12")


def conversion(kind: str, path: Path) -> str:
    """Return the command that converts a Java store to a PKCS12 store."""
    source, target = f"-srckeystore {path} -srcstoretype {kind}", path.with_suffix(".p12")
    return f"keytool -importkeystore {source} -destkeystore {target} -deststoretype PKCS12"


def load_key(context: ssl.SSLContext, store: Store) -> None:
    """Load a store's private key and its certificate chain into the context. Raises BadStore."""
    if not is_installed("tls"):
        raise BadStore(sentence("tls", "what reads stores and certificates is"))
    try:
        if store.kind == "PEM":
            check_pem(_content(store))
        if store.content:
            _load_pem_key(context, store)
        elif store.kind == "PEM":
            # Always pass a password: otherwise OpenSSL would prompt for it on the terminal.
            context.load_cert_chain(store.path, password=lambda: store.password)
        else:
            _load_pkcs12_key(context, store)
    except (OSError, ValueError) as bad:
        raise BadStore(_why(bad, store.kind)) from None


def load_trust(context: ssl.SSLContext, store: Store) -> None:
    """Trust the certificates in a store.  Raises BadStore."""
    try:
        if store.content:
            context.load_verify_locations(cadata=store.content.decode("ascii"))
            return
        if store.kind == "PEM":
            read_store(store.path)
            context.load_verify_locations(store.path)
            return
        from cryptography.hazmat.primitives.serialization import Encoding

        # As in Java, the certificate that belongs to a private key in the store does not become trusted.
        trusted = [entry.certificate for entry in _pkcs12(store).additional_certs]
        if not trusted:
            raise ValueError("it holds no trusted certificate")
        pem = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in trusted)
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (OSError, ValueError) as bad:
        raise BadStore(_why(bad, store.kind)) from None


def certificates_in(store: Store) -> list[x509.Certificate]:
    """Return the certificates that are trusted if this trust store is loaded."""
    from cryptography.x509 import load_pem_x509_certificates

    if store.kind == "PKCS12":
        return [entry.certificate for entry in _pkcs12(store).additional_certs]
    blocks = _PEM_CERTIFICATE.findall(_content(store))
    return load_pem_x509_certificates(b"\n".join(blocks))


def certificate_facts(store: Store) -> tuple[str, list[tuple[int, str]], int, int]:
    """Return the subject, the alternative names and the validity of the certificate in a key store.

    A name is a pair of its type (GeneralName, RFC 5280) and its text; times are in milliseconds since 1970. Raises
    OSError, ValueError.
    """
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName, load_pem_x509_certificate

    if store.kind == "PKCS12":
        entry = _pkcs12(store).cert
        if entry is None:
            raise ValueError("it holds no certificate")
        certificate = entry.certificate
    else:
        found = _PEM_CERTIFICATE.search(_content(store))
        if found is None:
            raise ValueError("it holds no certificate")
        certificate = load_pem_x509_certificate(found.group())
    try:
        listed = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
        names = [(_NAME_TYPES.get(type(each).__name__, 0), _name_text(each)) for each in listed]
    except ExtensionNotFound:
        names = []
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    try:
        subject = subject_of(certificate.public_bytes(Encoding.DER))
    except MalformedRecord as malformed:
        raise ValueError(f"the subject of its certificate: {malformed}") from None
    return subject, names, int(begin.timestamp()) * 1_000, int(end.timestamp()) * 1_000


def _name_text(name: x509.GeneralName) -> str:
    value = name.value
    return value.rfc4514_string() if hasattr(value, "rfc4514_string") else str(value)


def load_revoked(context: ssl.SSLContext, path: Path) -> None:
    """Check certificates against the revocation lists in a PEM file.

    Revoked certificates are rejected, and so are certificates of authorities without a revocation list. Raises
    BadStore.
    """
    try:
        content = path.read_bytes()
        if not _CRL.search(content):
            raise ValueError("it holds no list (X509 CRL) in PEM")
        if _CERTIFICATE in content:
            # OpenSSL would trust these certificates, so reject the file.
            raise ValueError("it holds certificates beside the lists")
        context.load_verify_locations(path)
    except (OSError, ValueError) as bad:
        raise BadStore(_why(bad, "PEM")) from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _content(store: Store) -> bytes:
    return store.content or read_store(store.path)


def _load_pkcs12_key(context: ssl.SSLContext, store: Store) -> None:
    found = _pkcs12(store)
    if found.key is None or found.cert is None:
        raise ValueError("it holds no private key with its certificate")
    _load_pair(context, found.key, [entry.certificate for entry in (found.cert, *found.additional_certs)])


def _load_pem_key(context: ssl.SSLContext, store: Store) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificates

    found = _PEM_KEY.search(store.content)
    if found is None:
        raise ValueError("it holds no private key")
    try:
        # A password for a key that is not encrypted is a mistake, as in a file.
        key = load_pem_private_key(found.group(), store.password.encode() or None)
    except (TypeError, UnsupportedAlgorithm) as bad:
        raise ValueError(str(bad)) from None
    _load_pair(context, key, load_pem_x509_certificates(store.content))


def _load_pair(context: ssl.SSLContext, key: Any, chain: list[x509.Certificate]) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    # The ssl module loads keys only from files, so write the key to a file, encrypted with a temporary password.
    password = secrets.token_bytes(32)
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    with NamedTemporaryFile(prefix="zabka-") as file:
        file.write(written + b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain))
        file.flush()
        context.load_cert_chain(file.name, password=password)


def _pkcs12(store: Store) -> PKCS12KeyAndCertificates:
    # Imported here, because PEM stores do not need this package.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    content = read_store(store.path)
    check_iterations(content)
    try:
        return load_pkcs12(content, store.password.encode() or None)
    except UnsupportedAlgorithm as bad:
        raise ValueError(str(bad)) from None


def _why(bad: Exception, kind: StoreType) -> str:
    if isinstance(bad, ssl.SSLError):
        return f"no {kind} with what is needed, or a wrong password ({bad.reason or 'unreadable'})"
    if isinstance(bad, OSError):
        return bad.strerror or str(bad)
    if isinstance(bad, TooManyIterations):
        return str(bad)
    return f"no {kind} with what is needed, or a wrong password ({str(bad).partition(chr(10))[0]})"
