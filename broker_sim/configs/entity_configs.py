"""Dynamic configuration: overrides below /config for topics, brokers, users, clients and IP addresses.

Brokers learn of changes by notifications in /config/changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import unquote

from zabka.broker_sim.change_follower import ChangeFollower
from zabka.broker_sim.configs.broker_config import DYNAMIC_KEYS, HIDDEN, KafkaConfig, dynamic_key, is_password
from zabka.broker_sim.configs.config_def import ConfigError, Value, render
from zabka.broker_sim.configs.credential_cache import CredentialCache
from zabka.broker_sim.configs.listeners import listener_key
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.ensemble.errors import ErrorCode, ZooKeeperError
from zabka.ensemble.ports import Future, Runtime
from zabka.journal.events import ConfigChanged
from zabka.kafka.ports import Emit
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

CHANGE_PREFIX = "config_change_"
CHANGE_KEPT_MS = 15 * 60 * 1000
"""Age after which a broker removes change notifications (ZkNodeChangeNotificationListener)."""
CLIENT_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
"""The quota keys of users and clients. Credentials of users are not among the overrides: see `CredentialCache`."""
READ_AHEAD_MS_MAX = 2_000
"""Maximum time for a LeaderAndIsr request to wait for the overrides of its topics."""

_AS_THEY_ARE: Mapping[str, Mapping[str, str]] = {}


class EntityConfigs(ChangeFollower):
    """Caches the overrides of every topic, of this broker and of all brokers, the quotas of clients, and credentials.

    `changed(entity)` is called after the overrides of "topics/T", "brokers/N", "brokers/<default>", "users/U",
    "users/U/clients/C", "clients/C" or "ips/A" have changed.
    """

    def __init__(
        self, zk: Zk, runtime: Runtime, config: KafkaConfig, emit: Emit, changed: Callable[[str], None]
    ) -> None:
        super().__init__(runtime)
        self._zk = zk
        self._config = config
        self._emit = emit
        self._changed = changed
        self.credentials = CredentialCache()
        """The SCRAM credentials of all users."""
        self._overrides: dict[str, dict[str, str]] = {}
        self._beneath: dict[str, str] = {}
        self._last_change = ""

    # ---- values -----------------------------------------------------------------------------------------------

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Return all settings of a topic that differ from the broker's configuration file.

        These are the topic's overrides and this broker's dynamic values.
        """
        own = self._overrides.get(f"topics/{topic}")
        if not own or not self._beneath:
            return own or self._beneath
        return {**self._beneath, **own}

    def overrides(self, entity: str) -> Mapping[str, str]:
        """Return the overrides of "topics/T", "brokers/N" or "brokers/<default>"; empty if the entity has none."""
        return self._overrides.get(entity, {})

    def broker_value(self, key: str, instead: Mapping[str, Mapping[str, str]] = _AS_THEY_ARE) -> Value:
        """Return a broker key's current value.

        Sources in order of precedence: the override of this broker, the override of all brokers, the configuration
        file, Kafka's default. With `instead`, return the value that would result if these overrides replaced the
        entities' overrides.
        """
        altered = self._altered(key, instead)
        return self._config.values[key] if altered is None else altered

    def listener_value(self, listener: str, key: str) -> Value:
        """Return a key's current value for a listener: listener.name.NAME.KEY, else the broker's value."""
        own = listener_key(listener, key)
        altered = self._altered(own)
        return self._config.values.get(own, self.broker_value(key)) if altered is None else altered

    def _altered(self, key: str, instead: Mapping[str, Mapping[str, str]] = _AS_THEY_ARE) -> Value | None:
        """Return a dynamic key's value from /config/brokers, or None if it is not set there."""
        definition = dynamic_key(key)
        for entity in (f"brokers/{self._config.broker_id}", f"brokers/{DEFAULT_ENTITY}"):
            text = instead.get(entity, self._overrides.get(entity, {})).get(key)
            if text is not None and definition is not None:
                with suppress(ConfigError):
                    return definition.parse(text)
        return None

    # ---- reading ----------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read all overrides from ZooKeeper. Raises ZooKeeperError."""
        self._reload = False
        zk, service = self._zk, self._zk.service
        changes = await zk.call(lambda: service.get_children(znodes.CONFIG_CHANGES, self._on_change))
        topics = await zk.call(lambda: service.get_children("/config/topics"))
        entities = [f"topics/{topic}" for topic in topics]
        entities += [f"brokers/{DEFAULT_ENTITY}", f"brokers/{self._config.broker_id}"]
        entities += await self._clients()
        known_before = list(self._overrides)
        await self._read(entities)
        for entity in known_before:
            if entity not in entities:
                self._update_credentials(entity, {})
                self._assign(entity, None)
        self._last_change = max([self._last_change, *(c for c in changes if c.startswith(CHANGE_PREFIX))])

    async def _clients(self) -> list[str]:
        """Return the entities that may have quotas: users, clients, clients of users, and IP addresses."""
        users, clients, addresses = await self._children(["users", "clients", "ips"])
        below = await self._children([f"users/{user}/clients" for user in users]) if users else []
        found = [f"users/{user}" for user in users] + [f"clients/{client}" for client in clients]
        found += [f"ips/{address}" for address in addresses]
        return found + [
            f"users/{user}/clients/{client}" for user, names in zip(users, below, strict=True) for client in names
        ]

    async def _children(self, kinds: list[str]) -> list[list[str]]:
        service = self._zk.service
        outcomes = await self._zk.batch(
            [lambda kind=kind: service.get_children(f"/config/{kind}") for kind in kinds]  # type: ignore[misc]
        )
        return [sorted(outcome.value or ()) for outcome in outcomes]

    async def read_ahead(self, topics: list[str]) -> None:
        """Read the overrides of topics that are new to this broker, so that they apply to the first record.

        Give up after READ_AHEAD_MS_MAX: a broker that is partitioned from the ensemble continues with its defaults.
        """
        unknown = [f"topics/{topic}" for topic in topics if f"topics/{topic}" not in self._overrides]
        if not unknown:
            return
        finished: Future[None] = self._runtime.future()

        def finish() -> None:
            if not finished.done():
                finished.set_result(None)

        async def read() -> None:
            with suppress(ZooKeeperError):
                await self._read(unknown)
            finish()

        self._runtime.spawn(read(), "read topic configs")
        timer = self._runtime.call_later(READ_AHEAD_MS_MAX, finish)
        try:
            await finished
        finally:
            timer.cancel()

    def forget_topic(self, topic: str) -> None:
        """Remove the overrides of a deleted topic."""
        self._overrides.pop(f"topics/{topic}", None)

    async def _read(self, entities: list[str]) -> None:
        service = self._zk.service
        outcomes = await self._zk.batch(
            [lambda entity=entity: service.get(f"/config/{entity}") for entity in entities]  # type: ignore[misc]
        )
        for entity, outcome in zip(entities, outcomes, strict=True):
            if outcome.value is not None:
                overrides = znodes.decode_config(outcome.value[0]) or {}
                self._update_credentials(entity, overrides)
                self._assign(entity, _known(entity, overrides))
            elif outcome.error is ErrorCode.NO_NODE:
                self._update_credentials(entity, {})
                self._assign(entity, None)

    def _update_credentials(self, entity: str, overrides: Mapping[str, str]) -> None:
        kind, _, name = entity.partition("/")
        if kind == "users" and "/" not in name:
            self.credentials.update(unquote(name), overrides)

    def _assign(self, entity: str, overrides: dict[str, str] | None) -> None:
        before = self._overrides.get(entity)
        if overrides is None and not entity.startswith("topics/"):
            overrides = {}
        if overrides is None:
            self._overrides.pop(entity, None)
        else:
            self._overrides[entity] = overrides
        if (before or {}) != (overrides or {}):
            if entity.startswith("brokers/"):
                self._beneath = self._topic_values()
            shown = {name: HIDDEN if is_password(name) else value for name, value in (overrides or {}).items()}
            self._emit(ConfigChanged(entity, shown))
            self._changed(entity)

    def _topic_values(self) -> dict[str, str]:
        """Return this broker's dynamic values that are defaults for topic settings, keyed by topic key."""
        dynamic: dict[str, str] = {}
        for entity in (f"brokers/{DEFAULT_ENTITY}", f"brokers/{self._config.broker_id}"):
            for name in self._overrides.get(entity, {}):
                dynamic[name] = render(self.broker_value(name)) if name in DYNAMIC_KEYS else ""
        return {
            key.name: dynamic[key.synonym]
            for key in TOPIC_KEYS.values()
            if key.synonym in DYNAMIC_KEYS and key.synonym in dynamic
        }

    # ---- following --------------------------------------------------------------------------------------------

    async def _process_changes(self) -> None:
        zk, service = self._zk, self._zk.service
        children = await zk.call(lambda: service.get_children(znodes.CONFIG_CHANGES, self._on_change))
        changes = [child for child in children if child.startswith(CHANGE_PREFIX)]
        new = [change for change in changes if change > self._last_change]
        if not new:
            return
        paths = [f"{znodes.CONFIG_CHANGES}/{change}" for change in changes]
        outcomes = await zk.batch([lambda path=path: service.get(path) for path in paths])  # type: ignore[misc]
        entities: dict[str, None] = {}
        expired = []
        oldest_ms = self._runtime.now().wall_ms - CHANGE_KEPT_MS
        for change, path, outcome in zip(changes, paths, outcomes, strict=True):
            if outcome.value is None:
                continue
            data, stat = outcome.value
            entity = znodes.decode_config_change(data)
            if change > self._last_change and entity is not None and self._concerns_us(entity):
                entities[entity] = None
            elif stat.ctime < oldest_ms:
                expired.append(path)
        await self._read(list(entities))
        self._last_change = new[-1]
        for path in expired:
            await zk.attempt(lambda path=path: service.delete(path))  # type: ignore[misc]

    def _concerns_us(self, entity: str) -> bool:
        mine = (f"brokers/{self._config.broker_id}", f"brokers/{DEFAULT_ENTITY}")
        return entity.startswith(("topics/", "users/", "clients/", "ips/")) or entity in mine


def _known(entity: str, overrides: dict[str, str]) -> dict[str, str]:
    if entity.startswith(("users/", "clients/")):
        return {key: overrides[key] for key in CLIENT_QUOTAS if key in overrides}
    return overrides
