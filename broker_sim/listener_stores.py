"""The key stores and trust stores of a broker's open listeners. Does real I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.dynamic_tls import Certificate, Passwords, check_compatible
from zabka.broker_sim.configs.tls_keys import StoreKeys, TlsKeys
from zabka.broker_sim.secure_kafka_port import SecureKafkaPort, check_own_trust, key_store, tls_store
from zabka.ensemble.server.config.tls import TlsStore
from zabka.ensemble.server.config.tls_stores import certificate_facts

_Stamp = tuple[tuple[int, int, int] | None, ...]


class _Loaded(NamedTuple):
    """The stores of one listener, as they were loaded."""

    keys: TlsKeys
    stamp: _Stamp
    store: TlsStore
    certificate: Certificate


class OpenStores:
    """The stores of a broker's listeners with TLS (`ListenerStores`).

    `report` is called with problems that do not prevent the use of a store, `info` after stores were loaded. On the
    listeners `of_brokers`, this broker must trust its own certificate.
    """

    def __init__(
        self,
        passwords: Passwords | None,
        report: Callable[[str], object],
        info: Callable[[str], object],
        of_brokers: Collection[str] = (),
    ) -> None:
        self._passwords = passwords
        self._report = report
        self._info = info
        self._of_brokers = of_brokers
        self._loaded: dict[str, _Loaded] = {}
        self._ports: dict[str, SecureKafkaPort] = {}

    @property
    def passwords(self) -> Passwords | None:
        """Encrypts passwords in znodes. None without password.encoder.secret."""
        return self._passwords

    def load(self, keys: TlsKeys) -> None:
        """Load the stores of a listener that is about to be opened. Raises ConfigError."""
        self._loaded[keys.listener] = self._load(keys)

    def store(self, listener: str) -> TlsStore:
        """Return the present TLS contexts of a listener whose stores are loaded."""
        return self._loaded[listener].store

    def opened(self, port: SecureKafkaPort) -> None:
        """Change the stores of this port from now on."""
        self._ports[port.listener] = port

    def certificates(self) -> Mapping[str, Certificate]:
        """Return the certificate of each listener with TLS, keyed by name."""
        return {listener: loaded.certificate for listener, loaded in self._loaded.items()}

    def check(self, keys: Mapping[str, TlsKeys]) -> None:
        """Raise ConfigError if a listener cannot change to the stores of these keys."""
        for listener, before in self._loaded.items():
            if keys[listener] != before.keys:
                self._successor(before, keys[listener])

    def use(self, keys: Mapping[str, TlsKeys], *, at_start: bool) -> None:
        """Change the listeners to the stores of these keys. Raises ConfigError."""
        changed = [listener for listener, before in self._loaded.items() if keys[listener] != before.keys]
        self._replace(changed, keys, at_start=at_start)

    def reload(self, keys: Mapping[str, TlsKeys]) -> None:
        """Load the stores whose keys are these already, but whose files were modified. Raises ConfigError."""
        modified = [
            listener
            for listener, before in self._loaded.items()
            if keys[listener] == before.keys and _stamp(before.keys) != before.stamp
        ]
        self._replace(modified, keys, at_start=False)

    def _replace(self, listeners: list[str], keys: Mapping[str, TlsKeys], *, at_start: bool) -> None:
        made = {}
        for listener in listeners:
            before, after = self._loaded[listener], keys[listener]
            made[listener] = self._load(after) if at_start else self._successor(before, after)
        for listener, loaded in made.items():
            self._loaded[listener] = loaded
            if listener in self._ports:
                self._ports[listener].handshakes.use(loaded.store)
            self._info(f"loaded the stores of the listener {listener}: the certificate of {loaded.certificate.subject}")

    def _successor(self, before: _Loaded, keys: TlsKeys) -> _Loaded:
        """Load the stores that follow those of `before`. Raises ConfigError."""
        loaded = self._load(keys)
        check_compatible(before.certificate, loaded.certificate, keys)
        if before.keys.trusted is None and keys.trusted is not None:
            raise ConfigError(
                "Cannot add SSL truststore to an existing listener for which no truststore was configured."
            )
        return loaded

    def _load(self, keys: TlsKeys) -> _Loaded:
        # Read the stamp first: a file that is replaced meanwhile counts as modified afterwards.
        stamp = _stamp(keys)
        store = tls_store(keys, self._report)
        if keys.listener in self._of_brokers:
            check_own_trust(keys.listener, store)
        try:
            subject, names, not_before_ms, not_after_ms = certificate_facts(key_store(keys))
        except (OSError, ValueError) as unreadable:
            raise ConfigError(f"listener {keys.listener}: the certificate cannot be read: {unreadable}") from None
        return _Loaded(keys, stamp, store, Certificate(subject, frozenset(names), not_before_ms, not_after_ms))


def _stamp(keys: TlsKeys) -> _Stamp:
    return tuple(_file_stamp(store) for store in (keys.own, keys.trusted))


def _file_stamp(store: StoreKeys | None) -> tuple[int, int, int] | None:
    if store is None or not store.location:
        return None
    try:
        stat = Path(store.location).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
