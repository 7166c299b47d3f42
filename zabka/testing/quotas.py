"""The quotas of users, client ids and IP addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from zabka.ensemble.ports import Runtime
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client import ATTEMPT_MS_MAX
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.testing.cluster import Broker, ClusterFailed, Happening

T = TypeVar("T")

APPLY_TIMEOUT_S = 30.0
_DEFAULT = "<default>"


class _Host(Protocol):
    """The methods of a cluster that `Quotas` needs."""

    @property
    def brokers(self) -> Mapping[int, Broker]: ...

    @property
    def now_us(self) -> int: ...

    def call(self, work: Callable[[AdminClient, Runtime], Coroutine[Any, Any, T]]) -> T: ...

    def events(self, *types: str, after_us: int | None = None) -> list[Happening]: ...

    def until(self, condition: Callable[[], bool], timeout_s: float = ..., what: str = ...) -> bool: ...


class Quota(NamedTuple):
    """Quotas of one entity: a user, a client id or an IP address.

    The name "" is the default of all entities of that kind.
    """

    user: str | None
    client_id: str | None
    ip: str | None
    values: Mapping[str, float]


class Quotas:
    """The quotas of a cluster."""

    def __init__(self, host: _Host) -> None:
        self._host = host

    def all(self) -> list[Quota]:
        """Return the quotas of all entities."""
        asked = request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
        answer = self._ask(asked)
        if answer.error_code:
            raise ClusterFailed(f"the quotas cannot be read: {answer.error_message}")
        return [_quota(row) for row in answer.entries or ()]

    def set(
        self,
        values: Mapping[str, float | None],
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
    ) -> None:
        """Set quotas such as producer_byte_rate (bytes/s), or remove those that are None, and wait for all brokers.

        The name "" is the default of all users, client ids or IP addresses. Raises ClusterFailed if the quotas are
        rejected.
        """
        entity = {
            kind: name for kind, name in (("user", user), ("client-id", client_id), ("ip", ip)) if name is not None
        }
        before = {quota[:3]: dict(quota.values) for quota in self.all()}.get((user, client_id, ip), {})
        after = {key: value for key, value in {**before, **values}.items() if value is not None}
        if before == after:
            return
        rows = [{"entity_type": kind, "entity_name": name or None} for kind, name in entity.items()]
        ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
        asked = request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": rows, "ops": ops}], validate_only=False)
        began_us = self._host.now_us
        (row,) = self._ask(asked).entries
        if row.error_code:
            raise ClusterFailed(f"the quotas of {entity} are refused: {row.error_message}")
        path = "/".join(f"{_KINDS[kind]}/{quote(name, safe='') or _DEFAULT}" for kind, name in entity.items())
        self._host.until(lambda: self._apply(path, began_us), APPLY_TIMEOUT_S, f"quotas of {path} at all brokers")

    def _apply(self, path: str, since_us: int) -> bool:
        changed = {e["node"] for e in self._host.events("config_changed", after_us=since_us) if e["entity"] == path}
        running = {broker.name for broker in self._host.brokers.values() if broker.process == "running"}
        assert running <= changed, f"not applied yet by {sorted(running - changed)}"
        return True

    def _ask(self, message: KafkaMessage) -> KafkaMessage:
        return self._host.call(lambda client, _: client.any_broker(message, ATTEMPT_MS_MAX))


_KINDS = {"user": "users", "client-id": "clients", "ip": "ips"}


def _quota(row: KafkaMessage) -> Quota:
    names = {str(part.entity_type): part.entity_name or "" for part in row.entity}
    values = {str(each.key): float(each.value) for each in row.values}
    return Quota(names.get("user"), names.get("client-id"), names.get("ip"), values)
