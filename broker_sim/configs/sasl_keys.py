"""The SASL keys of a broker's listeners, read and checked as Kafka's SaslChannelBuilder does.

A key can be set for one listener (`listener.name.NAME.sasl.…`). The users of PLAIN are in
`listener.name.NAME.plain.sasl.jaas.config`, and those of SCRAM in ZooKeeper. OAUTHBEARER has tokens: `oauth_keys` for
those of clients, `login_keys` for those with which brokers and zabka's own clients connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, at_least, split_list
from zabka.broker_sim.configs.listeners import Listener, listener_key
from zabka.broker_sim.configs.login_keys import (
    CLAIM_KEYS,
    LOGIN_HANDLER,
    LOGIN_KEYS,
    LOGIN_NAMES,
    REFRESH_NAMES,
    FetchedLogin,
    TokenLoginKeys,
    check_login_handler,
    check_login_handlers,
    handler_of,
    read_login,
    unused_login_keys,
)
from zabka.broker_sim.configs.oauth_keys import (
    CALLBACK_HANDLER,
    LOGIN_MODULE,
    OAUTH_KEYS,
    OAUTH_NAMES,
    OAUTHBEARER,
    SignedTokenKeys,
    TokenKeys,
    UnsecuredTokenKeys,
    check_handler,
    listeners_value,
    read_token_keys,
    unused_oauth_key,
)
from zabka.broker_sim.sasl.login_tokens import check_login
from zabka.ensemble.auth.jaas import login_modules
from zabka.kafka.sasl_login import Credentials

SASL_KEYS = (
    ConfigKey("connection.failed.authentication.delay.ms", ConfigType.INT, 100, at_least(0)),
    ConfigKey("connections.max.reauth.ms", ConfigType.LONG, 0),
    ConfigKey("sasl.enabled.mechanisms", ConfigType.LIST, "GSSAPI"),
    ConfigKey("sasl.jaas.config", ConfigType.PASSWORD, ""),
    *LOGIN_KEYS,
    *OAUTH_KEYS,
    ConfigKey(CALLBACK_HANDLER, ConfigType.CLASS, ""),
    ConfigKey("sasl.server.max.receive.size", ConfigType.INT, 524_288),
)
OF_LISTENERS = (
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    *LOGIN_NAMES,
    *OAUTH_NAMES,
    CALLBACK_HANDLER,
    "sasl.server.max.receive.size",
)
"""Keys that can be set for a listener, and most of them also for a mechanism of a listener."""
_NAMES = tuple(key.name for key in SASL_KEYS)
_PLAIN = "PLAIN"
_MODULES: Mapping[str, str] = {
    _PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER: LOGIN_MODULE,
}
_UNSUPPORTED: Mapping[str, str] = {
    "GSSAPI": "brokers here have no Kerberos. It is Kafka's default",
}
_USER = "user_"
_LIFETIME_MS_MAX = 10**15
"""Longer lifetimes, which would not fit a response, are as good as endless."""


def is_sasl_key(name: str) -> bool:
    """Return whether this is a SASL key of the broker, of one listener, or of a mechanism of a listener."""
    ends = tuple(f".{key}" for key in OF_LISTENERS)
    return name in _NAMES or (name.startswith("listener.name.") and name.endswith(ends))


class SaslKeys(NamedTuple):
    """The SASL configuration of one listener.

    `plain_users` maps user names to passwords. `reauth_ms` has the maximum session lifetime of each mechanism, or 0.
    """

    listener: str
    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]
    receive_bytes_max: int
    reauth_ms: Mapping[str, int]
    tokens: TokenKeys | None = None
    """How tokens are verified, or None without OAUTHBEARER."""

    def __repr__(self) -> str:
        """Representation without passwords."""
        return f"SaslKeys({self.listener}, {self.mechanisms})"


def read_sasl(
    values: Mapping[str, Value], originals: Mapping[str, str], listeners: tuple[Listener, ...]
) -> dict[str, SaslKeys]:
    """Return the SASL configuration of each listener with SASL, keyed by name. Raises ConfigError."""
    _check_delay(values)
    for name, text in originals.items():
        if (name == CALLBACK_HANDLER or name.endswith(f".{CALLBACK_HANDLER}")) and text.strip():
            check_handler(name, text.strip())
    found: dict[str, SaslKeys] = {}
    for listener in listeners:
        if listener.needs_sasl:
            try:
                found[listener.name] = _read(values, originals, listener.name)
            except ConfigError as wrong:
                raise ConfigError(f"listener {listener.name}: {wrong}") from None
    _check_handlers(originals, found)
    check_login_handlers(originals, [name for name, keys in found.items() if keys.tokens is not None])
    return found


def _check_handlers(originals: Mapping[str, str], sasl: Mapping[str, SaslKeys]) -> None:
    """Raise ConfigError for a callback handler of no listener, as another handler would verify the tokens there."""
    used = [
        listener_key(name, f"oauthbearer.{CALLBACK_HANDLER}") for name, keys in sasl.items() if keys.tokens is not None
    ]
    for name, text in originals.items():
        if name.endswith(f".{CALLBACK_HANDLER}") and text.strip() and name not in used:
            expected = f"Set {', '.join(used)}" if used else "No listener has this mechanism"
            raise ConfigError(f"{name} applies to no listener with SASL {OAUTHBEARER}. {expected}")


def sasl_warnings(
    originals: Mapping[str, str],
    listeners: tuple[Listener, ...],
    sasl: Mapping[str, SaslKeys],
    credentials: Mapping[str, Credentials | TokenLoginKeys],
) -> Iterator[str]:
    """Yield a warning for each SASL key that applies to no listener, and for each listener with unsigned tokens."""
    logins = {name: login for name, login in credentials.items() if isinstance(login, TokenLoginKeys)}
    fetched = [listener_key(name, "") for name, login in logins.items() if isinstance(login.source, FetchedLogin)]
    own = tuple(listener_key(listener.name, "") for listener in listeners if listener.needs_sasl)
    signed = [listener_key(name, "") for name, keys in sasl.items() if isinstance(keys.tokens, SignedTokenKeys)]
    for name, keys in sasl.items():
        if isinstance(keys.tokens, UnsecuredTokenKeys):
            yield (
                f"the listener {name} accepts unsigned tokens of OAUTHBEARER, which any client can make for any user: "
                f"use it in tests only, or set {listener_key(name, f'oauthbearer.{CALLBACK_HANDLER}')}"
            )
    yield from unused_login_keys(originals, logins)
    for name in originals:
        if name.endswith(LOGIN_NAMES):
            continue
        unused = unused_oauth_key(name, [*signed, *fetched] if name.endswith(CLAIM_KEYS) else signed)
        if unused is not None:
            yield unused
        elif name == "sasl.jaas.config":
            yield f"{name} has no effect here: set listener.name.LISTENER.plain.sasl.jaas.config"
        elif name.startswith("listener.name.") and name.endswith(tuple(f".{key}" for key in OF_LISTENERS)):
            if not name.startswith(own):
                yield f"{name} has no effect here: it applies to no listener with SASL"
        elif (
            name in ("sasl.enabled.mechanisms", "sasl.server.max.receive.size", "connections.max.reauth.ms") and not own
        ):
            yield f"{name} has no effect here: no listener has SASL"


def _check_delay(values: Mapping[str, Value]) -> None:
    delay_ms, idle_ms = values["connection.failed.authentication.delay.ms"], values["connections.max.idle.ms"]
    assert isinstance(delay_ms, int) and isinstance(idle_ms, int)
    if 0 <= idle_ms <= delay_ms:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
            f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out"
        )


def _read(values: Mapping[str, Value], originals: Mapping[str, str], listener: str) -> SaslKeys:
    def value(key: str) -> Value:
        return values.get(listener_key(listener, key), values[key])

    mechanisms = tuple(dict.fromkeys(split_list(str(value("sasl.enabled.mechanisms")))))
    if not mechanisms:
        raise ConfigError("sasl.enabled.mechanisms contains no mechanism")
    for mechanism in mechanisms:
        if mechanism not in _MODULES:
            reason = _UNSUPPORTED.get(mechanism, "there is no such mechanism here")
            raise ConfigError(
                f"sasl.enabled.mechanisms: {mechanism} is not supported: {reason}. Set {', '.join(_MODULES)}"
            )
    reauth_ms = {}
    for mechanism in mechanisms:
        own = listener_key(listener, f"{mechanism.lower()}.connections.max.reauth.ms")
        lifetime = values.get(own, value("connections.max.reauth.ms"))
        assert isinstance(lifetime, int)
        reauth_ms[mechanism] = min(max(0, lifetime), _LIFETIME_MS_MAX)
    keys = {mechanism: _jaas_key(listener, mechanism) for mechanism in mechanisms}
    if _PLAIN in keys and not values.get(keys[_PLAIN]):
        raise ConfigError(f'PLAIN has no users: set {keys[_PLAIN]}={_MODULES[_PLAIN]} required user_alice="secret";')
    options = {mechanism: _login_options(values, key, mechanism) for mechanism, key in keys.items()}
    plain = options.get(_PLAIN, {})
    users = {name[len(_USER) :]: password for name, password in plain.items() if name.startswith(_USER)}
    tokens = None
    if OAUTHBEARER in mechanisms:
        tokens = read_token_keys(values, originals, listener, options[OAUTHBEARER])
    size = value("sasl.server.max.receive.size")
    assert isinstance(size, int)
    return SaslKeys(listener, mechanisms, MappingProxyType(users), size, reauth_ms, tokens)


def login_of(
    values: Mapping[str, Value], originals: Mapping[str, str], listener: str, mechanism: str
) -> Credentials | TokenLoginKeys:
    """Return the login with which a broker connects to other brokers' listener of this name. Raises ConfigError.

    As in Kafka, only the login configuration of the listener's mechanism is used.
    """
    key = _jaas_key(listener, mechanism)
    options = _login_options(values, key, mechanism)
    if mechanism == OAUTHBEARER:

        def value(name: str) -> Value:
            own = listener_key(listener, name)
            return values.get(own, values[name]) if name in REFRESH_NAMES else listeners_value(values, listener, name)

        return _token_login(value, options, handler_of(originals, listener), key)
    if not options.get("username") or not options.get("password"):
        raise ConfigError(
            f"brokers have no user for {mechanism} with which they connect to each other: "
            f'set {key}={_MODULES[mechanism]} required username="broker" password="secret";'
        )
    return Credentials(mechanism, options["username"], options["password"])


def client_login(values: Mapping[str, Value]) -> Credentials | TokenLoginKeys:
    """Return the login in a client's `sasl.jaas.config`, for its `sasl.mechanism`. Raises ConfigError."""
    mechanism, key = str(values["sasl.mechanism"]), "sasl.jaas.config"
    handler = str(values[LOGIN_HANDLER])
    if mechanism not in _MODULES:
        raise ConfigError(f"sasl.mechanism={mechanism} is not supported. Set {', '.join(_MODULES)}")
    options = _login_options(values, key, mechanism)
    if mechanism == OAUTHBEARER:
        check_login_handler(LOGIN_HANDLER, handler)
        return _token_login(values.__getitem__, options, handler, key)
    if handler:
        raise ConfigError(f"{LOGIN_HANDLER} is not supported with sasl.mechanism={mechanism}")
    if not options.get("username") or not options.get("password"):
        raise ConfigError(f'{key} has no user: set {_MODULES[mechanism]} required username="alice" password="secret";')
    return Credentials(mechanism, options["username"], options["password"])


def _token_login(value: Callable[[str], Value], options: Mapping[str, str], handler: str, key: str) -> TokenLoginKeys:
    """Return how tokens are obtained. Raises ConfigError with the key of the login module."""
    try:
        login = read_login(value, options, handler)
        check_login(login)
    except ConfigError as wrong:
        raise ConfigError(f"login with {OAUTHBEARER} and {key}: {wrong}") from None
    return login


def _jaas_key(listener: str, mechanism: str) -> str:
    return listener_key(listener, f"{mechanism.lower()}.sasl.jaas.config")


def _login_options(values: Mapping[str, Value], key: str, mechanism: str) -> Mapping[str, str]:
    """Return the options of the login module in a JAAS key; empty if the key is not set. Raises ConfigError."""
    text = str(values.get(key, ""))
    if not text:
        return {}
    try:
        modules = login_modules(text)
    except ValueError as wrong:
        raise ConfigError(f"{key} cannot be parsed: {wrong}") from None
    if len(modules) != 1:
        raise ConfigError(f"{key}: JAAS config property contains {len(modules)} login modules, should be 1 module")
    ((module, options),) = modules
    if module != _MODULES[mechanism]:
        raise ConfigError(f"{key}: the login module of {mechanism} is {_MODULES[mechanism]}, not {module}")
    return options
