"""Quotas of users, clients and IP addresses: DescribeClientQuotas and AlterClientQuotas, stored under /config.

Sources: kafka.server.ZkAdminManager, KIP-546, KIP-612. Enforcement: `zabka.broker_sim.quotas.client_throttling`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isinf, trunc
from typing import NamedTuple
from urllib.parse import unquote

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, at_least, render
from zabka.broker_sim.configs.entity_znodes import EntityZnodes, node_name
from zabka.broker_sim.quotas.connection_limits import Resolve
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.errors import ZooKeeperError
from zabka.kafka.zk.znodes import DEFAULT_ENTITY

USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2
"""Match types of a filter component (ClientQuotaFilterComponent)."""
_EPSILON = 1e-6

_USER_KEYS = {
    key.name: key
    for key in (
        ConfigKey("consumer_byte_rate", ConfigType.LONG, 2**63 - 1),
        ConfigKey("controller_mutation_rate", ConfigType.DOUBLE, 2.0**31 - 1),
        ConfigKey("producer_byte_rate", ConfigType.LONG, 2**63 - 1),
        ConfigKey("request_percentage", ConfigType.DOUBLE, 2.0**31 - 1),
    )
}
_IP_KEYS = {"connection_creation_rate": ConfigKey("connection_creation_rate", ConfigType.INT, 2**31 - 1, at_least(0))}

Entity = tuple[tuple[str, str | None], ...]
"""The parts of a quota entity as (type, name). The name of a default entity is None."""


class Component(NamedTuple):
    """One component of a filter: an entity type, and which names match."""

    entity_type: str
    match_type: int
    name: str | None


class QuotaChange(NamedTuple):
    """A quota key's new value, or None to remove the quota."""

    key: str
    value: float | None


class QuotaResult(NamedTuple):
    """Result for one entity of a request."""

    entity: Entity
    error: KafkaError = KafkaError.none
    message: str | None = None


def _name(node: str) -> str | None:
    return None if node == DEFAULT_ENTITY else unquote(node)


class ClientQuotas:
    """Stores quotas in /config/users, /config/clients and /config/ips. `resolve` finds the IP addresses of hosts."""

    def __init__(self, znodes: EntityZnodes, resolve: Resolve = str) -> None:
        self._znodes = znodes
        self._resolve = resolve

    # ---- describe ---------------------------------------------------------------------------------------------

    async def describe(self, components: Sequence[Component], strict: bool) -> list[tuple[Entity, dict[str, float]]]:
        """Return every matching entity with its quotas. Raises Refused, ZooKeeperError."""
        requested = _by_type(components)
        if IP in requested and len(requested) > 1:
            raise Refused(
                KafkaError.invalid_request,
                "Invalid entity filter component combination, IP filter component should not be used with "
                "user or clientId filter component.",
            )
        found = []
        if IP not in requested:
            found += [row for row in await self._users_and_clients() if _matches(row[0], requested, strict)]
        if IP in requested or (not requested and not strict):
            found += [row for row in await self._entities("ips", IP, _IP_KEYS) if _matches(row[0], requested, strict)]
        return [(entity, values) for entity, values in found if values]

    async def _users_and_clients(self) -> list[tuple[Entity, dict[str, float]]]:
        found = await self._entities("users", USER, _USER_KEYS)
        found += await self._entities("clients", CLIENT, _USER_KEYS)
        for user in await self._znodes.names("users"):
            for entity, values in await self._entities(f"users/{user}/clients", CLIENT, _USER_KEYS):
                found.append((((USER, _name(user)), *entity), values))
        return found

    async def _entities(
        self, kind: str, entity_type: str, keys: Mapping[str, ConfigKey]
    ) -> list[tuple[Entity, dict[str, float]]]:
        found: list[tuple[Entity, dict[str, float]]] = []
        # Sort named entities before the default entity.
        for node in sorted(await self._znodes.names(kind), key=lambda node: (node == DEFAULT_ENTITY, node)):
            overrides, _ = await self._znodes.read(f"{kind}/{node}")
            values = {}
            for key in keys:
                # Ignore values that are not numbers: they were written into the znode directly.
                with suppress(ValueError):
                    if key in overrides:
                        values[key] = float(overrides[key])
            found.append((((entity_type, _name(node)),), values))
        return found

    # ---- alter ------------------------------------------------------------------------------------------------

    async def alter(self, entity: Entity, changes: Sequence[QuotaChange], validate_only: bool) -> QuotaResult:
        """Set and remove quotas of one entity."""
        try:
            path, keys = _path(entity)
            address = dict(entity).get(IP)
            if address is not None and self._resolve(address) is None:
                raise Refused(KafkaError.invalid_request, f"{address} is not a valid IP or resolvable host.")
            while True:
                overrides, version = await self._znodes.read(path)
                for change in changes:
                    _apply(overrides, change, keys)
                # Validate keys in the order of their definition, like ConfigDef.parse, so that the error is about the
                # same value as in Kafka.
                for name, key in keys.items():
                    if name in overrides:
                        key.parse(overrides[name])
                if validate_only or await self._put(path, overrides, version):
                    return QuotaResult(entity)
        except Refused as refused:
            return QuotaResult(entity, refused.error, refused.message)
        except ConfigError as wrong:
            return QuotaResult(entity, KafkaError.invalid_config, str(wrong))
        except ZooKeeperError as failure:
            return QuotaResult(entity, KafkaError.unknown_server_error, str(failure))

    async def _put(self, path: str, overrides: Mapping[str, str], version: int) -> bool:
        """Write quotas to a znode.

        If there are none left and the znode has no children, remove the znode and its empty parents.
        """
        if overrides:
            return await self._znodes.write(path, overrides, version)
        return await self._znodes.clear(path, version)


def _by_type(components: Sequence[Component]) -> dict[str, Component]:
    requested: dict[str, Component] = {}
    for component in components:
        # Kafka's request handler fails on other match types.
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise Refused(KafkaError.unknown_server_error, f"Unexpected match type: {component.match_type}")
        if component.match_type == EXACT and component.name is None:
            raise Refused(KafkaError.unknown_server_error, "An exact match needs a name.")
    for component in components:
        kind = component.entity_type
        if not kind:
            raise Refused(KafkaError.invalid_request, "Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT, IP):
            raise Refused(KafkaError.unsupported_version, f"Custom entity type '{kind}' not supported")
        if kind in requested:
            what = "client" if kind == CLIENT else kind
            raise Refused(KafkaError.invalid_request, f"Duplicate {what} filter component entity type")
        requested[kind] = component
    return requested


def _matches(entity: Entity, requested: Mapping[str, Component], strict: bool) -> bool:
    parts = dict(entity)
    if strict and parts.keys() != requested.keys():
        return False
    for kind, component in requested.items():
        if kind not in parts:
            return False
        name = parts[kind]
        if component.match_type == EXACT and name != component.name:
            return False
        if component.match_type == DEFAULT and name is not None:
            return False
    return True


def _path(entity: Entity) -> tuple[str, Mapping[str, ConfigKey]]:
    """Return an entity's znode path below /config, and the keys that are allowed there. Raises Refused."""
    if not entity:
        raise Refused(KafkaError.invalid_request, "Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT, IP):
            raise Refused(KafkaError.invalid_request, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise Refused(KafkaError.invalid_request, f"Empty {kind} not supported")
    parts = dict(entity)
    if IP in parts:
        if len(parts) > 1:
            raise Refused(
                KafkaError.invalid_request,
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
            )
        return f"ips/{node_name(parts[IP])}", _IP_KEYS
    if USER not in parts:
        return f"clients/{node_name(parts[CLIENT])}", _USER_KEYS
    if CLIENT not in parts:
        return f"users/{node_name(parts[USER])}", _USER_KEYS
    return f"users/{node_name(parts[USER])}/clients/{node_name(parts[CLIENT])}", _USER_KEYS


def _apply(overrides: dict[str, str], change: QuotaChange, keys: Mapping[str, ConfigKey]) -> None:
    if change.value is None:
        overrides.pop(change.key, None)
        return
    key = keys.get(change.key)
    if key is None:
        raise Refused(KafkaError.invalid_request, f"Invalid configuration key {change.key}")
    if key.type is ConfigType.DOUBLE:
        overrides[change.key] = render(change.value)
        return
    whole = trunc(change.value + _EPSILON) if abs(change.value) < 2**63 else 2**63 - 1
    if isinf(change.value) or abs(whole - change.value) > _EPSILON * max(1.0, abs(change.value)):
        raise Refused(KafkaError.invalid_request, f"Configuration {change.key} must be a {key.type.name} value")
    overrides[change.key] = str(whole)
