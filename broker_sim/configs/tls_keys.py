"""The TLS keys of a broker's listeners, checked as Kafka's DefaultSslEngineFactory checks them, without reading files.

Each key can be set for one listener (`listener.name.NAME.ssl.…`), which overrides the broker's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, list_of, one_of, split_list
from zabka.broker_sim.configs.listeners import SASL_SSL, SSL, Listener, listener_key
from zabka.broker_sim.configs.principal_mapping import PrincipalMapper

_S, _LIST, _PASSWORD = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD
TLS_KEYS = (
    ConfigKey("ssl.allow.dn.changes", ConfigType.BOOLEAN, False),
    ConfigKey("ssl.allow.san.changes", ConfigType.BOOLEAN, False),
    ConfigKey("ssl.cipher.suites", _LIST, ""),
    ConfigKey("ssl.client.auth", _S, "none", one_of("required", "requested", "none")),
    ConfigKey("ssl.endpoint.identification.algorithm", _S, "https", one_of("https", "HTTPS", "")),
    ConfigKey("ssl.enabled.protocols", _LIST, "TLSv1.2,TLSv1.3", list_of("TLSv1.2", "TLSv1.3")),
    ConfigKey("ssl.key.password", _PASSWORD, ""),
    ConfigKey("ssl.keystore.certificate.chain", _PASSWORD, ""),
    ConfigKey("ssl.keystore.key", _PASSWORD, ""),
    ConfigKey("ssl.keystore.location", _S, ""),
    ConfigKey("ssl.keystore.password", _PASSWORD, ""),
    ConfigKey("ssl.keystore.type", _S, ""),
    ConfigKey("ssl.principal.mapping.rules", _S, "DEFAULT"),
    ConfigKey("ssl.truststore.certificates", _PASSWORD, ""),
    ConfigKey("ssl.truststore.location", _S, ""),
    ConfigKey("ssl.truststore.password", _PASSWORD, ""),
    ConfigKey("ssl.truststore.type", _S, ""),
)
RELOADED_KEYS = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Keys of the stores, which can change for a listener while the broker runs (SslConfigs.RECONFIGURABLE_CONFIGS)."""
_CLIENT_AUTH = "ssl.client.auth"
_NAMES = tuple(key.name for key in TLS_KEYS)
_JAVA_ONLY = ("JKS", "BCFKS")
_BY_SUFFIX = {"pem": "PEM", "p12": "PKCS12", "pfx": "PKCS12", "jks": "JKS"}

StoreKind = Literal["PEM", "PKCS12"]


class StoreKeys(NamedTuple):
    """A key store or trust store: a file, or its content in PEM."""

    kind: StoreKind
    location: str
    password: str
    content: str = ""

    def __repr__(self) -> str:
        """Representation without secrets."""
        return f"StoreKeys({self.kind}, {self.location})"


class TlsKeys(NamedTuple):
    """The TLS configuration of one listener.

    `mapping_rules` is the value of ssl.principal.mapping.rules. `checks_names` is set if another broker's certificate
    must contain the host to which this broker connects. The last two are ssl.allow.dn.changes and
    ssl.allow.san.changes.
    """

    listener: str
    own: StoreKeys
    trusted: StoreKeys | None
    client_auth: str
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    mapping_rules: str = "DEFAULT"
    checks_names: bool = True
    allows_dn_changes: bool = False
    allows_san_changes: bool = False


def is_tls_key(name: str) -> bool:
    """Return whether this is a TLS key of the broker or of one listener."""
    return name in _NAMES or (name.startswith("listener.name.") and name.endswith(tuple(f".{key}" for key in _NAMES)))


def read_tls(values: Mapping[str, Value], listeners: tuple[Listener, ...]) -> dict[str, TlsKeys]:
    """Return the TLS configuration of each listener with SSL or SASL_SSL, keyed by name. Raises ConfigError."""
    found: dict[str, TlsKeys] = {}
    for listener in listeners:
        if listener.is_encrypted:
            try:
                found[listener.name] = _Reader(values, listener).keys()
            except ConfigError as wrong:
                raise ConfigError(f"listener {listener.name}: {wrong}") from None
    return found


def client_stores(values: Mapping[str, Value]) -> tuple[StoreKeys | None, StoreKeys | None]:
    """Return a client's key store and trust store, or None for a store that is not set. Raises ConfigError."""
    reader = _Reader(values, Listener("client", "", 0, SSL))
    own = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
    has_own = any(values[key] for key in own)
    return reader.key_store() if has_own else None, reader.trust_store()


def unused_tls_keys(originals: Mapping[str, str], listeners: tuple[Listener, ...]) -> Iterator[str]:
    """Yield a warning for each TLS key that applies to no listener."""
    secure = [listener.name for listener in listeners if listener.is_encrypted]
    own = tuple(listener_key(name, "ssl.") for name in secure)
    for name in originals:
        if is_tls_key(name) and not (name.startswith(own) if name not in _NAMES else secure):
            yield f"{name} has no effect here: it applies to no listener with the security protocol SSL or SASL_SSL"
    for listener in listeners:
        own_key = listener_key(listener.name, _CLIENT_AUTH)
        is_set = originals.get(_CLIENT_AUTH, "none").strip() != "none"
        if listener.protocol == SASL_SSL and is_set and own_key not in originals:
            yield (
                f"{_CLIENT_AUTH} has no effect on the listener {listener.name}, as in Kafka: clients of SASL_SSL "
                f"need no certificate. Set {own_key} to require one"
            )


class _Reader:
    """Reads the TLS keys of one listener."""

    def __init__(self, values: Mapping[str, Value], listener: Listener) -> None:
        self._values = values
        self._listener = listener.name
        self._protocol = listener.protocol

    def _text(self, key: str) -> str:
        return str(self._values.get(listener_key(self._listener, key), self._values[key]))

    def _flag(self, key: str) -> bool:
        return self._values.get(listener_key(self._listener, key), self._values[key]) is True

    def keys(self) -> TlsKeys:
        client_auth, trusted = self._client_auth(), self.trust_store()
        if client_auth != "none" and trusted is None:
            raise ConfigError(
                f"ssl.client.auth={client_auth} needs a trust store to verify clients' certificates: "
                "set ssl.truststore.location or ssl.truststore.certificates"
            )
        protocols = split_list(self._text("ssl.enabled.protocols"))
        if not protocols:
            raise ConfigError("ssl.enabled.protocols contains no protocol")
        rules = self._text("ssl.principal.mapping.rules")
        PrincipalMapper(rules)
        return TlsKeys(
            self._listener,
            self.key_store(),
            trusted,
            client_auth,
            tuple(protocols),
            tuple(split_list(self._text("ssl.cipher.suites"))),
            mapping_rules=rules,
            checks_names=bool(self._text("ssl.endpoint.identification.algorithm")),
            allows_dn_changes=self._flag("ssl.allow.dn.changes"),
            allows_san_changes=self._flag("ssl.allow.san.changes"),
        )

    def _client_auth(self) -> str:
        """Return ssl.client.auth. As in Kafka, the broker's value does not apply to listeners with SASL_SSL."""
        if self._protocol == SASL_SSL and listener_key(self._listener, _CLIENT_AUTH) not in self._values:
            return "none"
        return self._text(_CLIENT_AUTH)

    def key_store(self) -> StoreKeys:
        location, password = self._text("ssl.keystore.location"), self._text("ssl.keystore.password")
        key, chain = self._text("ssl.keystore.key"), self._text("ssl.keystore.certificate.chain")
        key_password, kind = self._text("ssl.key.password"), self._text("ssl.keystore.type")
        if key:
            _check_inline(kind, "SSL private key", "key store")
            if not chain:
                raise ConfigError("SSL private key is specified, but certificate chain is not specified.")
            if location:
                raise ConfigError("Both SSL key store location and separate private key are specified.")
            _no_password(password, "key")
            return StoreKeys("PEM", "", key_password, _lines(f"{key}\n{chain}"))
        if chain:
            raise ConfigError("SSL certificate chain is specified, but private key is not specified")
        if not location:
            if password:
                raise ConfigError("SSL key store is not specified, but key store password is specified.")
            raise ConfigError(
                f"the security protocol {self._protocol} needs a key store: set ssl.keystore.location, or "
                "ssl.keystore.key and ssl.keystore.certificate.chain"
            )
        store = store_kind(kind, location, "ssl.keystore")
        if store == "PEM":
            _no_password(password, "key")
            return StoreKeys(store, location, key_password)
        if not password:
            raise ConfigError("SSL key store is specified, but key store password is not specified.")
        if key_password not in ("", password):
            raise ConfigError(
                "ssl.key.password differs from ssl.keystore.password. A PKCS12 store with two passwords is not "
                "supported: create it with one password for both"
            )
        return StoreKeys(store, location, password)

    def trust_store(self) -> StoreKeys | None:
        location, password = self._text("ssl.truststore.location"), self._text("ssl.truststore.password")
        certificates, kind = self._text("ssl.truststore.certificates"), self._text("ssl.truststore.type")
        if certificates:
            _check_inline(kind, "SSL trust store certs", "trust store")
            if location:
                raise ConfigError("Both SSL trust store location and separate trust certificates are specified.")
            _no_password(password, "trust")
            return StoreKeys("PEM", "", "", _lines(certificates))
        if not location:
            if password:
                raise ConfigError("SSL trust store is not specified, but trust store password is specified.")
            return None
        store = store_kind(kind, location, "ssl.truststore")
        if store == "PEM":
            _no_password(password, "trust")
        return StoreKeys(store, location, password)


def _no_password(password: str, store: str) -> None:
    if password:
        only = ", only key password may be specified" if store == "key" else ""
        raise ConfigError(f"SSL {store} store password cannot be specified with PEM format{only}.")


def _check_inline(kind: str, what: str, store: str) -> None:
    if kind.upper() != "PEM":
        raise ConfigError(f"{what} can be specified only for PEM, but {store} type is {kind or 'JKS'}.")


def store_kind(text: str, location: str, prefix: str) -> StoreKind:
    """Return a store's type: the configured type, or else the type for the file's suffix.

    `prefix` begins the names of the store's keys. Raises ConfigError.
    """
    stem, dot, suffix = location.rpartition(".")
    kind = text.upper() or _BY_SUFFIX.get(suffix.lower(), "") * bool(dot)
    if kind == "PEM":
        return "PEM"
    if kind == "PKCS12":
        return "PKCS12"
    if kind in _JAVA_ONLY:
        raise ConfigError(
            f"{prefix}.location={location}: {kind} stores are not supported, because only Java reads them. Convert it: "
            f"keytool -importkeystore -srckeystore {location} -srcstoretype {kind} "
            f"-destkeystore {stem or location}.p12 -deststoretype PKCS12"
        )
    if not kind:
        raise ConfigError(f"{prefix}.type is not set, and JKS, Kafka's default, is not supported. Set PEM or PKCS12")
    raise ConfigError(f"{prefix}.type={text} is not supported. Set PEM or PKCS12")


def _lines(pem: str) -> str:
    """Restore the line breaks of PEM blocks: a value on one line of a properties file lacks them."""
    out: list[str] = []
    for part in pem.replace("-----BEGIN", "\n-----BEGIN").split("\n-----BEGIN")[1:]:
        label, _, rest = part.partition("-----")
        body, end, _ = rest.partition("-----END")
        # A header such as "Proc-Type: 4,ENCRYPTED" must keep its own lines.
        content = body.strip() if ":" in body else "\n".join(body.split())
        out.append(f"-----BEGIN{label}-----\n{content}\n{end}{label}-----\n")
    return "".join(out)
