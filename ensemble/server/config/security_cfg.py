"""The security keys of zoo.cfg: authentication, TLS, and limits on clients.

Sources: QuorumPeerConfig, ProviderRegistry, AuthenticationHelper, X509Util, section on options in the admin guide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import isnan
from pathlib import Path

import msgspec

from zabka.ensemble.auth.jaas import digest_users
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.schemes import DIGEST, ENSEMBLE, IP, KEY, SASL, X509
from zabka.ensemble.properties import logical_lines, split_property
from zabka.ensemble.server.config.config_values import INT_MIN, ConfigError, Values, decoded
from zabka.ensemble.server.config.jaas_file import read_section
from zabka.ensemble.server.config.limits import HANDSHAKES_MAX, Limits, ThrottleSettings
from zabka.ensemble.server.config.tls import VERSIONS, ClientAuth, TlsSettings
from zabka.ensemble.server.config.tls_stores import StoreType, kind_of

_PROVIDERS = {
    "org.apache.zookeeper.server.auth.DigestAuthenticationProvider": DIGEST,
    "org.apache.zookeeper.server.auth.IPAuthenticationProvider": IP,
    "org.apache.zookeeper.server.auth.X509AuthenticationProvider": X509,
    "org.apache.zookeeper.server.auth.SASLAuthenticationProvider": SASL,
    "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider": ENSEMBLE,
    "org.apache.zookeeper.server.auth.KeyAuthenticationProvider": KEY,
}
_AUTH_PROVIDER = "authProvider."
_SUPER_USER = "superUser"
_DIGEST = "DigestAuthenticationProvider."
_WITHOUT_EFFECT = (
    "serverCnxnFactory", "fips-mode", "ssl.protocol", "ssl.quorum.protocol", "ssl.sslProvider",
    "ssl.allowReverseDnsLookup", "ssl.quorum.allowReverseDnsLookup", "kerberos.removeHostFromPrincipal",
    "kerberos.removeRealmFromPrincipal", "request_throttle_stall_time", "request_throttle_drop_stale",
    "request_stale_connection_check",
)  # fmt: skip
_HANDSHAKE_MS = 5000
_CLIENT, _QUORUM = "ssl.", "ssl.quorum."
_SECRET = ("password", "superdigest", "secret")
HIDDEN = "(hidden)"
JUTE_MAXBUFFER = 0xFFFFF
_LARGE_BYTES = 100 * 1024 * 1024
_RATIO_MAX = 1e9
_EXTRA_BYTES_MIN = 1024
JUTE_MAXBUFFER_MAX = 48 << 20
"""Upper limit for jute.maxbuffer.

Packets between servers and records of the log are limited to 64 MiB, because a larger acknowledged transaction could
not be read again. A transaction adds fields to the request, for which 16 MiB are reserved.
"""


def without_secrets(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration without secret values, for the journal and for admin commands."""
    return {key: HIDDEN if _is_secret(key) else value for key, value in raw.items()}


def text_without_secrets(text: str) -> str:
    """Return a zoo.cfg with `HIDDEN` in place of each secret value."""
    shown: list[str] = []
    for line in logical_lines(text):
        key = "" if line.content is None else split_property(line.content)[0]
        shown.append(f"{key}={HIDDEN}\n" if _is_secret(key) else line.source)
    return "".join(shown)


def _is_secret(key: str) -> bool:
    lower = key.lower()
    return any(part in lower for part in _SECRET) and not lower.endswith("path")


# -- authentication --------------------------------------------------------------------------------------------------


def read_auth(raw: Mapping[str, str], values: Values, *, tls: bool) -> AuthPolicy:
    """Return the authentication policy for clients. Raises ConfigError."""
    values.used |= set(_WITHOUT_EFFECT)
    schemes = {IP}
    if values.property_flag(f"{_DIGEST}enabled", True):
        schemes.add(DIGEST)
    if tls:
        schemes.add(X509)
    if values.text("ssl.authProvider", X509) != X509:
        raise ConfigError("ssl.authProvider: only x509 is supported")
    for key, name in raw.items():
        if key.startswith(_AUTH_PROVIDER):
            values.used.add(key)
            if name not in _PROVIDERS:
                raise ConfigError(f"{key}={name} is no authentication provider that is known here")
            schemes.add(_PROVIDERS[name])
    supers = [key for key in raw if key == _SUPER_USER or key.startswith(f"{_SUPER_USER}.")]
    values.used |= set(supers)
    return AuthPolicy(
        schemes=frozenset(schemes),
        super_digest=values.text(f"{_DIGEST}superDigest", ""),
        digest_algorithm=values.get(f"{_DIGEST}digestAlg", "sha1", _algorithm, "a digest algorithm"),
        x509_super_user=values.text("X509AuthenticationProvider.superUser", ""),
        sasl_users=_sasl_users(values),
        sasl_super_users=tuple(raw[key] for key in supers),
        sasl_failure_tolerated=values.property_flag("allowSaslFailedClients", False),
        required_schemes=_required_schemes(values, schemes),
        skip_acl=values.property_is("skipACL", False, "yes", "no"),
        any_sasl_user=values.text("letAnySaslUserDoX", ""),
        ensemble_names=values.get("ensembleAuthName", None, _names, "a list of names"),
    )


def _names(text: str) -> frozenset[str] | None:
    return frozenset(name.strip() for name in text.split(","))


def _algorithm(text: str) -> str:
    """Convert Java's name of a hash algorithm, such as SHA1, SHA-256, SHA3-256 or MD5, to hashlib's name."""
    name = text.lower().replace("sha-", "sha").replace("sha3-", "sha3_")
    if not hashlib.new(name, usedforsecurity=False).digest_size:
        raise ValueError(text)  # SHAKE128 and similar have no fixed length
    return name


def _sasl_users(values: Values) -> dict[str, str] | None:
    section = values.text("sasl.serverconfig", "Server")
    super_password = values.text("SASLAuthenticationProvider.superPassword", "")
    users = read_section(values, section, digest_users)
    if users is not None and super_password and "super" in users:
        users["super"] = super_password
    return users


def _required_schemes(values: Values, schemes: set[str]) -> tuple[str, ...]:
    enforced = values.property_flag("enforce.auth.enabled", False)
    named = values.text("enforce.auth.schemes", "")
    if values.property_flag("sessionRequireClientSASLAuth", False):
        enforced, named = True, SASL
    if not enforced:
        return ()
    required = tuple(name.strip() for name in named.split(",") if name.strip())
    if not required:
        raise ConfigError("enforce.auth.enabled=true needs enforce.auth.schemes")
    missing = [name for name in required if name not in schemes]
    if missing:
        raise ConfigError(f"clients must authenticate by {missing[0]}, but there is no authProvider for it")
    return required


# -- TLS -------------------------------------------------------------------------------------------------------------


def read_secure_address(values: Values) -> tuple[str, int | None]:
    """Return (address, port) of the TLS client port; port None if it is not configured, 0 for any free port.

    Raises ConfigError.
    """
    port = values.number("secureClientPort", 0, 0, 65535)
    address = values.text("secureClientPortAddress", "")
    given = values.given("secureClientPort") is not None
    if address and not given:
        raise ConfigError("secureClientPortAddress is set but secureClientPort is not")
    return address, port if given else None


def read_client_tls(values: Values, *, wanted: bool) -> TlsSettings | None:
    """Return the TLS settings for clients. Raises ConfigError."""
    return _tls(values, _CLIENT, "client.certReload", wanted, verify_client_name=False)


def read_quorum_tls(values: Values) -> TlsSettings | None:
    """Return the TLS settings between servers, or None if neither `sslQuorum` nor `portUnification` is set.

    Raises ConfigError.
    """
    wanted = values.flag("sslQuorum", False) or values.flag("portUnification", False)
    return _tls(values, _QUORUM, "sslQuorumReloadCertFiles", wanted, verify_client_name=True)


def read_admin_tls(values: Values, *, wanted: bool, client_auth: ClientAuth) -> TlsSettings | None:
    """Return the TLS settings of the admin server, which uses the stores for servers (JettyAdminServer).

    Expired certificates are never trusted there. Raises ConfigError.
    """
    settings = _tls(values, _QUORUM, "sslQuorumReloadCertFiles", wanted, verify_client_name=True)
    return settings and msgspec.structs.replace(settings, client_auth=client_auth, trusts_expired=False)


def _tls(values: Values, prefix: str, reload: str, wanted: bool, *, verify_client_name: bool) -> TlsSettings | None:
    reloads = values.flag(reload, False) if prefix == _QUORUM else values.property_flag(reload, False)
    values = values if wanted else values.unchecked()
    key_store = _store(values, f"{prefix}keyStore")
    key_password = _password(values, f"{prefix}keyStore")
    trust_store = _store(values, f"{prefix}trustStore")
    trust_password = _password(values, f"{prefix}trustStore")
    needed: ClientAuth = "need"
    client_auth = values.get(f"{prefix}clientAuth", needed, _client_auth, "need, want or none")
    verify_server = values.property_flag(f"{prefix}hostnameVerification", True)
    verify_client = values.property_flag(f"{prefix}clientHostnameVerification", verify_client_name) and verify_server
    versions = values.get(f"{prefix}enabledProtocols", tuple(VERSIONS), _versions, f"a list of {', '.join(VERSIONS)}")
    ciphers = values.text(f"{prefix}ciphersuites", "")
    handshake_ms = values.number(f"{prefix}handshakeDetectionTimeoutMillis", _HANDSHAKE_MS)
    if handshake_ms < 1:
        values.warn(f"{prefix}handshakeDetectionTimeoutMillis={handshake_ms} is below 1: {_HANDSHAKE_MS} is used")
        handshake_ms = _HANDSHAKE_MS
    revoked = _revoked(values, prefix, wanted=wanted)
    trusts_expired = values.flag(f"zabka.{prefix}trustExpired", False)
    if wanted and trusts_expired and revoked is not None:
        # With both settings, OpenSSL would check neither the validity dates of certificates nor those of revocation
        # lists, so reject the combination.
        raise ConfigError(f"zabka.{prefix}trustExpired=true and {prefix}crl=true: an outdated list would be believed")
    if not wanted:
        return None
    if key_store is None:
        raise ConfigError(f"{prefix}keyStore.location is not set")
    if trust_store is None and (client_auth != "none" or prefix != _CLIENT):
        raise ConfigError(f"{prefix}trustStore.location is not set: no certificate could be verified")
    return TlsSettings(
        prefix=prefix,
        key_store=key_store[0],
        key_type=key_store[1],
        key_password=key_password,
        trust_store=trust_store[0] if trust_store is not None else None,
        trust_type=trust_store[1] if trust_store is not None else "PEM",
        trust_password=trust_password,
        revoked=revoked,
        client_auth=client_auth,
        verify_server_name=verify_server,
        verify_client_name=verify_client,
        versions=versions,
        ciphers=tuple(name.strip() for name in ciphers.split(",") if name.strip()),
        handshake_timeout_ms=handshake_ms,
        reloads=reloads,
        trusts_expired=trusts_expired,
    )


def _store(values: Values, key: str) -> tuple[Path, StoreType] | None:
    location, kind = values.text(f"{key}.location", ""), values.text(f"{key}.type", "")
    if not location:
        return None
    try:
        return Path(location), kind_of(kind, Path(location))
    except ValueError as bad:
        raise ConfigError(f"{key}.location={location}: {bad}") from None


def _revoked(values: Values, prefix: str, *, wanted: bool) -> Path | None:
    """Return the path of the file with the certificate revocation lists, or None if they are not checked.

    Java downloads the lists from the location in each certificate (CRLDP); here the operator provides them in a file.
    """
    checked, location = values.property_flag(f"{prefix}crl", False), values.text(f"zabka.{prefix}crl.location", "")
    asks = values.property_flag(f"{prefix}ocsp", False)
    if not wanted:
        return None
    if asks:
        raise ConfigError(f"{prefix}ocsp=true: no responder is asked here; {prefix}crl=true looks into a list")
    if checked and not location:
        raise ConfigError(
            f"{prefix}crl=true needs zabka.{prefix}crl.location, a PEM file with the list of each authority: none is "
            "fetched from the network here"
        )
    return Path(location) if checked else None


def _password(values: Values, key: str) -> str:
    password = values.text(f"{key}.password", "")
    path = values.text(f"{key}.passwordPath", "")
    if not path:
        return password
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as bad:
        reason = getattr(bad, "strerror", None) or "it is no text"
        raise ConfigError(f"{key}.passwordPath={path} cannot be read: {reason}") from None


def _client_auth(text: str) -> ClientAuth:
    match text.lower():
        case "need" | "":
            return "need"
        case "want":
            return "want"
        case "none":
            return "none"
    raise ValueError(text)


def _versions(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(name in VERSIONS for name in names):
        raise ValueError(text)
    return names


# -- limits ----------------------------------------------------------------------------------------------------------


def read_limits(values: Values) -> Limits:
    """Return the limits on client requests.

    Some keys have two names: the system property and the name in the admin guide.
    """
    large_threshold = values.property_number("largeRequestThreshold", -1)
    if large_threshold == 0 or large_threshold < -1:
        values.warn(f"largeRequestThreshold={large_threshold} is neither -1 nor positive: -1 is used")
        large_threshold = -1
    handshakes = values.property_number("netty.server.outstandingHandshake.limit", HANDSHAKES_MAX)
    return Limits(
        per_host=max(0, values.number("maxClientCnxns", 60)),
        connections=values.property_number("maxCnxns", 0, 0),
        frame_bytes=_frame_bytes(values, "jute.maxbuffer"),
        extra_bytes=_extra_bytes(values, "jute.maxbuffer.extrasize"),
        outstanding=values.property_number("globalOutstandingLimit", 1000),
        large_request_bytes=values.property_number("largeRequestMaxBytes", _LARGE_BYTES, 1, below=_LARGE_BYTES),
        large_request_threshold=large_threshold,
        in_process=max(0, _either(values, "request_throttle_max_requests", "requestThrottleLimit")),
        throttled_op_wait_ms=max(0, _either(values, "throttled_op_wait_time", "throttledOpWaitTime")),
        sessionless_timeout_ms=values.usable_number("nio.sessionlessCnxnTimeout", 10_000, 1),
        handshakes=handshakes if handshakes > 0 else HANDSHAKES_MAX,
        throttle=_throttle(values),
    )


def _either(values: Values, name: str, guide: str) -> int:
    """Return a number that can be set under two names: a system property, and the name in ZooKeeper's guide.

    The system property has precedence. Return 0 if neither is set.
    """
    return values.property_number(name, values.property_number(guide, 0))


def _throttle(values: Values) -> ThrottleSettings:
    def number(name: str, guide: str, default: int, minimum: int) -> int:
        return values.usable_number(
            f"connection_throttle_{name}", values.usable_number(guide, default, minimum), minimum
        )

    def ratio(name: str, guide: str, default: float) -> float:
        found = values.double(f"connection_throttle_{name}", values.double(guide, default))
        return 0.0 if isnan(found) else min(max(found, -_RATIO_MAX), _RATIO_MAX)

    weighs = values.property_flag("connection_throttle_weight_enabled", False)
    local = values.property_number("connection_throttle_local_session_weight", 1, 1)
    new = _weight(values, "connection_throttle_global_session_weight", 3, local)
    renewed = _weight(values, "connection_throttle_renew_session_weight", 2, local)
    # The key counts new sessions, but the throttle counts tokens: multiply by the tokens that a new session costs.
    unit = new if weighs else 1
    return ThrottleSettings(
        tokens=unit * number("tokens", "connectionMaxTokens", 0, 0),
        fill_time_ms=number("fill_time", "connectionTokenFillTime", 1, 1),
        fill_count=unit * number("fill_count", "connectionTokenFillCount", 1, 0),
        freeze_time_ms=number("freeze_time", "connectionFreezeTime", -1, INT_MIN),
        drop_increase=ratio("drop_increase", "connectionDropIncrease", 0.02),
        drop_decrease=ratio("drop_decrease", "connectionDropDecrease", 0.002),
        decrease_ratio=ratio("decrease_ratio", "connectionDecreaseRatio", 0.0),
        new_session_weight=unit,
        renewed_session_weight=renewed if weighs else 1,
    )


def _weight(values: Values, key: str, default: int, local: int) -> int:
    """Return the number of tokens that a session costs: at least `local`, which is the cost of a local session."""
    weight = values.property_number(key, default, 1, below=default)
    if weight < local and values.given(key) is not None:
        values.warn(f"{key}={weight} is below the weight of a local session: {local} is used")
    return max(weight, local)


def _frame_bytes(values: Values, key: str) -> int:
    size = values.usable_number(key, JUTE_MAXBUFFER, 1)
    if size > JUTE_MAXBUFFER_MAX:
        raise ConfigError(f"{key}={size} is above {JUTE_MAXBUFFER_MAX} (48 MiB), the largest that is supported")
    return size


def _extra_bytes(values: Values, key: str) -> int | None:
    """Return the number of extra bytes, or None if the key is not set or its value is not a number."""
    if decoded(values.get(key, "", str, "a number of bytes")) is None:
        return None
    return values.property_number(key, 0, _EXTRA_BYTES_MIN)
