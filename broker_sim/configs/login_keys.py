"""The keys of a client's login with SASL OAUTHBEARER: where a broker or a client gets its own token.

| `sasl.login.callback.handler.class` | the token |
|---|---|
| OAuthBearerUnsecuredLoginCallbackHandler (default) | is made here, unsigned: for tests only |
| OAuthBearerLoginCallbackHandler (KIP-768) | is fetched from an issuer, or read from a file |

The options of the login module set the claims of the first (`unsecuredLogin…`), and the client's id and secret of the
second. ExpiringCredentialRefreshConfig defines when the token is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, between
from zabka.broker_sim.configs.listeners import listener_key
from zabka.broker_sim.configs.oauth_urls import TRUST_OPTIONS, checked_backoff, checked_claim, checked_url, file_of

LOGIN_HANDLER = "sasl.login.callback.handler.class"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_LOGIN = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
FETCHED_LOGINS = (f"{_OAUTH}.OAuthBearerLoginCallbackHandler", f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler")
_URL, _URLENCODE = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.header.urlencode"
_SCOPE_CLAIM, _SUB_CLAIM = "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name"
CLAIM_KEYS = (_SCOPE_CLAIM, _SUB_CLAIM)
_CONNECT_MS, _READ_MS = "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"
_BACKOFF_MS, _BACKOFF_MS_MAX = "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"
_TIMEOUT_MS = 20_000
"""Timeouts that are not set. Kafka would wait for ever."""
_BUFFER_S, _MIN_PERIOD_S = "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds"
_FACTOR, _JITTER = "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"
REFRESH_NAMES = (_BUFFER_S, _MIN_PERIOD_S, _FACTOR, _JITTER)
"""Keys that cannot be set for the mechanism of a listener, only for the listener (OAuthBearerRefreshingLogin)."""
_REFRESH_KEYS = (
    ConfigKey(_BUFFER_S, ConfigType.SHORT, 300),
    ConfigKey(_MIN_PERIOD_S, ConfigType.SHORT, 60),
    ConfigKey(_FACTOR, ConfigType.DOUBLE, 0.8),
    ConfigKey(_JITTER, ConfigType.DOUBLE, 0.05),
)
_RANGES = ((0, 3600), (0, 900), (0.5, 1.0), (0.0, 0.25))
LOGIN_KEYS = (
    ConfigKey(LOGIN_HANDLER, ConfigType.CLASS, ""),
    ConfigKey(_CONNECT_MS, ConfigType.INT, _TIMEOUT_MS),
    ConfigKey(_READ_MS, ConfigType.INT, _TIMEOUT_MS),
    *_REFRESH_KEYS,
    ConfigKey(_BACKOFF_MS_MAX, ConfigType.LONG, 10_000),
    ConfigKey(_BACKOFF_MS, ConfigType.LONG, 100),
    ConfigKey(_URL, ConfigType.STRING, ""),
)
"""Keys of a broker. It has no `sasl.oauthbearer.header.urlencode`, as in Kafka 3.9."""
LOGIN_NAMES = tuple(key.name for key in LOGIN_KEYS)
CLIENT_LOGIN_KEYS = (
    *(key for key in LOGIN_KEYS if key not in _REFRESH_KEYS),
    *(key._replace(check=between(*limits)) for key, limits in zip(_REFRESH_KEYS, _RANGES, strict=True)),
    ConfigKey(_URLENCODE, ConfigType.BOOLEAN, False),
    ConfigKey(_SCOPE_CLAIM, ConfigType.STRING, "scope"),
    ConfigKey(_SUB_CLAIM, ConfigType.STRING, "sub"),
)
"""Keys of a client. Only these limit the refresh (SaslConfigs.addClientSaslSupport)."""
UNSECURED_PREFIX, _UNSECURED_EXTENSION = "unsecuredLogin", "unsecuredLoginExtension_"
_ID, _SECRET, _SCOPE, _EXTENSION = "clientId", "clientSecret", "scope", "extension_"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_RESERVED_EXTENSION = "auth"


class UnsecuredLogin(NamedTuple):
    """A login whose tokens are made here and have no signature. `options` are those of the login module."""

    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Representation without options."""
        return "unsigned tokens"


class FetchedLogin(NamedTuple):
    """A login whose tokens are fetched from `url` (http or https), or read from a file.

    `urlencodes` means that the id and the secret are encoded as in a form (RFC 6749, section 2.3.1). A timeout of None
    is endless. `trust` has the login module's options of the trust store.
    """

    url: str
    client_id: str
    client_secret: str
    scope: str
    urlencodes: bool
    connect_timeout_ms: int | None
    read_timeout_ms: int | None
    backoff_ms: int
    backoff_ms_max: int
    scope_claim: str
    sub_claim: str
    trust: Mapping[str, str]

    @property
    def file(self) -> str:
        """Path of the file with the token, or an empty string if it is fetched."""
        return file_of(self.url)

    def __repr__(self) -> str:
        """The address without its query, which can be a secret."""
        return self.url.partition("?")[0]


class RefreshKeys(NamedTuple):
    """When a token is replaced (ExpiringCredentialRefreshConfig)."""

    buffer_s: int
    min_period_s: int
    window_factor: float
    window_jitter: float


class TokenLoginKeys(NamedTuple):
    """How a broker or a client gets the token with which it connects. `extensions` are sent with the token."""

    source: UnsecuredLogin | FetchedLogin
    extensions: Mapping[str, str]
    refresh: RefreshKeys

    def __repr__(self) -> str:
        """Representation without secrets."""
        return f"TokenLoginKeys({self.source!r})"


def read_login(value: Callable[[str], Value], options: Mapping[str, str], handler: str) -> TokenLoginKeys:
    """Return how tokens are obtained. Raises ConfigError.

    `value` returns the value of a key. `options` are those of the login module.
    """
    is_fetched = handler in FETCHED_LOGINS
    prefix = _EXTENSION if is_fetched else _UNSECURED_EXTENSION
    extensions = {name[len(prefix) :]: text for name, text in options.items() if name.startswith(prefix)}
    for name, text in extensions.items():
        if name == _RESERVED_EXTENSION or _EXTENSION_NAME.fullmatch(name) is None:
            raise ConfigError(f"Extension name {name} is invalid")
        if _EXTENSION_VALUE.fullmatch(text) is None:
            raise ConfigError(f"Extension value for extension {name} is invalid")
    source = _fetched(value, options) if is_fetched else UnsecuredLogin(dict(options))
    buffer_s, min_period_s, factor, jitter = (value(name) for name in REFRESH_NAMES)
    assert isinstance(buffer_s, int) and isinstance(min_period_s, int)
    refresh = RefreshKeys(buffer_s, min_period_s, float(factor), float(jitter))
    return TokenLoginKeys(source, extensions, refresh)


def _fetched(value: Callable[[str], Value], options: Mapping[str, str]) -> FetchedLogin:
    def option(name: str) -> str:
        text = options.get(name)
        if not text or not text.strip():
            reason = "must be non-null" if text is None else "must not contain only whitespace"
            raise ConfigError(f"The OAuth configuration option {name} value {reason}")
        return text.strip()

    def timeout(name: str) -> int | None:
        found = value(name)
        assert isinstance(found, int)
        if found < 0:
            raise ConfigError(f"{name}={found}: timeouts can't be negative")
        return found or None

    text = str(value(_URL)).strip()
    if not text:
        raise ConfigError(f"The OAuth configuration option {_URL} value must be non-null")
    url = checked_url(_URL, text)
    is_file = bool(file_of(url))
    backoff_ms, backoff_ms_max = checked_backoff(value, _BACKOFF_MS, _BACKOFF_MS_MAX)
    return FetchedLogin(
        url=url,
        client_id="" if is_file else option(_ID),
        client_secret="" if is_file else option(_SECRET),
        scope=options.get(_SCOPE, "").strip(),
        urlencodes=bool(value(_URLENCODE)),
        connect_timeout_ms=timeout(_CONNECT_MS),
        read_timeout_ms=timeout(_READ_MS),
        backoff_ms=backoff_ms,
        backoff_ms_max=backoff_ms_max,
        scope_claim=checked_claim(value, _SCOPE_CLAIM),
        sub_claim=checked_claim(value, _SUB_CLAIM),
        trust={name: text for name, text in options.items() if name in TRUST_OPTIONS},
    )


def handler_of(originals: Mapping[str, str], listener: str) -> str:
    """Return the handler of a listener's login, or an empty string for the default."""
    return originals.get(listener_key(listener, f"oauthbearer.{LOGIN_HANDLER}"), "").strip()


def is_login_option(name: str, handler: str) -> bool:
    """Return whether an option of the login module belongs to the login, not to the verification of tokens."""
    if handler in FETCHED_LOGINS:
        return name in (_ID, _SECRET, _SCOPE, *TRUST_OPTIONS) or name.startswith((_EXTENSION, UNSECURED_PREFIX))
    return name.startswith(UNSECURED_PREFIX)


def check_login_handler(name: str, text: str) -> None:
    """Raise ConfigError for a handler of logins that does not exist here."""
    if text not in ("", UNSECURED_LOGIN, *FETCHED_LOGINS):
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: no classes are loaded. Set {FETCHED_LOGINS[0]} for tokens "
            f"of an issuer, or {UNSECURED_LOGIN} for unsigned ones in tests"
        )


def check_login_handlers(originals: Mapping[str, str], listeners: Iterable[str]) -> None:
    """Raise ConfigError for a login handler that does not exist, or that applies to none of these listeners."""
    allowed = [listener_key(listener, f"oauthbearer.{LOGIN_HANDLER}") for listener in listeners]
    for name, text in originals.items():
        if not text.strip() or not (name == LOGIN_HANDLER or name.endswith(f".{LOGIN_HANDLER}")):
            continue
        check_login_handler(name, text.strip())
        if name not in allowed:
            expected = f"Set {', '.join(allowed)}" if allowed else "No listener has this mechanism"
            raise ConfigError(f"{name} applies to no listener with SASL OAUTHBEARER. {expected}")


def unused_login_keys(originals: Mapping[str, str], logins: Mapping[str, TokenLoginKeys]) -> Iterator[str]:
    """Yield a warning for each login key that applies to no listener to which brokers connect with OAUTHBEARER."""
    fetched = [listener for listener, keys in logins.items() if isinstance(keys.source, FetchedLogin)]
    for name in originals:
        key = next((key for key in LOGIN_NAMES if name == key or name.endswith(f".{key}")), None)
        if key is None:
            continue
        is_refresh = key in REFRESH_NAMES
        prefix = name.removesuffix(key)
        if not is_refresh:
            prefix = prefix.removesuffix("oauthbearer.")
        users = fetched if not is_refresh and key != LOGIN_HANDLER else list(logins)
        if users and (not prefix or prefix in [listener_key(listener, "") for listener in users]):
            continue
        yield (
            f"{name} has no effect here: brokers use no such token of OAUTHBEARER to connect to each other through a "
            "listener that it applies to"
        )
