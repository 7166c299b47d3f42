"""The keys of SASL OAUTHBEARER on a listener: how its clients' tokens are verified.

OAuthBearerUnsecuredValidatorCallbackHandler (default) accepts unsigned tokens, which any client can make: it is for
tests only. Its options are those of the login module, `unsecuredValidator…`.

OAuthBearerValidatorCallbackHandler (KIP-768) accepts tokens signed by an issuer, whose public keys are a JSON Web Key
Set. Its options are `sasl.oauthbearer.…`.

A key of the listener's mechanism overrides that of the listener, which overrides that of the broker
(ConfigurationUtils.get).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, at_least, split_list
from zabka.broker_sim.configs.listeners import listener_key
from zabka.broker_sim.configs.login_keys import handler_of, is_login_option
from zabka.broker_sim.configs.oauth_urls import TRUST_OPTIONS, checked_backoff, checked_claim, checked_url, file_of

OAUTHBEARER = "OAUTHBEARER"
LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SIGNED_HANDLERS = (
    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
)
CALLBACK_HANDLER = "sasl.server.callback.handler.class"
_URL = "sasl.oauthbearer.jwks.endpoint.url"
OAUTH_KEYS = (
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, 30, at_least(0)),
    ConfigKey("sasl.oauthbearer.expected.audience", ConfigType.LIST, ""),
    ConfigKey("sasl.oauthbearer.expected.issuer", ConfigType.STRING, ""),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.refresh.ms", ConfigType.LONG, 3_600_000, at_least(1)),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG, 10_000, at_least(0)),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", ConfigType.LONG, 100, at_least(0)),
    ConfigKey(_URL, ConfigType.STRING, ""),
    ConfigKey("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope"),
    ConfigKey("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub"),
)
OAUTH_NAMES = tuple(key.name for key in OAUTH_KEYS)
_VALIDATOR = "unsecuredValidator"
_UNSECURED_OPTIONS = tuple(
    f"{_VALIDATOR}{name}" for name in ("PrincipalClaimName", "ScopeClaimName", "RequiredScope", "AllowableClockSkewMs")
)
_SCOPE_ITEM = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")


class UnsecuredTokenKeys(NamedTuple):
    """Verification of unsigned tokens (OAuthBearerUnsecuredValidatorCallbackHandler). For tests only."""

    principal_claim: str
    scope_claim: str
    required_scope: tuple[str, ...]
    clock_skew_ms: int


class SignedTokenKeys(NamedTuple):
    """Verification of signed tokens (OAuthBearerValidatorCallbackHandler).

    `url` is that of the issuer's keys: http, https or file. `trust` has the login module's options of the trust store
    for https; without one, the system's certificate authorities are trusted.
    """

    url: str
    audiences: frozenset[str]
    issuer: str
    clock_skew_s: int
    scope_claim: str
    sub_claim: str
    refresh_ms: int
    backoff_ms: int
    backoff_ms_max: int
    trust: Mapping[str, str]

    @property
    def file(self) -> str:
        """Path of the file with the issuer's keys, or an empty string if they are fetched."""
        return file_of(self.url)

    def __repr__(self) -> str:
        """Representation without the password of the trust store."""
        return f"SignedTokenKeys({self.url})"


TokenKeys = UnsecuredTokenKeys | SignedTokenKeys


def read_token_keys(
    values: Mapping[str, Value], originals: Mapping[str, str], listener: str, options: Mapping[str, str]
) -> TokenKeys:
    """Return how a listener verifies tokens. `options` are those of the login module. Raises ConfigError."""
    handler = originals.get(listener_key(listener, f"oauthbearer.{CALLBACK_HANDLER}"), "").strip()
    is_signed = handler in SIGNED_HANDLERS
    allowed = TRUST_OPTIONS if is_signed else _UNSECURED_OPTIONS
    login = handler_of(originals, listener)
    for name in options:
        if name not in allowed and not is_login_option(name, login):
            raise ConfigError(
                f"the option {name} of the login module of {OAUTHBEARER} cannot be used with "
                f"{handler or UNSECURED_HANDLER}: set {', '.join(allowed)}"
            )
    if is_signed:
        return _signed(values, listener, options)
    if str(listeners_value(values, listener, _URL)).strip():
        raise ConfigError(
            f"{_URL} is set, but the listener accepts unsigned tokens, which any client can make. Set "
            f"{listener_key(listener, f'oauthbearer.{CALLBACK_HANDLER}')}={SIGNED_HANDLERS[0]}, or leave "
            f"{listener_key(listener, f'oauthbearer.{_URL}')} empty"
        )
    return UnsecuredTokenKeys(
        options.get(_UNSECURED_OPTIONS[0], "").strip() or "sub",
        options.get(_UNSECURED_OPTIONS[1], "").strip() or "scope",
        _required_scope(options.get(_UNSECURED_OPTIONS[2], "")),
        _clock_skew_ms(options.get(_UNSECURED_OPTIONS[3], "")),
    )


def check_handler(name: str, text: str) -> None:
    """Raise ConfigError for a callback handler of a listener's mechanism that does not exist here."""
    if not name.endswith(f".oauthbearer.{CALLBACK_HANDLER}"):
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: users are in sasl.jaas.config (PLAIN) and in ZooKeeper "
            f"(SCRAM), and only {OAUTHBEARER} has handlers to select: no classes are loaded"
        )
    if text not in (UNSECURED_HANDLER, *SIGNED_HANDLERS):
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: no classes are loaded. Set {SIGNED_HANDLERS[0]} for "
            f"signed tokens, or {UNSECURED_HANDLER} for unsigned ones in tests"
        )


def _required_scope(text: str) -> tuple[str, ...]:
    items = tuple(filter(None, text.strip().split(" ")))
    for item in items:
        if _SCOPE_ITEM.fullmatch(item) is None:
            raise ConfigError(f"{_UNSECURED_OPTIONS[2]}: Invalid scope value: {item}")
    return items


def _clock_skew_ms(text: str) -> int:
    try:
        return int(ConfigKey(_UNSECURED_OPTIONS[3], ConfigType.INT, 0, at_least(0)).parse(text or "0"))
    except ConfigError as wrong:
        raise ConfigError(f"login module of {OAUTHBEARER}: {wrong}") from None


def listeners_value(values: Mapping[str, Value], listener: str, key: str) -> Value:
    """Return the value of a key for the mechanism OAUTHBEARER of a listener (ConfigurationUtils.get)."""
    own = listener_key(listener, key)
    return values.get(listener_key(listener, f"oauthbearer.{key}"), values.get(own, values.get(key, "")))


def _signed(values: Mapping[str, Value], listener: str, options: Mapping[str, str]) -> SignedTokenKeys:
    def value(key: str) -> Value:
        return listeners_value(values, listener, key)

    def number(key: str) -> int:
        found = value(key)
        assert isinstance(found, int)
        return found

    backoff_ms, backoff_ms_max = checked_backoff(
        value, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
    )
    return SignedTokenKeys(
        url=_checked_url(str(value(_URL)).strip(), listener),
        audiences=frozenset(split_list(str(value("sasl.oauthbearer.expected.audience")))),
        issuer=str(value("sasl.oauthbearer.expected.issuer")).strip(),
        clock_skew_s=number("sasl.oauthbearer.clock.skew.seconds"),
        scope_claim=checked_claim(value, "sasl.oauthbearer.scope.claim.name"),
        sub_claim=checked_claim(value, "sasl.oauthbearer.sub.claim.name"),
        refresh_ms=number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        backoff_ms=backoff_ms,
        backoff_ms_max=backoff_ms_max,
        trust={name: text for name, text in options.items() if name in TRUST_OPTIONS},
    )


def _checked_url(url: str, listener: str) -> str:
    if not url:
        raise ConfigError(f"signed tokens need the issuer's keys: set {listener_key(listener, f'oauthbearer.{_URL}')}")
    return checked_url(_URL, url)


def unused_oauth_key(name: str, users: Collection[str]) -> str | None:
    """Return a warning for a key of signed tokens that applies to no listener.

    `users` has the listeners that use the key, each as the prefix of its keys. The prefix of all listeners is empty.
    """
    key = next((key for key in OAUTH_NAMES if name == key or name.endswith(f".{key}")), None)
    if key is None:
        return None
    prefix = name.removesuffix(key).removesuffix("oauthbearer.")
    if users and (not prefix or prefix in users):
        return None
    return (
        f"{name} has no effect here: no listener that it applies to verifies signed tokens. Set "
        f"listener.name.LISTENER.oauthbearer.{CALLBACK_HANDLER}={SIGNED_HANDLERS[0]}"
    )
