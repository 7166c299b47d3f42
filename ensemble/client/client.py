"""The ZooKeeper client: `CoordinationService` over a `Connector`, for brokers, controllers and tools.

It does I/O only through its ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from zabka.ensemble.client.hosts import parse_hosts
from zabka.ensemble.client.service import (
    Check,
    Connector,
    Create,
    Delete,
    GetData,
    Op,
    OpResult,
    Read,
    ReadResult,
    SessionState,
    SetData,
    StateListener,
    Watcher,
    WordAsker,
)
from zabka.ensemble.client.session import CLOSE_WAIT_MS, Session
from zabka.ensemble.client.watches import WatchKind
from zabka.ensemble.errors import ErrorCode, NodeExists, NoNode
from zabka.ensemble.ids import SessionId
from zabka.ensemble.ports import Future, Runtime
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    AddWatchMode,
    AddWatchRequest,
    CheckVersionRequest,
    Create2Response,
    CreateFlag,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    GetACLResponse,
    GetAllChildrenNumberResponse,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    MultiOp,
    MultiReadRequest,
    MultiRequest,
    MultiResponse,
    MultiResult,
    OpCode,
    PathRequest,
    PathWatchRequest,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
    Stat,
    StatResponse,
    WatcherType,
    WhoAmIResponse,
)


class Client:
    """A ZooKeeper session with the ensemble at `hosts` ("h1:2181,h2:2181/chroot").

    Every operation is sent when it is called, and returns a future for the reply; see `CoordinationService` for the
    errors. `session_timeout_ms` is the requested timeout, which the server may change to its own minimum or maximum.
    With `read_only`, the client also accepts a server without a leader (CONNECTED_READ_ONLY). Meanwhile it searches for
    a server with a leader, by four-letter words that `asker` sends. Raises ValueError for a bad `hosts`.
    """

    def __init__(
        self,
        hosts: str,
        connector: Connector,
        runtime: Runtime,
        *,
        session_timeout_ms: int = 10_000,
        name: str = "",
        read_only: bool = False,
        asker: WordAsker | None = None,
    ) -> None:
        servers, self._chroot = parse_hosts(hosts)
        self._session = Session(
            servers, connector, runtime, session_timeout_ms=session_timeout_ms, name=name, chroot=self._chroot,
            read_only=read_only, asker=asker,
        )  # fmt: skip

    # -- the session

    @property
    def session_id(self) -> SessionId:
        """The session's id; 0 without a session."""
        return self._session.session_id

    @property
    def state(self) -> SessionState:
        """State of the session."""
        return self._session.state

    @property
    def session_timeout_ms(self) -> int:
        """The negotiated timeout; without a session, the requested one."""
        return self._session.timeout_ms

    @property
    def last_zxid(self) -> int:
        """The highest zxid in any reply that this client received."""
        return self._session.last_zxid

    @property
    def server(self) -> str:
        """The server that the client is connected to, or tried last, as "host:port"."""
        return self._session.server

    @property
    def last_failure(self) -> str:
        """Reason why the last connection was lost or failed; empty if none was."""
        return self._session.last_failure

    def add_listener(self, listener: StateListener) -> None:
        """Call `listener` at every change of the session's state, before the client processes anything else."""
        self._session.add_listener(listener)

    def remove_listener(self, listener: StateListener) -> None:
        """Remove a listener added by `add_listener`."""
        self._session.remove_listener(listener)

    async def start(self) -> None:
        """Connect; return when the session exists. Try each host in turn, without a time limit."""
        self._session.open()
        await self._session.connected()

    async def renew(self) -> None:
        """Open a new session (new id) after expiry; return when it exists.

        Raises SessionExpired if this client was closed.
        """
        self._session.reopen()
        await self._session.connected()

    async def close(self, wait_ms: int = CLOSE_WAIT_MS) -> None:
        """Close the session (its ephemerals are deleted) and disconnect.

        If no server replies within `wait_ms`, only disconnect: the session then expires after its timeout.
        """
        await self._session.close(wait_ms)

    def add_auth(self, scheme: str, credential: bytes) -> Future[None]:
        """Authenticate this session, for example with ("digest", b"user:password")."""
        return self._session.add_auth(scheme, credential)

    # -- operations

    def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False,
        acl: Sequence[ACL] = OPEN_ACL,
    ) -> Future[tuple[str, Stat]]:  # fmt: skip
        """Create a znode (create2); return its path and its Stat."""
        body = CreateRequest(self._full(path), data, acl, _flags(ephemeral, sequential))
        return self._session.request(OpCode.CREATE2, body, path=path, convert=self._created)

    async def create_chroot(self) -> None:
        """Create the chroot's znode and its missing ancestors; does nothing without a chroot.

        Raises ZooKeeperError, for example NoAuth if this client cannot create a child of `/`.
        """
        if self._chroot:
            await self._create_above(self._chroot)

    async def _create_above(self, full: str) -> None:
        """Create the znode at this path, which includes the chroot; create its missing ancestors first."""
        body = CreateRequest(full, None, OPEN_ACL, _flags(False, False))
        with suppress(NodeExists):
            try:
                await self._session.request(OpCode.CREATE2, body, path=full)
            except NoNode:
                await self._create_above(full.rpartition("/")[0])
                await self._session.request(OpCode.CREATE2, body, path=full)

    def delete(self, path: str, version: int = -1) -> Future[None]:
        """Delete a znode; version -1 matches any version."""
        return self._session.request(OpCode.DELETE, DeleteRequest(self._full(path), version), path=path)

    def exists(self, path: str, watcher: Watcher | None = None) -> Future[Stat | None]:
        """Return the Stat, or None if there is no such znode; the watch is set in both cases."""
        return self._read(OpCode.EXISTS, WatchKind.EXISTS, path, watcher, _stat_or_none)

    def get(self, path: str, watcher: Watcher | None = None) -> Future[tuple[bytes, Stat]]:
        """Return the data (empty if null) and the Stat."""
        return self._read(OpCode.GET_DATA, WatchKind.DATA, path, watcher, _data)

    def set(self, path: str, data: bytes | None, version: int = -1) -> Future[Stat]:
        """Set the data; version -1 matches any version."""
        body = SetDataRequest(self._full(path), data, version)
        return self._session.request(OpCode.SET_DATA, body, path=path, convert=_stat)

    def get_children(self, path: str, watcher: Watcher | None = None) -> Future[list[str]]:
        """Return the names of the children, sorted."""
        return self._read(OpCode.GET_CHILDREN, WatchKind.CHILDREN, path, watcher, _children)

    def get_acl(self, path: str) -> Future[tuple[list[ACL], Stat]]:
        """Return a znode's access control list and its Stat."""
        return self._session.request(OpCode.GET_ACL, PathRequest(self._full(path)), path=path, convert=_acl)

    def set_acl(self, path: str, acl: Sequence[ACL], version: int = -1) -> Future[Stat]:
        """Set the access control list; `version` is the Stat's aversion, -1 is any."""
        body = SetACLRequest(self._full(path), acl, version)
        return self._session.request(OpCode.SET_ACL, body, path=path, convert=_stat)

    def multi(self, ops: Sequence[Op]) -> Future[list[OpResult]]:
        """Run all operations or none. A failed op is returned as a result; ConnectionLoss and SessionExpired are
        raised.
        """
        body = MultiRequest([self._multi_op(op) for op in ops])
        return self._session.request(OpCode.MULTI, body, convert=self._multi_results)

    def multi_read(self, reads: Sequence[Read]) -> Future[list[ReadResult]]:
        """Run several reads in one request; each returns its own result or error. No watch is set."""
        ops = [
            MultiOp(
                OpCode.GET_DATA if isinstance(read, GetData) else OpCode.GET_CHILDREN,
                PathWatchRequest(self._full(read.path), False),
            )
            for read in reads
        ]
        return self._session.request(OpCode.MULTI_READ, MultiReadRequest(ops), convert=_read_results)

    def create_container(
        self, path: str, data: bytes | None = b"", *, acl: Sequence[ACL] = OPEN_ACL
    ) -> Future[tuple[str, Stat]]:
        """Create a container: a znode that the ensemble deletes some time after its last child was deleted."""
        body = CreateRequest(self._full(path), data, acl, CreateFlag.CONTAINER)
        return self._session.request(OpCode.CREATE_CONTAINER, body, path=path, convert=self._created)

    def create_with_ttl(
        self, path: str, data: bytes | None = b"", *, ttl_ms: int, sequential: bool = False,
        acl: Sequence[ACL] = OPEN_ACL,
    ) -> Future[tuple[str, Stat]]:  # fmt: skip
        """Create a znode that is deleted when it has had no children and no change for `ttl_ms`.

        Raises Unimplemented if the servers lack `extendedTypesEnabled`.
        """
        flags = CreateFlag.PERSISTENT_SEQUENTIAL_WITH_TTL if sequential else CreateFlag.PERSISTENT_WITH_TTL
        body = CreateTTLRequest(self._full(path), data, acl, flags, ttl_ms)
        return self._session.request(OpCode.CREATE_TTL, body, path=path, convert=self._created)

    def add_watch(self, path: str, watcher: Watcher, *, recursive: bool = False) -> Future[None]:
        """Set a persistent watch on the znode and its children, or, with `recursive`, on its whole subtree.

        A recursive watch gets no CHILDREN_CHANGED events. The client sets the watch again after a reconnect; events in
        between are lost.
        """
        full = self._full(path)
        mode = AddWatchMode.PERSISTENT_RECURSIVE if recursive else AddWatchMode.PERSISTENT
        kind = WatchKind.RECURSIVE if recursive else WatchKind.PERSISTENT
        return self._session.request(
            OpCode.ADD_WATCH, AddWatchRequest(full, mode), path=path, convert=_nothing, watch=(kind, full, watcher)
        )

    def remove_watches(
        self, path: str, watcher: Watcher | None = None, kind: WatcherType = WatcherType.ANY
    ) -> Future[None]:
        """Remove one watcher from a path, or every watcher if `watcher` is None.

        Each removed watcher gets a WATCH_REMOVED event for its kind. Raises NoWatcher if there was no watcher to
        remove.
        """
        return self._session.unwatch(kind, self._full(path), watcher)

    def get_ephemerals(self, prefix: str = "/") -> Future[list[str]]:
        """Return the paths of this session's ephemerals that begin with `prefix`, sorted."""
        full = f"{self._chroot}/" if self._chroot and prefix == "/" else self._chroot + prefix
        return self._session.request(OpCode.GET_EPHEMERALS, PathRequest(full), path=prefix, convert=self._ephemerals)

    def get_all_children_number(self, path: str) -> Future[int]:
        """Return the number of znodes below this one, at any depth."""
        body = PathRequest(self._full(path))
        return self._session.request(OpCode.GET_ALL_CHILDREN_NUMBER, body, path=path, convert=_total)

    def who_am_i(self) -> Future[list[tuple[str, str]]]:
        """Return the identities that this connection has proved, as (scheme, user); never a password."""
        return self._session.request(OpCode.WHO_AM_I, EmptyRequest(), convert=_identities)

    def sync(self, path: str) -> Future[None]:
        """Wait until this session's server has applied everything that was committed before this call."""
        return self._session.request(OpCode.SYNC, PathRequest(self._full(path)), path=path, convert=lambda _: None)

    def reconfig(
        self,
        *,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        from_version: int = -1,
    ) -> Future[tuple[bytes, Stat]]:
        """Change the ensemble; return the new membership and its Stat.

        `joining`: servers to add (`server.N=…`); `leaving`: ids to remove, separated by commas; or `new_members`: all
        members. `from_version` is the expected version of the membership; -1 matches any version.
        """
        parts = [None if part is None else part.encode() for part in (joining, leaving, new_members)]
        body = ReconfigRequest(parts[0], parts[1], parts[2], from_version)
        return self._session.request(OpCode.RECONFIG, body, convert=_data)

    # -- building requests and converting responses

    def _read(
        self, op: OpCode, kind: WatchKind, path: str, watcher: Watcher | None, convert: Callable[[Any], Any]
    ) -> Future[Any]:
        full = self._full(path)
        watch = None if watcher is None else (kind, full, watcher)
        body = PathWatchRequest(full, watcher is not None)
        return self._session.request(op, body, path=path, convert=convert, watch=watch)

    def _full(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _created(self, response: Create2Response) -> tuple[str, Stat]:
        return self._short(response.path), response.stat

    def _ephemerals(self, response: GetEphemeralsResponse) -> list[str]:
        return sorted(self._short(path) for path in response.ephemerals)

    def _short(self, path: str) -> str:
        return path[len(self._chroot) :] or "/" if self._chroot else path

    def _multi_op(self, op: Op) -> MultiOp:
        path = self._full(op.path)
        match op:
            case Create():
                flags = _flags(op.ephemeral, op.sequential)
                return MultiOp(OpCode.CREATE2, CreateRequest(path, op.data, op.acl, flags))
            case SetData():
                return MultiOp(OpCode.SET_DATA, SetDataRequest(path, op.data, op.version))
            case Delete():
                return MultiOp(OpCode.DELETE, DeleteRequest(path, op.version))
            case Check():
                return MultiOp(OpCode.CHECK, CheckVersionRequest(path, op.version))

    def _multi_results(self, response: MultiResponse) -> list[OpResult]:
        return [self._multi_result(result) for result in response.results]

    def _multi_result(self, result: MultiResult) -> OpResult:
        body = result.body
        if isinstance(body, Create2Response):
            return OpResult(ErrorCode.OK, self._short(body.path), body.stat)
        if isinstance(body, CreateResponse):
            return OpResult(ErrorCode.OK, self._short(body.path))
        if isinstance(body, StatResponse):
            return OpResult(ErrorCode.OK, None, body.stat)
        known = result.error in ErrorCode._value2member_map_
        return OpResult(ErrorCode(result.error) if known else ErrorCode.SYSTEM_ERROR)


def _read_results(response: MultiResponse) -> list[ReadResult]:
    return [_read_result(result) for result in response.results]


def _read_result(result: MultiResult) -> ReadResult:
    body = result.body
    if isinstance(body, GetDataResponse):
        return ReadResult(ErrorCode.OK, body.data or b"", body.stat)
    if isinstance(body, GetChildrenResponse):
        return ReadResult(ErrorCode.OK, children=tuple(sorted(body.children)))
    known = result.error in ErrorCode._value2member_map_
    return ReadResult(ErrorCode(result.error) if known else ErrorCode.SYSTEM_ERROR)


def _nothing(_: object) -> None:
    return None


def _total(response: GetAllChildrenNumberResponse) -> int:
    return response.total_number


def _identities(response: WhoAmIResponse) -> list[tuple[str, str]]:
    return [(info.auth_scheme, info.user) for info in response.client_info]


def _flags(ephemeral: bool, sequential: bool) -> CreateFlag:
    return CreateFlag((1 if ephemeral else 0) | (2 if sequential else 0))


def _stat(response: StatResponse) -> Stat:
    return response.stat


def _stat_or_none(response: StatResponse | None) -> Stat | None:
    return response.stat if response is not None else None


def _data(response: GetDataResponse) -> tuple[bytes, Stat]:
    return response.data or b"", response.stat


def _children(response: GetChildrenResponse) -> list[str]:
    return sorted(response.children)


def _acl(response: GetACLResponse) -> tuple[list[ACL], Stat]:
    return list(response.acl), response.stat
