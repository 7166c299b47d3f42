"""Reads a broker's connection limits from its configuration (kafka.server.KafkaConfig, SocketServer)."""

from __future__ import annotations

from collections.abc import Callable

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.configs.config_def import Value, split_list
from zabka.broker_sim.configs.entity_configs import EntityConfigs
from zabka.broker_sim.quotas.connection_quotas import ConnectionLimits, ConnectionQuotas, ListenerLimits
from zabka.ensemble.ports import Runtime

MAX_CONNECTIONS = "max.connections"
CREATION_RATE = "max.connection.creation.rate"
PER_ADDRESS = "max.connections.per.ip"
OVERRIDES = "max.connections.per.ip.overrides"

Resolve = Callable[[str], str | None]
"""Function that returns the IP address of a host name, or None if it cannot be resolved."""


def connection_limits(config: KafkaConfig, configs: EntityConfigs, resolve: Resolve) -> ConnectionLimits:
    """Return the current connection limits. A listener without limits of its own has the limits of the broker."""
    keys = (MAX_CONNECTIONS, CREATION_RATE, PER_ADDRESS)
    total, rate, per_address = (_whole(configs.broker_value(key)) for key in keys)
    own_keys = (MAX_CONNECTIONS, CREATION_RATE)
    listeners = {
        listener.name: ListenerLimits(*(_whole(configs.listener_value(listener.name, key)) for key in own_keys))
        for listener in config.listeners
    }
    overrides = {}
    for entry in split_list(str(configs.broker_value(OVERRIDES))):
        host, _, count = entry.rpartition(":")
        address = resolve(host.strip().strip("[]"))
        if address is not None:
            overrides[address] = int(count)
    return ConnectionLimits(total, rate, per_address, overrides, listeners)


def _whole(value: Value) -> int:
    assert isinstance(value, int)
    return value


def connection_quotas(config: KafkaConfig, runtime: Runtime) -> ConnectionQuotas:
    """Return a broker's connection quotas, without any connections yet."""
    windows, seconds = config.number("quota.window.num"), config.number("quota.window.size.seconds")
    return ConnectionQuotas(runtime, windows, seconds, protected=config.inter_broker_listener)
