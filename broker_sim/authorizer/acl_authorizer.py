"""The authorizer of a broker: its ACLs, and its decisions about requests.

A broker has one if `authorizer.class.name` is set. Otherwise, every request is allowed without any check.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.authorizer.acl_store import AclStore, Entries
from zabka.broker_sim.authorizer.decisions import AclIndex, Requester
from zabka.broker_sim.authorizer.denials import Denial, Denials
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS, read_super_users
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.refusals import Refused
from zabka.broker_sim.request_context import RequestContext
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.ports import Runtime
from zabka.kafka.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    ResourcePattern,
    ResourceType,
    pascal,
)
from zabka.kafka.ports import Emit
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.kafka.zk.coordination import Zk


class Deletion(NamedTuple):
    """A binding that a filter selected for deletion, and the reason if it was not deleted."""

    binding: AclBinding
    refused: Refused | None


class Authorizer:
    """Decides about requests, and changes the stored ACLs."""

    def __init__(self, config: KafkaConfig, zk: Zk, runtime: Runtime, emit: Emit, log_line: Callable[[str], None]):
        self.index = AclIndex(
            read_super_users(config.text("super.users")), config.flag("allow.everyone.if.no.acl.found")
        )
        self._store = AclStore(zk, runtime, self.index.assign, log_line)
        self._denials = Denials(runtime, emit, config.broker_id)
        self.protocols = {listener.name: listener.protocol for listener in config.listeners}
        """Security protocols of the listeners, keyed by name."""

    # ---- lifecycle --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read all ACLs. Raises ZooKeeperError."""
        await self._store.start()

    def reload_later(self) -> None:
        """Read all ACLs again, because a new ZooKeeper session has begun."""
        self._store.reload_later()

    def follow(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that applies changes of the ACLs, until cancelled."""
        return self._store.follow()

    # ---- decisions --------------------------------------------------------------------------------------------

    def access(self, context: RequestContext, api: ApiKey) -> Access:
        """Return the permissions of the client that sent a request."""
        return Access(self, Requester(context.principal, _java_address(context.client_host)), api, context)

    def note_denial(self, denial: Denial) -> None:
        """Record that a request was denied."""
        self._denials.note(denial)

    # ---- changes ----------------------------------------------------------------------------------------------

    def describe(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """Yield the bindings that a filter selects, as this broker knows them."""
        return (binding for binding in self.index.bindings() if wanted.matches(binding))

    async def create(self, bindings: Sequence[AclBinding]) -> list[Refused | None]:
        """Add bindings. Return the reason for each binding that was not added (AclAuthorizer.createAcls)."""
        results: list[Refused | None] = [_invalid(binding) for binding in bindings]
        by_pattern: dict[ResourcePattern, list[int]] = {}
        for number, binding in enumerate(bindings):
            if results[number] is None:
                by_pattern.setdefault(binding.pattern, []).append(number)
        for pattern, numbers in by_pattern.items():
            added = [bindings[number].entry for number in numbers]
            refused = await self._add(pattern, added)
            for number in numbers:
                results[number] = refused
        return results

    async def _add(self, pattern: ResourcePattern, added: Sequence[AclEntry]) -> Refused | None:
        if any(":" not in entry.principal for entry in added):
            # As in Kafka, this error has no message, and no entry of the pattern is added.
            return Refused(KafkaError.unknown_server_error, "")
        return await self._update(pattern, lambda known: tuple(dict.fromkeys((*known, *added))))

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Deletion]]:
        """Delete the bindings that the filters select (AclAuthorizer.deleteAcls).

        Return the selected bindings of each filter. A binding that several filters select belongs to the first of them.
        """
        patterns = dict.fromkeys(self.index.patterns())
        for wanted in filters:
            patterns.update(dict.fromkeys(wanted.pattern.exact()))
        results: list[list[Deletion]] = [[] for _ in filters]
        for pattern in patterns:
            numbers = [number for number, wanted in enumerate(filters) if wanted.pattern.matches(pattern)]
            if numbers:
                removal = _Removal(filters, numbers)
                refused = await self._update(pattern, removal.apply)
                for entry, number in removal.removed.items():
                    results[number].append(Deletion(AclBinding(pattern, entry), refused))
        return results

    async def _update(self, pattern: ResourcePattern, change: Callable[[Entries], Entries]) -> Refused | None:
        try:
            await self._store.update(pattern, change)
        except Refused as refused:
            return refused
        except ZooKeeperError as failure:
            return Refused(KafkaError.unknown_server_error, str(failure))
        return None


class _Removal:
    """Removes the entries that filters select, and stores which filter selected each entry."""

    def __init__(self, filters: Sequence[AclFilter], numbers: Sequence[int]) -> None:
        self._filters = filters
        self._numbers = numbers
        self.removed: dict[AclEntry, int] = {}

    def apply(self, known: Entries) -> Entries:
        """Return the entries that no filter selects."""
        self.removed = {}
        for entry in known:
            number = next((n for n in self._numbers if self._filters[n].entry.matches(entry)), None)
            if number is not None:
                self.removed[entry] = number
        return tuple(entry for entry in known if entry not in self.removed)


class Access:
    """The permissions of the client that sent one request."""

    __slots__ = ("_api", "_authorizer", "_context", "requester")

    def __init__(self, authorizer: Authorizer, requester: Requester, api: ApiKey, context: RequestContext) -> None:
        self._authorizer = authorizer
        self.requester = requester
        self._api = api
        self._context = context

    def kafkas_refusal(self) -> str:
        """Return the message of Kafka's ClusterAuthorizationException (AuthHelper.authorizeClusterOperation)."""
        context = self._context
        parts = {
            "processor": 0,
            "connectionId": f"{context.addresses}-{context.connection}",
            "session": f"Session({context.principal},{context.client_host})",
            "listenerName": f"ListenerName({context.listener})",
            "securityProtocol": self._authorizer.protocols.get(context.listener, ""),
            "buffer": "null",
            "envelope": "None",
        }
        shown = ", ".join(f"{name}={value}" for name, value in parts.items())
        return f"Request Request({shown}) is not authorized."

    def allows(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        is_noted: bool = True,
    ) -> bool:
        """Return whether the client is allowed to execute the operation.

        A denial is recorded unless `is_noted` is false, which is for operations that the client did not request.
        """
        allowed = self._authorizer.index.allows(self.requester, operation, resource_type, name)
        if not allowed and is_noted:
            self.note(operation, resource_type, name)
        return allowed

    def note(
        self,
        operation: AclOperation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> None:
        """Record that the client was denied an operation that it requested."""
        self._authorizer.note_denial(
            Denial(
                request=self._api.name,
                principal=str(self.requester.principal),
                host=self.requester.host,
                operation=pascal(operation),
                resource_type=pascal(resource_type),
                resource_name=name,
                client_id=self._context.client_id,
            )
        )

    def allows_cluster(self, operation: AclOperation, *, is_noted: bool = True) -> bool:
        """Return whether the client is allowed to execute the operation on the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_noted=is_noted)

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the client is allowed to execute the operation on any resource of that type."""
        return self._authorizer.index.allows_any(self.requester, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return a bit field of the allowed operations on a resource, one bit per code (KIP-430)."""
        index = self._authorizer.index
        supported = SUPPORTED_OPERATIONS[resource_type]
        return sum(1 << each for each in supported if index.allows(self.requester, each, resource_type, name))


def _invalid(binding: AclBinding) -> Refused | None:
    """Return why a binding cannot be created, or None (AclAuthorizer.validateAclBinding)."""
    codes = (*binding.pattern, *binding.entry)
    is_unknown = any(not isinstance(code, str) and code == 0 for code in codes)
    is_wrong = is_unknown or "/" in binding.pattern.name
    return Refused(KafkaError.invalid_request, "Failed to create ACL") if is_wrong else None


@lru_cache(4_096)
def _java_address(client_host: str) -> str:
    """Return a client's address in Java's format (InetAddress.getHostAddress), in which ACLs contain hosts."""
    address = client_host.removeprefix("/")
    if ":" not in address:
        return address
    plain, percent, scope = address.partition("%")
    groups = (format(int(group, 16), "x") for group in ip_address(plain).exploded.split(":"))
    return ":".join(groups) + percent + scope


def authorizer_of(
    config: KafkaConfig, zk: Zk, runtime: Runtime, emit: Emit, log_line: Callable[[str], None]
) -> Authorizer | None:
    """Return the authorizer that `authorizer.class.name` selects, or None."""
    if config.text("authorizer.class.name") != AUTHORIZER_CLASS:
        return None
    return Authorizer(config, zk, runtime, emit, log_line)
