"""In-memory coordination service with ZooKeeper's semantics, and sessions that can expire.

A request takes LATENCY_US each way on the simulation's scheduler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any

from tests.virtual_time.runtime import SimRuntime
from zabka.ensemble.client.service import (
    Check,
    Create,
    Delete,
    Op,
    OpResult,
    SessionState,
    SetData,
    StateListener,
    Watcher,
    WatchEvent,
)
from zabka.ensemble.errors import ConnectionLoss, ErrorCode, NoNode, SessionExpired, ZooKeeperError, error_for
from zabka.ensemble.ids import SessionId
from zabka.ensemble.records import EventType, Stat

LATENCY_US = 1_000


class Znode:
    def __init__(self, data: bytes | None, zxid: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = 0
        self.version = self.cversion = 0
        self.owner = owner
        self.children: set[str] = set()

    def copy(self) -> Znode:
        made = copy(self)
        made.children = set(self.children)
        return made

    def stat(self) -> Stat:
        size = len(self.data or b"")
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=self.ctime_ms,
            mtime=self.mtime_ms,
            version=self.version,
            cversion=self.cversion,
            aversion=0,
            ephemeral_owner=self.owner,
            data_length=size,
            num_children=len(self.children),
            pzxid=self.pzxid,
        )


class FakeEnsemble:
    """The znode tree of the fake service. Each write gets its own zxid."""

    def __init__(self) -> None:
        self.zxid = 0x100000000
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0)}
        self.sessions: dict[int, FakeSession] = {}
        self.next_session = 0x1000
        self.unreadable: dict[str, ErrorCode] = {}
        """Errors that reads of a znode's data return, keyed by path."""
        self.unwritable: dict[str, ErrorCode] = {}

    # -- operations

    def apply(self, op: Op, session: int, fired: list[tuple[str, EventType]]) -> OpResult:
        if op.path in self.unwritable and not isinstance(op, Check):
            return OpResult(self.unwritable[op.path])
        if isinstance(op, Check):
            node = self.nodes.get(op.path)
            if node is None:
                return OpResult(ErrorCode.NO_NODE)
            return OpResult(ErrorCode.OK if node.version == op.version else ErrorCode.BAD_VERSION)
        if isinstance(op, Create):
            return self._create(op, session, fired)
        node = self.nodes.get(op.path)
        if node is None:
            return OpResult(ErrorCode.NO_NODE)
        if op.version not in (-1, node.version):
            return OpResult(ErrorCode.BAD_VERSION)
        if isinstance(op, SetData):
            node.data, node.version, node.mzxid = op.data, node.version + 1, self.zxid
            fired.append((op.path, EventType.DATA_CHANGED))
            return OpResult(ErrorCode.OK, None, node.stat())
        if node.children:
            return OpResult(ErrorCode.NOT_EMPTY)
        self._remove(op.path, fired)
        return OpResult(ErrorCode.OK)

    def _create(self, op: Create, session: int, fired: list[tuple[str, EventType]]) -> OpResult:
        parent_path, _, name = op.path.rpartition("/")
        parent = self.nodes.get(parent_path or "/")
        if parent is None:
            return OpResult(ErrorCode.NO_NODE)
        path = op.path
        if op.sequential:
            path, name = f"{path}{parent.cversion:010d}", f"{name}{parent.cversion:010d}"
        if path in self.nodes:
            return OpResult(ErrorCode.NODE_EXISTS)
        self.nodes[path] = Znode(op.data, self.zxid, session if op.ephemeral else 0)
        parent.children.add(name)
        parent.cversion += 1
        parent.pzxid = self.zxid
        fired += [(path, EventType.CREATED), (parent_path or "/", EventType.CHILDREN_CHANGED)]
        return OpResult(ErrorCode.OK, path, self.nodes[path].stat())

    def _remove(self, path: str, fired: list[tuple[str, EventType]]) -> None:
        parent_path, _, name = path.rpartition("/")
        del self.nodes[path]
        parent = self.nodes[parent_path or "/"]
        parent.children.discard(name)
        parent.cversion += 1
        parent.pzxid = self.zxid
        fired += [(path, EventType.DELETED), (parent_path or "/", EventType.CHILDREN_CHANGED)]

    def multi(self, ops: Sequence[Op], session: int) -> list[OpResult]:
        """Apply all operations, or none if one of them fails."""
        self.zxid += 1
        touched = {path for op in ops for path in (op.path, op.path.rpartition("/")[0] or "/")}
        kept = {path: self.nodes[path].copy() for path in touched if path in self.nodes}
        fired: list[tuple[str, EventType]] = []
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            result = self.apply(op, session, fired)
            if result.error is not ErrorCode.OK:
                for path in touched:
                    self.nodes.pop(path, None)
                self.nodes.update(kept)
                after = len(ops) - index - 1
                return [OpResult(ErrorCode.OK)] * index + [result] + [OpResult(ErrorCode.RUNTIME_INCONSISTENCY)] * after
            results.append(result)
        self.fire(fired)
        return results

    def fire(self, fired: Sequence[tuple[str, EventType]]) -> None:
        for path, kind in fired:
            for session in list(self.sessions.values()):
                session.fire(path, kind)

    def end_session(self, session_id: int) -> None:
        """End a session, and delete its ephemeral znodes in one transaction."""
        self.zxid += 1
        fired: list[tuple[str, EventType]] = []
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session_id):
            self._remove(path, fired)
        ended = self.sessions.pop(session_id, None)
        self.fire(fired)
        if ended is not None:
            ended.expire()

    # -- writes by the tests, immediate and without a session

    def put(self, path: str, data: bytes | None = None, *, owner: int = 0) -> Stat:
        """Create or set a znode. Create its missing parents."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.put(parent)
        if path in self.nodes:
            result = self.multi([SetData(path, data)], owner)[0]
        else:
            result = self.multi([Create(path, data, ephemeral=bool(owner))], owner)[0]
        assert result.stat is not None
        return result.stat

    def delete(self, path: str) -> None:
        for child in sorted(self.nodes[path].children):
            self.delete(f"{path}/{child}")
        self.multi([Delete(path)], 0)

    def data(self, path: str) -> bytes:
        return self.nodes[path].data or b""


class FakeSession:
    """`CoordinationService` with which one node uses the fake ensemble."""

    def __init__(self, ensemble: FakeEnsemble, runtime: SimRuntime) -> None:
        self.ensemble = ensemble
        self.runtime = runtime
        self.state = SessionState.CLOSED
        self.session_id = SessionId(0)
        self.hold_watches = False
        self.sends_zxid = True
        """Whether watch events contain the zxid. It is missing after a reconnection, and from servers before 3.9."""
        self.lose_replies = 0
        """Number of next replies to lose. Their requests are applied nevertheless."""
        self.lose_requests = 0
        self.lose_reply_to: Callable[[Sequence[Op]], bool] = lambda ops: False
        self.multis: list[list[Op]] = []
        self.in_flight = self.in_flight_max = 0
        self._listeners: list[StateListener] = []
        self._watchers: dict[tuple[str, str], dict[Watcher, None]] = {}
        self._held: list[tuple[Watcher, WatchEvent]] = []
        self._pending: list[Any] = []

    def open(self) -> None:
        self.session_id = SessionId(self.ensemble.next_session)
        self.ensemble.next_session += 1
        self.ensemble.sessions[self.session_id] = self
        self._set(SessionState.CONNECTED)

    async def start(self) -> None:
        self.open()

    async def renew(self) -> None:
        await self.runtime.sleep(2)
        self.open()

    async def close(self) -> None:
        self._set(SessionState.CLOSED)
        self.ensemble.end_session(self.session_id)

    def add_listener(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    def _set(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    def expire(self) -> None:
        """Expire this session. The node is notified as soon as it runs."""
        session_id = self.session_id

        def learn() -> None:
            if self.session_id != session_id or self.state is SessionState.CLOSED:
                return
            pending, self._pending = self._pending, []
            for future in pending:
                if not future.done():
                    future.set_exception(SessionExpired())
            watchers, self._watchers = self._watchers, {}
            for (path, _), table in watchers.items():
                for watcher in table:
                    watcher(WatchEvent(EventType.NONE, path))
            self._set(SessionState.EXPIRED)

        self.runtime.scheduler.after(LATENCY_US, lambda: self.runtime.run(learn))

    # -- watches

    def _watch(self, kind: str, path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self._watchers.setdefault((path, kind), {})[watcher] = None

    def fire(self, path: str, event: EventType) -> None:
        kinds = ["child"] if event is EventType.CHILDREN_CHANGED else ["data"]
        if event is EventType.DELETED:
            kinds.append("child")
        found: dict[Watcher, None] = {}
        for kind in kinds:
            found.update(self._watchers.pop((path, kind), {}))
        for watcher in found:
            seen = WatchEvent(event, path, self.ensemble.zxid if self.sends_zxid else 0)
            if self.hold_watches:
                self._held.append((watcher, seen))
            else:
                self._notify(watcher, seen)

    def _notify(self, watcher: Watcher, seen: WatchEvent) -> None:
        self.runtime.scheduler.after(LATENCY_US, lambda: self.runtime.run(lambda: watcher(seen)))

    def release_watches(self) -> None:
        self.hold_watches = False
        held, self._held = self._held, []
        for watcher, seen in held:
            self._notify(watcher, seen)

    # -- requests

    def _request(self, run: Callable[[], Any], ops: Sequence[Op] = ()) -> Awaitable[Any]:
        future = self.runtime.future()
        session_id = self.session_id
        if session_id not in self.ensemble.sessions:
            future.set_exception(SessionExpired())
            return future
        self._pending.append(future)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)

        def arrive() -> None:
            result: Any = None
            error: ZooKeeperError | None = None
            lost = self._takes("lose_requests")
            if session_id not in self.ensemble.sessions:
                return
            if not lost:
                try:
                    result = run()
                except ZooKeeperError as raised:
                    error = raised
                lost = self._takes("lose_replies") or self.lose_reply_to(ops)
            if lost:
                error = ConnectionLoss()
            self.runtime.scheduler.after(LATENCY_US, lambda: self.runtime.run(lambda: answer(result, error)))

        def answer(result: Any, error: ZooKeeperError | None) -> None:
            self.in_flight -= 1
            if future in self._pending:
                self._pending.remove(future)
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.runtime.scheduler.after(LATENCY_US, arrive)
        return future

    def _takes(self, counter: str) -> bool:
        left: int = getattr(self, counter)
        setattr(self, counter, max(0, left - 1))
        return left > 0

    def _one(self, op: Op) -> OpResult:
        result = self.ensemble.multi([op], self.session_id)[0]
        if result.error is not ErrorCode.OK:
            raise error_for(result.error, op.path)
        return result

    def create(self, path: str, data: bytes | None = b"", **how: Any) -> Awaitable[tuple[str, Stat]]:
        def run() -> tuple[str, Stat]:
            result = self._one(Create(path, data, **how))
            assert result.path is not None and result.stat is not None
            return result.path, result.stat

        return self._request(run)

    async def create_chroot(self) -> None:
        return

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        def run() -> None:
            self._one(Delete(path, version))

        return self._request(run)

    def exists(self, path: str, watcher: Watcher | None = None) -> Awaitable[Stat | None]:
        def run() -> Stat | None:
            self._watch("data", path, watcher)
            node = self.ensemble.nodes.get(path)
            return node.stat() if node else None

        return self._request(run)

    def get(self, path: str, watcher: Watcher | None = None) -> Awaitable[tuple[bytes, Stat]]:
        def run() -> tuple[bytes, Stat]:
            node = self.ensemble.nodes.get(path)
            if path in self.ensemble.unreadable:
                raise error_for(self.ensemble.unreadable[path], path)
            if node is None:
                raise NoNode(path)
            self._watch("data", path, watcher)
            return node.data or b"", node.stat()

        return self._request(run)

    def set(self, path: str, data: bytes | None, version: int = -1) -> Awaitable[Stat]:
        return self._request(lambda: self._one(SetData(path, data, version)).stat)

    def get_children(self, path: str, watcher: Watcher | None = None) -> Awaitable[list[str]]:
        def run() -> list[str]:
            node = self.ensemble.nodes.get(path)
            if node is None:
                raise NoNode(path)
            self._watch("child", path, watcher)
            return sorted(node.children)

        return self._request(run)

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        kept = list(ops)
        self.multis.append(kept)
        return self._request(lambda: self.ensemble.multi(kept, self.session_id), kept)

    def sync(self, path: str) -> Awaitable[None]:
        return self._request(lambda: None)
