"""Key stores and trust stores that change while the broker runs (DynamicBrokerConfig, SslFactory).

The keys of the stores of a listener can be set in /config/brokers/N, as `listener.name.NAME.ssl.keystore.location`. A
changed value loads the stores again, for new connections. A request that leaves the values as they are loads those
stores whose files were modified. A new key store must have the same subject and the same alternative names as the one
before. Passwords are encrypted in the znode with password.encoder.secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from zabka.broker_sim.configs.broker_config import KafkaConfig, is_password, listener_tls_key
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.tls_keys import RELOADED_KEYS, TlsKeys, read_tls

_EXCEPTION = "org.apache.kafka.common.config.ConfigException: "


class Certificate(NamedTuple):
    """A listener's certificate: its subject, its alternative names as (GeneralName type, name), and its validity."""

    subject: str
    names: frozenset[tuple[int, str]]
    not_before_ms: int
    not_after_ms: int


class Passwords(Protocol):
    """Encrypts and decrypts passwords in znodes."""

    def encode(self, password: str) -> str:
        """Return an encrypted password. Raises ConfigError."""
        ...

    def decode(self, encoded: str) -> str:
        """Return a decrypted password. Raises ConfigError if it was encrypted in another way or is damaged."""
        ...


class ListenerStores(Protocol):
    """The stores of the broker's open listeners, in its environment."""

    @property
    def passwords(self) -> Passwords | None:
        """Encrypts passwords in znodes. None without password.encoder.secret."""
        ...

    def check(self, keys: Mapping[str, TlsKeys]) -> None:
        """Raise ConfigError if a listener cannot change to the stores of these keys."""
        ...

    def use(self, keys: Mapping[str, TlsKeys], *, at_start: bool) -> None:
        """Change the listeners to the stores of these keys.

        At the start, a certificate can differ from the one in the configuration file. Raises ConfigError.
        """
        ...

    def reload(self, keys: Mapping[str, TlsKeys]) -> None:
        """Load the stores whose keys are these already, but whose files were modified. Raises ConfigError."""
        ...

    def certificates(self) -> Mapping[str, Certificate]:
        """Return the certificate of each listener with TLS, keyed by name."""
        ...


class NoStores:
    """The stores of a broker without open listeners, such as a simulated one."""

    @property
    def passwords(self) -> Passwords | None:
        """Return nothing: passwords cannot be stored."""
        return None

    def check(self, keys: Mapping[str, TlsKeys]) -> None:
        """Accept all keys."""

    def use(self, keys: Mapping[str, TlsKeys], *, at_start: bool) -> None:
        """Do nothing."""

    def reload(self, keys: Mapping[str, TlsKeys]) -> None:
        """Do nothing."""

    def certificates(self) -> Mapping[str, Certificate]:
        """Return nothing."""
        return {}


class DynamicTls:
    """The TLS configuration of a broker's listeners, with the values in /config/brokers/N."""

    def __init__(self, config: KafkaConfig, stores: ListenerStores, log_line: Callable[[str], None]) -> None:
        self._config = config
        self._log_line = log_line
        self.stores = stores
        self.is_loaded = False
        """Whether the values in ZooKeeper have been read for the first time."""

    def keys(self, overrides: Mapping[str, str]) -> dict[str, TlsKeys]:
        """Return the TLS configuration with these overrides, whose passwords are decrypted. Raises ConfigError."""
        values = dict(self._config.values)
        for name, text in overrides.items():
            definition = listener_tls_key(name)
            if definition is not None:
                values[name] = definition.parse(text)
        return read_tls(values, self._config.listeners)

    def check(self, overrides: Mapping[str, str]) -> None:
        """Raise ConfigError with Kafka's message if a listener cannot change to these overrides."""
        if not any(map(listener_tls_key, overrides)) and not self._config.tls:
            return
        try:
            self.stores.check(self.keys(overrides))
        except ConfigError as wrong:
            # In Kafka's message, the invalid value is replaced by the text of the exception.
            raise ConfigError(
                f"Invalid value {_EXCEPTION}{_failed(wrong)} for configuration Invalid dynamic configuration"
            ) from None

    def reload(self, overrides: Mapping[str, str]) -> None:
        """Load the stores whose files were modified, although their keys stay the same. Raises ConfigError."""
        if not self._config.tls:
            return
        try:
            self.stores.reload(self.keys(overrides))
        except ConfigError as wrong:
            raise ConfigError(_failed(wrong)) from None

    def take_over(self, overrides: Mapping[str, str]) -> None:
        """Apply the overrides in /config/brokers/N. Invalid ones are logged and change nothing."""
        if not self._config.tls:
            return
        try:
            self.stores.use(self.keys(self.decoded(overrides)), at_start=not self.is_loaded)
        except ConfigError as wrong:
            self._log_line(f"Per-broker configs of {self._config.broker_id} could not be applied: {_failed(wrong)}")

    # ---- passwords --------------------------------------------------------------------------------------------

    def decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return stored overrides with decrypted passwords, without those that cannot be decrypted."""
        found = {}
        for name, text in stored.items():
            if not is_password(name):
                found[name] = text
                continue
            try:
                found[name] = self._passwords().decode(text)
            except ConfigError:
                self._log_line(f"Dynamic password config {name} could not be decoded, ignoring.")
        return found

    def encoded(self, overrides: Mapping[str, str], changed: Mapping[str, str], *, one_broker: bool) -> dict[str, str]:
        """Return overrides with the changed passwords encrypted. Raises ConfigError."""
        encrypted = {}
        for name, text in changed.items():
            if is_password(name):
                if not one_broker:
                    raise ConfigError("Password config can be defined only at broker level")
                encrypted[name] = self._passwords().encode(text)
        return {**overrides, **encrypted}

    def _passwords(self) -> Passwords:
        if self.stores.passwords is None:
            raise ConfigError("Password encoder secret not configured")
        return self.stores.passwords


def _failed(wrong: ConfigError) -> str:
    return f"Validation of dynamic config update of SSLFactory failed: {_EXCEPTION}{wrong}"


def without_prefix(names: Mapping[str, str]) -> list[str]:
    """Return the keys of stores that are set for the whole broker, sorted. Only those of a listener are dynamic."""
    return sorted(name for name in names if name in RELOADED_KEYS)


def check_compatible(before: Certificate, after: Certificate, keys: TlsKeys) -> None:
    """Raise ConfigError if a new certificate is for another subject, or lacks a name (SslFactory)."""
    if not keys.allows_dn_changes and _canonical(after.subject) != _canonical(before.subject):
        raise ConfigError(
            f"Keystore DistinguishedName does not match:  existing={{alias=kafka, DN={before.subject}}}, "
            f"new={{alias=kafka, DN={after.subject}}}"
        )
    if not keys.allows_san_changes and not after.names >= before.names:
        raise ConfigError(
            f"Keystore SubjectAltNames do not match:  existing={{alias=kafka, SAN={_names(before)}}}, "
            f"new={{alias=kafka, SAN={_names(after)}}}"
        )


def _canonical(subject: str) -> str:
    return " ".join(subject.casefold().split())


def _names(certificate: Certificate) -> str:
    return f"[{', '.join(f'[{kind}, {name}]' for kind, name in sorted(certificate.names))}]"
