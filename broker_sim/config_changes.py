"""Applies changes under /config to the parts of a broker (kafka.server.ConfigHandler)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote

from zabka.broker_sim.configs.broker_config import HOUSEKEEPING_KEYS, KafkaConfig, check_cleaner
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.dynamic_tls import DynamicTls
from zabka.broker_sim.configs.entity_configs import EntityConfigs
from zabka.broker_sim.configs.replica_config import replica_config
from zabka.broker_sim.quotas.client_throttling import ClientThrottles, number
from zabka.broker_sim.quotas.connection_limits import Resolve, connection_limits
from zabka.broker_sim.quotas.connection_quotas import ConnectionQuotas
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.controller.config import ControllerConfig
from zabka.controller.controller import KafkaController
from zabka.controller.topic_configs import UNCLEAN
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

CONNECTION_RATE = "connection_creation_rate"


class ConfigChanges:
    """Applies changed configuration overrides to one running broker.

    `controller_config` is modified in place; `resolve` finds the IP addresses of hosts.
    """

    def __init__(
        self,
        config: KafkaConfig,
        configs: EntityConfigs,
        *,
        controller: KafkaController,
        controller_config: ControllerConfig,
        replicas: ReplicaManager,
        quotas: ClientThrottles,
        connections: ConnectionQuotas,
        resolve: Resolve,
        tls: DynamicTls,
    ) -> None:
        self._config = config
        self._configs = configs
        self._controller = controller
        self._controller_config = controller_config
        self._replicas = replicas
        self._quotas = quotas
        self._connections = connections
        self._resolve = resolve
        self._tls = tls

    def take_over(self, entity: str) -> None:
        """Apply the overrides of an entity after a change.

        The entity is topics/T, brokers/N, users/U, clients/C or ips/A.
        """
        kind, _, name = entity.partition("/")
        if kind == "topics":
            self._replicas.topic_configs_changed([name])
            if self._configs.overrides(entity).get(UNCLEAN, "").strip().lower() == "true":
                self._controller.topic_unclean_enabled(name)
            return
        if kind == "ips":
            self._limit_address(name, self._configs.overrides(entity).get(CONNECTION_RATE))
            return
        if kind != "brokers":
            self._quotas.take_over(entity, self._configs.overrides(entity))
            return
        self._connections.configure(connection_limits(self._config, self._configs, self._resolve))
        every, own = (self._configs.overrides(f"brokers/{name}") for name in (DEFAULT_ENTITY, self._config.broker_id))
        if name != DEFAULT_ENTITY:
            self._tls.take_over(own)
        self._replicas.throttles.set_rates({**every, **own})
        self._replicas.configure_housekeeping(replica_config(self._with_housekeeping()))
        self._replicas.topic_configs_changed(dict.fromkeys(key.topic for key, _ in self._replicas.logs.all()))
        unclean = self._configs.broker_value(UNCLEAN) is True
        was, self._controller_config.unclean_leader_election_enable = (
            self._controller_config.unclean_leader_election_enable,
            unclean,
        )
        if unclean and not was:
            self._controller.unclean_default_enabled()

    def _with_housekeeping(self) -> KafkaConfig:
        """Return the broker's configuration with the current dynamic values for compaction and producer expiry.

        If these values contradict each other, because a client wrote them directly into the znodes, ignore them.
        """
        values = {**self._config.values, **{key: self._configs.broker_value(key) for key in HOUSEKEEPING_KEYS}}
        with suppress(ConfigError):
            check_cleaner(values)
            return replace(self._config, values=values)
        return self._config

    def _limit_address(self, node: str, rate: str | None) -> None:
        per_second = number(rate)
        address = None if node == DEFAULT_ENTITY else self._resolve(unquote(node))
        if node == DEFAULT_ENTITY or address is not None:
            self._connections.limit_address(address, None if per_second is None else int(per_second))
