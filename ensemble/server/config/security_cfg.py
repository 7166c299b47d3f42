"""The keys of zoo.cfg that are about who may do what: authentication, TLS, and limits on clients.

Sources: QuorumPeerConfig, ProviderRegistry, AuthenticationHelper, X509Util, the admin guide's section on options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ensemble.auth.jaas import digest_users
from ensemble.auth.policy import AuthPolicy
from ensemble.auth.schemes import DIGEST, ENSEMBLE, IP, KEY, SASL, X509
from ensemble.properties import read_properties
from ensemble.server.config.config_values import ConfigError, Values
from ensemble.server.config.jaas_file import read_section
from ensemble.server.config.limits import HANDSHAKES_MAX, Limits, ThrottleSettings
from ensemble.server.config.tls import VERSIONS, ClientAuth, TlsSettings
from ensemble.server.config.tls_stores import StoreType, kind_of

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
_SECRET = ("password", "superdigest", "secret")
HIDDEN = "(hidden)"
JUTE_MAXBUFFER = 0xFFFFF
JUTE_MAXBUFFER_MAX = 48 << 20
"""What servers tell each other, and a record of the log, has less than 64 MiB: a larger one that was acknowledged could
not be read back.  The rest is for what a transaction says beside the request."""


def without_secrets(raw: Mapping[str, str]) -> dict[str, str]:
    """A configuration as it may be shown: journal, admin commands."""
    return {key: HIDDEN if _is_secret(key) else value for key, value in raw.items()}


def text_without_secrets(text: str) -> str:
    """Return the text of a zoo.cfg with `HIDDEN` in place of each secret value."""
    shown: list[str] = []
    hides = continues = False
    for whole in text.splitlines(keepends=True):
        line = whole.rstrip("\r\n")
        comment = not continues and line.lstrip().startswith(("#", "!"))
        if not continues:
            key = "" if comment else next(iter(read_properties(line.rstrip("\\"))), "")
            hides = _is_secret(key)
            shown.append(f"{key}={HIDDEN}\n" if hides else whole)
        elif not hides:
            shown.append(whole)
        continues = not comment and (len(line) - len(line.rstrip("\\"))) % 2 == 1
    return "".join(shown)


def _is_secret(key: str) -> bool:
    lower = key.lower()
    return any(part in lower for part in _SECRET) and not lower.endswith("path")


# -- authentication --------------------------------------------------------------------------------------------------


def read_auth(raw: Mapping[str, str], values: Values, *, tls: bool) -> AuthPolicy:
    """How clients prove who they are.  Raises ConfigError."""
    values.used |= set(_WITHOUT_EFFECT)
    schemes = {IP}
    if values.flag(f"{_DIGEST}enabled", True):
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
        sasl_failure_tolerated=values.flag("allowSaslFailedClients", False),
        required_schemes=_required_schemes(values, schemes),
        skip_acl=values.get("skipACL", False, _yes, "yes or no"),
        any_sasl_user=values.text("letAnySaslUserDoX", ""),
        ensemble_names=values.get("ensembleAuthName", None, _names, "a list of names"),
    )


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def _names(text: str) -> frozenset[str] | None:
    return frozenset(name.strip() for name in text.split(","))


def _algorithm(text: str) -> str:
    """Java's name of a hash, as hashlib has it: SHA1, SHA-256, SHA3-256, MD5."""
    name = text.lower().replace("sha-", "sha").replace("sha3-", "sha3_")
    if not hashlib.new(name, usedforsecurity=False).digest_size:
        raise ValueError(text)  # SHAKE128 and its like have no length of their own
    return name


def _sasl_users(values: Values) -> dict[str, str] | None:
    section = values.text("sasl.serverconfig", "Server")
    super_password = values.text("SASLAuthenticationProvider.superPassword", "")
    users = read_section(values, section, digest_users)
    if users is not None and super_password and "super" in users:
        users["super"] = super_password
    return users


def _required_schemes(values: Values, schemes: set[str]) -> tuple[str, ...]:
    enforced = values.flag("enforce.auth.enabled", False)
    named = values.text("enforce.auth.schemes", "")
    if values.flag("sessionRequireClientSASLAuth", False):
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


def read_secure_address(values: Values) -> tuple[str, int]:
    """(address, port) of the TLS client port; port 0 where there is none.  Raises ConfigError."""
    port = values.number("secureClientPort", 0, 0, 65535)
    address = values.text("secureClientPortAddress", "")
    if address and not port:
        raise ConfigError("secureClientPortAddress is set but secureClientPort is not")
    return address, port


def read_client_tls(values: Values, *, wanted: bool) -> TlsSettings | None:
    """TLS towards clients.  Raises ConfigError."""
    return _tls(values, "ssl.", "client.certReload", wanted, verify_client_name=False)


def read_quorum_tls(values: Values) -> TlsSettings | None:
    """TLS between servers; None where neither `sslQuorum` nor `portUnification` asks for it.  Raises ConfigError."""
    wanted = values.flag("sslQuorum", False) or values.flag("portUnification", False)
    return _tls(values, "ssl.quorum.", "sslQuorumReloadCertFiles", wanted, verify_client_name=True)


def read_admin_tls(values: Values, *, wanted: bool, client_auth: ClientAuth) -> TlsSettings | None:
    """TLS of the admin server, with the stores that servers talk with (JettyAdminServer); what has expired is never
    trusted there.  Raises ConfigError."""
    settings = _tls(values, "ssl.quorum.", "sslQuorumReloadCertFiles", wanted, verify_client_name=True)
    return settings and msgspec.structs.replace(settings, client_auth=client_auth, trusts_expired=False)


def _tls(values: Values, prefix: str, reload: str, wanted: bool, *, verify_client_name: bool) -> TlsSettings | None:
    key_store = _store(values, f"{prefix}keyStore")
    key_password = _password(values, f"{prefix}keyStore")
    trust_store = _store(values, f"{prefix}trustStore")
    trust_password = _password(values, f"{prefix}trustStore")
    needed: ClientAuth = "need"
    client_auth = values.get(f"{prefix}clientAuth", needed, _client_auth, "need, want or none")
    verify_server = values.flag(f"{prefix}hostnameVerification", True)
    verify_client = values.flag(f"{prefix}clientHostnameVerification", verify_client_name) and verify_server
    versions = values.get(f"{prefix}enabledProtocols", tuple(VERSIONS), _versions, f"a list of {', '.join(VERSIONS)}")
    ciphers = values.text(f"{prefix}ciphersuites", "")
    handshake_ms = values.number(f"{prefix}handshakeDetectionTimeoutMillis", 5000, 1)
    reloads = values.flag(reload, False)
    revoked = _revoked(values, prefix)
    trusts_expired = values.flag(f"zabka.{prefix}trustExpired", False)
    if trusts_expired and revoked is not None:
        # OpenSSL then looks at the dates of neither.
        raise ConfigError(f"zabka.{prefix}trustExpired=true and {prefix}crl=true: an outdated list would be believed")
    if not wanted:
        return None
    if key_store is None:
        raise ConfigError(f"{prefix}keyStore.location is not set")
    if trust_store is None and (client_auth != "none" or prefix != "ssl."):
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


def _revoked(values: Values, prefix: str) -> Path | None:
    """The file with the authorities' lists.  Java fetches them from where each certificate says (CRLDP); here somebody
    else does, and puts them into a file."""
    checked, location = values.flag(f"{prefix}crl", False), values.text(f"zabka.{prefix}crl.location", "")
    if values.flag(f"{prefix}ocsp", False):
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
    """Limits on clients.  Some keys have two names: the system property's, and the one in the guide."""

    def number(name: str, default: int, minimum: int = 0, guide: str = "") -> int:
        both = values.number(guide, default, minimum) if guide else default
        return values.number(name, both, minimum)

    return Limits(
        per_host=number("maxClientCnxns", 60),
        connections=number("maxCnxns", 0),
        frame_bytes=values.get("jute.maxbuffer", JUTE_MAXBUFFER, _frame_bytes, "a number of bytes, 48 MiB at most"),
        extra_bytes=values.get("jute.maxbuffer.extrasize", None, _bytes, "a number of bytes"),
        outstanding=number("globalOutstandingLimit", 1000, 1),
        large_request_bytes=number("largeRequestMaxBytes", 100 * 1024 * 1024, 1),
        large_request_threshold=number("largeRequestThreshold", -1, -1),
        in_process=number("request_throttle_max_requests", 0, guide="requestThrottleLimit"),
        throttled_op_wait_ms=number("throttled_op_wait_time", 0, guide="throttledOpWaitTime"),
        sessionless_timeout_ms=number("nio.sessionlessCnxnTimeout", 10_000, 1),
        handshakes=_handshakes(number("netty.server.outstandingHandshake.limit", HANDSHAKES_MAX, -1)),
        throttle=_throttle(values),
    )


def _handshakes(limit: int) -> int:
    return limit if limit > 0 else HANDSHAKES_MAX


def _throttle(values: Values) -> ThrottleSettings:
    def number(name: str, guide: str, default: int, minimum: int) -> int:
        return values.number(f"connection_throttle_{name}", values.number(guide, default, minimum), minimum)

    def ratio(name: str, guide: str, default: float) -> float:
        for key in (guide, f"connection_throttle_{name}"):
            default = values.get(key, default, _ratio, "a number from 0 to 1")
        return default

    weighs = values.flag("connection_throttle_weight_enabled", False)
    lightest = values.number("connection_throttle_local_session_weight", 1, 1)
    heaviest = max(values.number("connection_throttle_global_session_weight", 3, 1), lightest)
    renewed = max(values.number("connection_throttle_renew_session_weight", 2, 1), lightest)
    # What is configured counts new sessions.
    unit = heaviest if weighs else 1
    return ThrottleSettings(
        tokens=unit * number("tokens", "connectionMaxTokens", 0, 0),
        fill_time_ms=number("fill_time", "connectionTokenFillTime", 1, 1),
        fill_count=unit * number("fill_count", "connectionTokenFillCount", 1, 1),
        freeze_time_ms=number("freeze_time", "connectionFreezeTime", -1, -1),
        drop_increase=ratio("drop_increase", "connectionDropIncrease", 0.02),
        drop_decrease=ratio("drop_decrease", "connectionDropDecrease", 0.002),
        decrease_ratio=ratio("decrease_ratio", "connectionDecreaseRatio", 0.0),
        new_session_weight=unit,
        renewed_session_weight=renewed if weighs else 1,
    )


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _frame_bytes(text: str) -> int:
    value = _bytes(text)
    if value > JUTE_MAXBUFFER_MAX:
        raise ValueError(text)
    return value


def _bytes(text: str) -> int:
    value = int(text, 0)
    if not 0 < value < 2**31:
        raise ValueError(text)
    return value
