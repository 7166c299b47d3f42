"""TLS on a server's ports: contexts loaded from key stores and trust stores, and checks of names in certificates.

Sources: org.apache.zookeeper.common.X509Util, ClientX509Util, QuorumX509Util, ZKHostnameVerifier.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.tls_stores import (
    BadStore,
    Store,
    StoreType,
    certificates_in,
    load_key,
    load_revoked,
    load_trust,
)
from zabka.ensemble.server.config.trust_anchors import NO_CHECK_TIME, chain_of, encoded, expired, outdated

ClientAuth = Literal["need", "want", "none"]
_VERIFY = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Supported protocol versions; older versions are not offered."""
TLS13_OFFERED = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
TLS13_SUITES = TLS13_OFFERED | {"TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"}
"""All cipher suites of TLS 1.3 (RFC 8446, appendix B.4).

OpenSSL does not offer the last two by default.
"""


class KeyNames(NamedTuple):
    """Names of the configuration keys, for error messages. `trust_expired` is "" if there is no such key."""

    key_store: str
    trust_store: str
    ciphers: str
    trust_expired: str


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS keys of zoo.cfg for one kind of port (`ssl.…` or `ssl.quorum.…`), or of a Kafka listener.

    `key_store` contains the private key and the certificate chain, beginning with this server's certificate. `key_pem`
    and `trust_pem` are the stores themselves, instead of files. `revoked` is the file with revocation lists, if
    certificates are checked against them. `names` is None for the keys of zoo.cfg.
    """

    prefix: str
    key_store: Path
    key_password: str
    trust_store: Path | None
    client_auth: ClientAuth = "need"
    verify_server_name: bool = True
    verify_client_name: bool = False
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    handshake_timeout_ms: int = 10_000
    reloads: bool = False
    key_type: StoreType = "PEM"
    trust_type: StoreType = "PEM"
    trust_password: str = ""
    revoked: Path | None = None
    trusts_expired: bool = False
    """Whether a certificate in the trust store is still trusted after it has expired."""
    key_pem: bytes = b""
    trust_pem: bytes = b""
    names: KeyNames | None = None

    def __repr__(self) -> str:
        """Representation without the password."""
        return f"TlsSettings({self.prefix}, {self.key_store}, {self.trust_store})"

    @property
    def key_names(self) -> KeyNames:
        """The names of the configuration keys."""
        prefix = self.prefix
        return self.names or KeyNames(
            f"{prefix}keyStore.location",
            f"{prefix}trustStore.location",
            f"{prefix}ciphersuites",
            f"zabka.{prefix}trustExpired",
        )

    @property
    def own(self) -> Store:
        """The store that contains the key and certificate of this program itself."""
        return Store(self.key_store, self.key_type, self.key_password, self.key_pem)

    @property
    def trusted(self) -> Store | None:
        """The trust store, or None without one."""
        if self.trust_store is None:
            return None
        return Store(self.trust_store, self.trust_type, self.trust_password, self.trust_pem)


class TlsStore:
    """TLS contexts for one kind of port. If `reloads` is set, they are recreated when the store files change.

    A new revocation list is always loaded, because lists expire soon. If a changed store cannot be used, `report` is
    called with the problem, and the old store stays in use.
    """

    def __init__(self, settings: TlsSettings, report: Callable[[str], object] = lambda problem: None) -> None:
        """Load the key store and the trust store. Raises ConfigError if one cannot be used."""
        self.settings = settings
        self._report = report
        self._stamp = self._files()
        self._anchors: frozenset[bytes] = frozenset()
        self._server, self._client = self._made()
        if (unchosen := unchosen_suites(settings.ciphers)) is not None:
            report(f"{settings.key_names.ciphers}: {unchosen}")

    def server_context(self) -> ssl.SSLContext:
        """Return the context for accepted connections."""
        self._refresh()
        return self._server

    def client_context(self) -> ssl.SSLContext:
        """Return the context for connections that this side opens.

        The context does not check the names in the certificate; call `refusal` for that.
        """
        self._refresh()
        return self._client

    def _made(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        server = self._context(ssl.PROTOCOL_TLS_SERVER)
        server.verify_mode = _VERIFY[self.settings.client_auth]
        client = self._context(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.verify_mode = ssl.CERT_REQUIRED
        self._look_at_anchors()
        return server, client

    def _look_at_anchors(self) -> None:
        """Store the trusted certificates, and report those that have expired."""
        settings, names = self.settings, self.settings.key_names
        if settings.trusted is None:
            return
        try:
            anchors = certificates_in(settings.trusted)
            dates = [*expired(anchors, _now())]
        except (OSError, ValueError):
            return  # unreadable here; OpenSSL checks these stores itself
        self._anchors = frozenset(encoded(anchor) for anchor in anchors)
        unless = f", unless {names.trust_expired}=true" if names.trust_expired else ""
        trusted = (
            f"it is trusted all the same ({names.trust_expired})" if settings.trusts_expired
            else f"who shows it or one that it signed is refused{unless}"
        )  # fmt: skip
        for each in dates:
            self._report(f"{_named(names.trust_store, settings.trusted)}: {each}; {trusted}")

    def outdated(self, transport: asyncio.BaseTransport) -> str | None:
        """Return why the other side's certificate chain is not valid now, or None if it is.

        Returns None if OpenSSL has checked the dates already.
        """
        return outdated(chain_of(transport), self._anchors, _now()) if self.settings.trusts_expired else None

    def _refresh(self) -> None:
        """Reload the stores whose files have changed.

        If a store cannot be loaded, keep the old one: the file may be in the middle of a replacement.
        """
        watched = self.settings.reloads or self.settings.revoked is not None
        if not watched or (stamp := self._files()) == self._stamp:
            return
        self._stamp = stamp
        try:
            self._server, self._client = self._made()
        except ConfigError as bad:
            self._report(f"the store before it goes on: {bad}")

    def _files(self) -> tuple[tuple[int, int, int], ...]:
        stamps: list[tuple[int, int, int]] = []
        settings = self.settings
        stores = (settings.key_store, settings.trust_store) if settings.reloads else ()
        for path in (*stores, settings.revoked):
            try:
                stat = path.stat() if path is not None else None
            except OSError:
                stat = None
            stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat else (0, 0, 0))
        return tuple(stamps)

    def _context(self, protocol: Any) -> ssl.SSLContext:
        settings = self.settings
        context = ssl.SSLContext(protocol)
        versions = [VERSIONS[name] for name in offered_versions(settings.versions, settings.ciphers)]
        if not versions:
            raise ConfigError(f"{settings.key_names.ciphers} names none for {', '.join(settings.versions)}")
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if older := [openssl_name(name) for name in settings.ciphers if name not in TLS13_SUITES]:
            try:
                context.set_ciphers(":".join(older))
            except ssl.SSLError:
                raise ConfigError(f"{settings.key_names.ciphers} names no cipher that is known here") from None
        self._load(context)
        # As in Java, every certificate in the trust store is trusted, even if it is not a root certificate.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if settings.trusts_expired:
            # Disable OpenSSL's check of dates. `outdated` checks the dates of all certificates except those in the
            # trust store.
            context.verify_flags |= NO_CHECK_TIME
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        settings, names = self.settings, self.settings.key_names
        key = _named(names.key_store, settings.own)
        try:
            load_key(context, settings.own)
            if settings.trusted is not None:
                key = _named(names.trust_store, settings.trusted)
                load_trust(context, settings.trusted)
            if settings.revoked is not None:
                key = f"zabka.{settings.prefix}crl.location={settings.revoked}"
                load_revoked(context, settings.revoked)
        except BadStore as bad:
            raise ConfigError(f"{key} cannot be used: {bad}") from None


def _named(key: str, store: Store) -> str:
    return key if store.content else f"{key}={store.path}"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def offered_versions(versions: Sequence[str], ciphers: Sequence[str]) -> list[str]:
    """Return the protocol versions for which at least one cipher is configured.

    TLS 1.3 has separate ciphers, and is disabled if none of them is configured.
    """
    if not ciphers:
        return list(versions)
    modern = any(name in TLS13_SUITES for name in ciphers)
    older = any(name not in TLS13_SUITES for name in ciphers)
    return [name for name in versions if (modern if name == "TLSv1.3" else older)]


def unchosen_suites(ciphers: Sequence[str]) -> str | None:
    """Return an error message if some but not all suites of TLS 1.3 are configured.

    The ssl module can offer only all of them or none.
    """
    named = TLS13_SUITES.intersection(ciphers)
    if not named or named >= TLS13_OFFERED:
        return None
    return f"Python offers all of TLS 1.3's or none; {', '.join(sorted(TLS13_OFFERED - named))} cannot be left out"


def unknown_suite(ciphers: Sequence[str]) -> str | None:
    """Return the first of these cipher suites that the local OpenSSL does not offer, or None.

    The names are in Java's spelling.
    """
    for name in ciphers:
        if name in TLS13_OFFERED:
            continue
        wanted, context = openssl_name(name), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.set_ciphers(wanted)
        except ssl.SSLError:
            return name
        if not name.startswith("TLS_") or wanted not in (each["name"] for each in context.get_ciphers()):
            return name
    return None


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a cipher, given Java's name.

    For example, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 in OpenSSL. Names of TLS 1.3
    ciphers are the same.
    """
    if "_WITH_" not in name:
        return name
    name = name.removeprefix("TLS_").replace("_WITH_", "_").replace("_CBC_", "_")
    return name.replace("AES_", "AES").replace("_", "-")


def certificate_of(transport: asyncio.BaseTransport) -> bytes | None:
    """Return the other side's certificate (DER), or None if it sent none or the connection does not use TLS."""
    secured = transport.get_extra_info("ssl_object")
    return secured.getpeercert(binary_form=True) if secured is not None else None


def refusal(transport: asyncio.BaseTransport, names: Iterable[str]) -> str | None:
    """Return an error message if the other side's certificate matches none of `names`, otherwise None.

    `names` are host names and IP addresses.
    """
    secured = transport.get_extra_info("ssl_object")
    certificate = secured.getpeercert() if secured is not None else None
    if not certificate:
        return "it showed no certificate"
    wanted = [name for name in dict.fromkeys(names) if name]
    if any(stands_for(certificate, name) for name in wanted):
        return None
    return f"its certificate is not for {' or '.join(wanted)}"


def stands_for(certificate: dict[str, Any], name: str) -> bool:
    """Return whether a certificate (from `getpeercert`) is valid for this host name or IP address.

    The certificate's alternative names are compared; its common name only if there are no alternative names.
    """
    alternatives: tuple[tuple[str, str], ...] = certificate.get("subjectAltName", ())
    address = _address(name)
    if address is not None and alternatives:
        return address in [_address(value) for kind, value in alternatives if kind == "IP Address"]
    hosts = [value for kind, value in alternatives if kind == "DNS"]
    if not alternatives:
        hosts = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return any(_same_host(host, name) for host in hosts)


def _address(text: str) -> object | None:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _same_host(pattern: str, name: str) -> bool:
    """Return whether a host name matches a name in a certificate (RFC 6125).

    Case does not matter. `*` can replace the whole first label of a name with three or more labels.
    """
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".")
    if not pattern.startswith("*."):
        return pattern == name and bool(name)
    label, _, rest = name.partition(".")
    return bool(label) and rest == pattern[2:] and "." in rest and "*" not in rest
