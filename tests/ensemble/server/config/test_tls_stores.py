"""TLS contexts with PKCS12 stores, revocation lists and cipher suites, each tested with a handshake in memory."""

from __future__ import annotations

import datetime
import os
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from hypothesis import given
from hypothesis import strategies as st

from zabka.ensemble.server.config import store_limits
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.store_limits import TooManyIterations, check_iterations, check_pem, read_store
from zabka.ensemble.server.config.tls import TlsSettings, TlsStore, offered_versions, unchosen_suites
from zabka.ensemble.server.config.tls_stores import BadStore, Store, kind_of, load_key, load_trust

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
ALL_MODERN = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


class Issuer:
    """Certificate authority with one certificate. It puts the certificate into stores, and can revoke it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key, self.own_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        self.ca = self._signed("ca", self.key, x509.BasicConstraints(True, None))
        self.own = self._signed("server", self.own_key, x509.BasicConstraints(False, None))
        self.ca_pem = directory / "ca.pem"
        self.ca_pem.write_bytes(self.ca.public_bytes(Encoding.PEM))

    def _signed(
        self, subject: str, key: ec.EllipticCurvePrivateKey, constraints: x509.BasicConstraints
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(name("ca"), name(subject), key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
        return builder.add_extension(constraints, critical=True).sign(self.key, hashes.SHA256())

    def key_store(self, password: str = "sesame") -> Path:
        path = self.directory / "own.p12"
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"own", self.own_key, self.own, [self.ca], lock))
        return path

    def trust_store(self) -> Path:
        path = self.directory / "trust.p12"
        lock = BestAvailableEncryption(b"hush")
        path.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [self.ca], lock))
        return path

    def pem_key_store(self) -> Path:
        path = self.directory / "own.pem"
        key = self.own_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(key + self.own.public_bytes(Encoding.PEM))
        return path

    def revoke(self, *certificates: x509.Certificate, until: datetime.datetime = NOW + DAY) -> Path:
        builder = x509.CertificateRevocationListBuilder(name("ca"), NOW - 2 * DAY, until)
        for each in certificates:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder(each.serial_number, NOW - DAY).build()
            )
        path = self.directory / "list.pem"
        path.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return path


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def settings(issuer: Issuer, **more: object) -> TlsSettings:
    plain = {"prefix": "ssl.", "key_store": issuer.pem_key_store(), "key_password": "", "trust_store": issuer.ca_pem}
    return TlsSettings(**{**plain, **more})  # type: ignore[arg-type]


def of_pkcs12(issuer: Issuer, **more: object) -> TlsSettings:
    stores = {
        "key_store": issuer.key_store(), "key_type": "PKCS12", "key_password": "sesame",
        "trust_store": issuer.trust_store(), "trust_type": "PKCS12", "trust_password": "hush",
    }  # fmt: skip
    return settings(issuer, **{**stores, **more})


def shaken(store: TlsStore) -> tuple[str, str]:
    """Run a TLS handshake in memory with this store at both ends. Return (protocol, cipher). Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = store.client_context().wrap_bio(to_client, to_server)
    server = store.server_context().wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    cipher = server.cipher()
    assert cipher is not None and server.getpeercert() is not None
    return str(server.version()), cipher[0]


def test_pkcs12_stores_work_like_pem_stores(issuer: Issuer) -> None:
    assert shaken(TlsStore(of_pkcs12(issuer)))[0] == "TLSv1.3"


def test_certificate_in_a_key_store_is_not_a_trusted_authority(issuer: Issuer) -> None:
    path = issuer.directory / "lone.p12"
    lone = pkcs12.serialize_key_and_certificates(b"own", issuer.own_key, issuer.own, None, NoEncryption())
    path.write_bytes(lone)
    with pytest.raises(ConfigError, match="it holds no trusted certificate"):
        TlsStore(of_pkcs12(issuer, key_store=path, key_password="", trust_store=path, trust_password=""))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"key_password": "guess"}, r"keyStore.location=.*own.p12 cannot be used: .* or a wrong password"),
        ({"trust_password": "guess"}, r"trustStore.location=.*trust.p12 cannot be used: .* or a wrong password"),
        ({"key_store": Path("/no/such.p12")}, "No such file"),
        ({"key_type": "PEM"}, "no PEM with what is needed"),
    ],
)
def test_unusable_store_is_reported_in_one_line(issuer: Issuer, more: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        TlsStore(of_pkcs12(issuer, **more))
    assert "\n" not in str(caught.value) and "guess" not in str(caught.value)


def test_trust_store_cannot_be_used_as_key_store(issuer: Issuer) -> None:
    with pytest.raises(ConfigError, match="it holds no private key"):
        TlsStore(of_pkcs12(issuer, key_store=issuer.trust_store(), key_password="hush"))


@pytest.mark.parametrize(
    ("given", "file", "kind"),
    [("", "a.p12", "PKCS12"), ("", "a.pem", "PEM"), ("pem", "a.p12", "PEM"), ("PKCS12", "a", "PKCS12")],
)
def test_store_type_is_read_from_its_key_or_the_file_name(given: str, file: str, kind: str) -> None:
    assert kind_of(given, Path(file)) == kind


def test_certificate_is_rejected_once_it_is_on_a_revocation_list(issuer: Issuer) -> None:
    store = TlsStore(settings(issuer, revoked=issuer.revoke()))
    assert shaken(store)[0] == "TLSv1.3"
    issuer.revoke(issuer.own)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        shaken(store)


def test_outdated_or_foreign_revocation_list_rejects_all_clients(issuer: Issuer, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="CRL has expired"):
        shaken(TlsStore(settings(issuer, revoked=issuer.revoke(until=NOW - DAY))))
    (tmp_path / "other").mkdir()
    other = Issuer(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"CRL|signature"):
        shaken(TlsStore(settings(issuer, revoked=other.revoke())))


def test_invalid_revocation_list_file_is_rejected(issuer: Issuer) -> None:
    with pytest.raises(ConfigError, match=r"zabka\.ssl\.crl\.location=.*it holds no list"):
        TlsStore(settings(issuer, revoked=issuer.ca_pem))
    both = issuer.revoke()
    both.write_bytes(both.read_bytes() + issuer.ca_pem.read_bytes())
    with pytest.raises(ConfigError, match="it holds certificates beside the lists"):
        TlsStore(settings(issuer, revoked=both))


def test_cipher_suites_determine_the_enabled_protocols(issuer: Issuer) -> None:
    both = ("TLSv1.2", "TLSv1.3")
    old = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    assert offered_versions(both, ()) == [*both]
    assert offered_versions(both, (old,)) == ["TLSv1.2"]
    assert offered_versions(both, ALL_MODERN) == ["TLSv1.3"]
    assert shaken(TlsStore(settings(issuer, ciphers=(old,)))) == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert shaken(TlsStore(settings(issuer, ciphers=ALL_MODERN)))[0] == "TLSv1.3"
    with pytest.raises(ConfigError, match=r"ssl.ciphersuites names none for TLSv1\.2"):
        TlsStore(settings(issuer, ciphers=ALL_MODERN, versions=("TLSv1.2",)))


def test_unavoidable_tls_1_3_suites_are_reported_once(issuer: Issuer) -> None:
    warnings: list[str] = []
    TlsStore(settings(issuer, ciphers=ALL_MODERN[:2]), warnings.append)
    assert warnings == [
        "ssl.ciphersuites: Python offers all of TLS 1.3's or none; TLS_AES_128_GCM_SHA256 cannot be left out"
    ]
    assert unchosen_suites(ALL_MODERN) is None and unchosen_suites(()) is None


# ---- limits --------------------------------------------------------------------------------------------------------


def element(tag: int, *parts: bytes, is_open: bool = False) -> bytes:
    content = b"".join(parts)
    if is_open:
        return bytes([tag, 0x80]) + content + bytes(2)
    return bytes([tag, 0x82]) + len(content).to_bytes(2) + content


SALT, MANY = element(4, b"salt"), element(2, (1_000_001).to_bytes(4))


def test_encrypted_store_with_too_many_iterations_is_refused(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, pem = BestAvailableEncryption(b"sesame"), issuer.directory / "locked.pem"
    key = issuer.own_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
    pem.write_bytes(key + issuer.own.public_bytes(Encoding.PEM))
    stores = [
        Store(pem, "PEM", "sesame"),
        Store(Path(), "PEM", "sesame", pem.read_bytes()),
        Store(issuer.key_store(), "PKCS12", "sesame"),
    ]
    for store in stores:
        load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), store)
    monkeypatch.setattr(store_limits, "ITERATIONS_MAX", 2_047)
    for store in stores:
        with pytest.raises(BadStore, match=r"^decrypting it needs \d+ iterations, and at most 2047 are allowed$"):
            load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), store)


@pytest.mark.parametrize("is_open", [False, True])
def test_iterations_are_found_anywhere_in_a_store(is_open: bool) -> None:
    few = element(2, (1_000_000).to_bytes(4))
    inner = element(0x30, SALT, few)
    for content in (element(0x30, SALT, MANY), element(0x30, element(0x24, SALT), MANY)):
        joined = element(0x24, element(4, content[:7]), element(4, content[7:]), is_open=is_open)
        for nested in (content, element(0xA0, element(4, content), is_open=is_open), element(0xA0, joined)):
            with pytest.raises(TooManyIterations):
                check_iterations(element(0x30, inner, nested, is_open=is_open))
    check_iterations(element(0x30, inner, element(4, b"other bytes"), is_open=is_open) + b"more")
    with pytest.raises(TooManyIterations, match="needs 1048576 iterations"):
        check_iterations(element(0x30, SALT, element(2, b"\1\0\0"), element(2, b"\x08"), element(2, b"\x02")))


def test_header_in_an_encrypted_key_is_malformed() -> None:
    with pytest.raises(ValueError, match="base64"):
        check_pem(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAAAMAAA: x\n\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n")


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_checked_or_malformed(content: bytes, is_sequence: bool) -> None:
    with suppress(ValueError):
        check_iterations(element(0x30, content) if is_sequence else content)


def test_deeply_nested_store_is_malformed() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        check_iterations(b"\x30\x80" * 5_000)


def test_only_regular_files_up_to_a_mebibyte_are_stores(issuer: Issuer, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.pem")
    large = tmp_path / "large.pem"
    large.write_bytes(issuer.pem_key_store().read_bytes().ljust(1 << 20, b"\n"))
    read_store(large)
    large.write_bytes(large.read_bytes() + b"\n")
    reasons = {
        tmp_path / "fifo.pem": "not a regular file",
        Path("/dev/zero"): "not a regular file",
        tmp_path: "directory|not a regular file",
        large: "it is larger than 1048576 bytes",
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for path, reason in reasons.items():
        for kind in ("PEM", "PKCS12"):
            for load in (load_key, load_trust):
                with pytest.raises(BadStore, match=reason):
                    load(context, Store(path, kind, "pw"))  # type: ignore[arg-type]
