"""The znodes of ACLs, and a broker's copy of them (AclAuthorizer, ZkNodeChangeNotificationListener).

Every broker has a copy of all entries. A broker that changes the entries of a resource pattern also creates a change
notification, in the same transaction. The other brokers then read the pattern again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.change_follower import ChangeFollower
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.client.service import Create, Delete, Op, SetData
from zabka.ensemble.errors import ErrorCode, error_for
from zabka.ensemble.ports import Runtime
from zabka.kafka.acls import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    pascal,
)
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import ZNODE_BYTES_MAX

CHANGE_KEPT_MS = 15 * 60 * 1000
"""Age after which a broker removes change notifications (ZkNodeChangeNotificationListener)."""
DENY_ALL = AclEntry("User:*", "*", AclOperation.ALL, Permission.DENY)
"""Entry of a resource whose entries cannot be read. It is not stored."""
UPDATE_RETRIES_MAX = 10
RETRY_BACKOFF_MS, RETRY_JITTER_MS = 100, 50
"""Delay before an update that conflicted with another one is attempted again (AclAuthorizer.backoffTime)."""
_CHANGED_MEANWHILE = (ErrorCode.BAD_VERSION, ErrorCode.NODE_EXISTS, ErrorCode.NO_NODE)

Entries = tuple[AclEntry, ...]
Assign = Callable[[ResourcePattern, Entries], None]
"""Called with a resource pattern and all its entries; without entries, the pattern was deleted."""
Change = Callable[[Entries], Entries]
"""Function that returns the new entries of a pattern, given the current ones."""


class _Stored(NamedTuple):
    entries: Entries
    version: int
    """Version of the znode, or -1 if it does not exist."""


class AclStore(ChangeFollower):
    """Reads, writes and follows the znodes of ACLs. `log_line` reports znodes that cannot be decoded."""

    def __init__(self, zk: Zk, runtime: Runtime, assign: Assign, log_line: Callable[[str], None]) -> None:
        super().__init__(runtime)
        self._zk = zk
        self._assign = assign
        self._log_line = log_line
        self._known: dict[ResourcePattern, None] = {}
        self._last_change: dict[PatternType, str] = dict.fromkeys(PATTERN_TYPES, "")

    # ---- reading ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Create the paths of ACLs, and read all entries. Raises ZooKeeperError."""
        service = self._zk.service
        outcomes = await self._zk.batch(
            [lambda path=path: service.create(path, None) for path in znodes.ACL_PATHS]  # type: ignore[misc]
        )
        for path, outcome in zip(znodes.ACL_PATHS, outcomes, strict=True):
            if outcome.error not in (ErrorCode.OK, ErrorCode.NODE_EXISTS):
                raise error_for(outcome.error, path)
        await self.load()

    async def load(self) -> None:
        """Read all entries. Raises ZooKeeperError."""
        self._reload = False
        # Set the watches first, so that changes during the read cause another read.
        changes = {kind: await self._changes(kind) for kind in PATTERN_TYPES}
        patterns = [
            ResourcePattern(resource_type, name, kind)
            for kind in PATTERN_TYPES
            for resource_type in RESOURCE_TYPES
            for name in await self._children(f"{znodes.ACL_ROOTS[kind]}/{pascal(resource_type)}")
        ]
        present = set(patterns)
        gone = [pattern for pattern in self._known if pattern not in present]
        await self._read([*patterns, *gone])
        for kind, found in changes.items():
            self._last_change[kind] = max([self._last_change[kind], *found])

    async def _children(self, path: str) -> list[str]:
        service = self._zk.service
        outcome = await self._zk.attempt(lambda: service.get_children(path))
        if outcome.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
            raise error_for(outcome.error, path)
        return sorted(outcome.value or ())

    async def _changes(self, kind: PatternType) -> list[str]:
        """Return the names of the change notifications, in order, and set a watch."""
        service, path = self._zk.service, znodes.acl_changes_path(kind)
        children = await self._zk.call(lambda: service.get_children(path, self._on_change))
        return sorted(child for child in children if child.startswith(znodes.ACL_CHANGE_PREFIX))

    async def _read(self, patterns: list[ResourcePattern]) -> None:
        service = self._zk.service
        paths = [znodes.acl_path(pattern) for pattern in patterns]
        outcomes = await self._zk.batch([lambda path=path: service.get(path) for path in paths])  # type: ignore[misc]
        for pattern, path, outcome in zip(patterns, paths, outcomes, strict=True):
            if outcome.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
                raise error_for(outcome.error, path)
            entries = znodes.decode_acls(outcome.value[0]) if outcome.value is not None else ()
            if entries is None:
                # Access must not change because of a damaged znode, and a broker that knows no entries must not ignore
                # entries that deny access.
                if pattern in self._known:
                    self._log_line(f"cannot decode the ACLs in {path}; the entries known before remain in effect")
                else:
                    self._log_line(f"cannot decode the ACLs in {path}; all access to this resource is denied")
                    self._take_over(pattern, (DENY_ALL,))
            else:
                self._take_over(pattern, entries)

    def _take_over(self, pattern: ResourcePattern, entries: Entries) -> None:
        if entries:
            self._known[pattern] = None
        else:
            self._known.pop(pattern, None)
        self._assign(pattern, entries)

    # ---- writing ----------------------------------------------------------------------------------------------

    async def update(self, pattern: ResourcePattern, change: Change) -> None:
        """Replace the entries of a pattern by the result of `change`, and notify all brokers.

        If another broker changes the pattern meanwhile, `change` is called again with the new entries. Raises Refused
        and ZooKeeperError.
        """
        for _ in range(UPDATE_RETRIES_MAX + 1):
            stored = await self._stored(pattern)
            entries = change(stored.entries)
            if set(entries) == set(stored.entries) or await self._write(pattern, entries, stored.version):
                self._take_over(pattern, entries)
                return
            jitter_ms = self._runtime.random.getrandbits(16) % RETRY_JITTER_MS
            await self._runtime.sleep(RETRY_BACKOFF_MS + jitter_ms)
        message = f"Failed to update ACLs for {pattern.name} after trying a maximum of {UPDATE_RETRIES_MAX} times"
        raise Refused(KafkaError.unknown_server_error, message)

    async def _stored(self, pattern: ResourcePattern) -> _Stored:
        service, path = self._zk.service, znodes.acl_path(pattern)
        outcome = await self._zk.attempt(lambda: service.get(path))
        if outcome.error is ErrorCode.NO_NODE:
            return _Stored((), -1)
        if outcome.value is None:
            raise error_for(outcome.error, path)
        data, stat = outcome.value
        entries = znodes.decode_acls(data)
        if entries is None:
            raise Refused(KafkaError.unknown_server_error, f"The ACLs in {path} cannot be decoded.")
        return _Stored(entries, stat.version)

    async def _write(self, pattern: ResourcePattern, entries: Entries, version: int) -> bool:
        """Write the entries if the znode has this version, with a notification. Return False on a version conflict.

        Kafka writes the notification after that transaction. If a broker fails in between, no broker is notified.
        """
        service, path = self._zk.service, znodes.acl_path(pattern)
        data = znodes.encode_acls(entries)
        if len(data) > ZNODE_BYTES_MAX:
            raise Refused(KafkaError.invalid_request, f"The ACLs of one resource exceed {ZNODE_BYTES_MAX} bytes.")
        write: Op
        if not entries:
            write = Delete(path, version)
        else:
            write = Create(path, data) if version < 0 else SetData(path, data, version)
        notice = f"{znodes.acl_changes_path(pattern.pattern_type)}/{znodes.ACL_CHANGE_PREFIX}"
        ops = [write, Create(notice, znodes.encode_acl_change(pattern), sequential=True)]
        results = await self._zk.call(lambda: service.multi(ops))
        if results[0].error in _CHANGED_MEANWHILE:
            return False
        failed = next((result.error for result in results if result.error is not ErrorCode.OK), None)
        if failed is not None:
            raise error_for(failed, path)
        return True

    # ---- following --------------------------------------------------------------------------------------------

    async def _process_changes(self) -> None:
        for kind in PATTERN_TYPES:
            await self._process_changes_of(kind)

    async def _process_changes_of(self, kind: PatternType) -> None:
        zk, service = self._zk, self._zk.service
        changes = await self._changes(kind)
        if not changes or changes[-1] <= self._last_change[kind]:
            return
        parent = znodes.acl_changes_path(kind)
        paths = [f"{parent}/{change}" for change in changes]
        outcomes = await zk.batch([lambda path=path: service.get(path) for path in paths])  # type: ignore[misc]
        patterns: dict[ResourcePattern, None] = {}
        expired = []
        oldest_ms = self._runtime.now().wall_ms - CHANGE_KEPT_MS
        for change, path, outcome in zip(changes, paths, outcomes, strict=True):
            if outcome.value is None:
                continue
            data, stat = outcome.value
            if change > self._last_change[kind]:
                pattern = znodes.decode_acl_change(data, kind is not PatternType.LITERAL)
                if pattern is not None:
                    patterns[pattern] = None
            elif stat.ctime < oldest_ms:
                expired.append(path)
        await self._read(list(patterns))
        self._last_change[kind] = changes[-1]
        for path in expired:
            await zk.attempt(lambda path=path: service.delete(path))  # type: ignore[misc]
