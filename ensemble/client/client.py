"""The ZooKeeper client: `CoordinationService` over a `Connector`, for brokers, controllers and tools.

Pure: everything it awaits or asks comes through its ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ensemble.client.hosts import parse_hosts
from ensemble.client.service import (
    Check,
    Connector,
    Create,
    Delete,
    Op,
    OpResult,
    SessionState,
    SetData,
    StateListener,
    Watcher,
)
from ensemble.client.session import CLOSE_WAIT_MS, Session
from ensemble.client.watches import WatchKind
from ensemble.errors import ErrorCode
from ensemble.ids import SessionId
from ensemble.ports import Future, Runtime
from ensemble.records import (
    ACL,
    OPEN_ACL,
    CheckVersionRequest,
    Create2Response,
    CreateFlag,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    GetACLResponse,
    GetChildrenResponse,
    GetDataResponse,
    MultiOp,
    MultiRequest,
    MultiResponse,
    MultiResult,
    OpCode,
    PathRequest,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
    Stat,
    StatResponse,
)


class Client:
    """One ZooKeeper session with the ensemble at `hosts` ("h1:2181,h2:2181/chroot").

    Every operation is sent at the call and answered through the future it returns; see `CoordinationService` for
    what they raise.  `session_timeout_ms` is asked for; the server may bound it.
    Raises ValueError for a bad `hosts`.
    """

    def __init__(
        self,
        hosts: str,
        connector: Connector,
        runtime: Runtime,
        *,
        session_timeout_ms: int = 10_000,
        name: str = "",
    ) -> None:
        servers, self._chroot = parse_hosts(hosts)
        self._session = Session(
            servers, connector, runtime, session_timeout_ms=session_timeout_ms, name=name, chroot=self._chroot
        )

    # -- the session

    @property
    def session_id(self) -> SessionId:
        """The session's id, 0 while there is none."""
        return self._session.session_id

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        return self._session.state

    @property
    def session_timeout_ms(self) -> int:
        """The negotiated timeout; the asked one while there is no session."""
        return self._session.timeout_ms

    @property
    def last_zxid(self) -> int:
        """The newest transaction this client has seen an answer from."""
        return self._session.last_zxid

    @property
    def server(self) -> str:
        """The server connected to, or tried last, as "host:port"."""
        return self._session.server

    @property
    def last_failure(self) -> str:
        """Why the last connection broke or did not come about; empty for never."""
        return self._session.last_failure

    def add_listener(self, listener: StateListener) -> None:
        """Call back at every change of state, in order, from within the client's own turn."""
        self._session.add_listener(listener)

    def remove_listener(self, listener: StateListener) -> None:
        """Undo `add_listener`."""
        self._session.remove_listener(listener)

    async def start(self) -> None:
        """Connect; returns once the session exists.  Tries every host in turn, for as long as it takes."""
        self._session.open()
        await self._session.connected()

    async def renew(self) -> None:
        """After expiry: open a new session (new id), and return once it exists.  Raises SessionExpired if closed."""
        self._session.reopen()
        await self._session.connected()

    async def close(self, wait_ms: int = CLOSE_WAIT_MS) -> None:
        """End the session at once (its ephemerals go) and disconnect.

        Where no server can be told within `wait_ms`, only disconnect: the session then ends by its timeout.
        """
        await self._session.close(wait_ms)

    def add_auth(self, scheme: str, credential: bytes) -> Future[None]:
        """Authenticate this session, such as with ("digest", b"user:password")."""
        return self._session.add_auth(scheme, credential)

    # -- operations

    def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False,
        acl: Sequence[ACL] = OPEN_ACL,
    ) -> Future[tuple[str, Stat]]:  # fmt: skip
        """Create a znode (create2): the path made and its Stat."""
        body = CreateRequest(self._full(path), data, acl, _flags(ephemeral, sequential))
        return self._session.request(OpCode.CREATE2, body, path=path, convert=self._created)

    def delete(self, path: str, version: int = -1) -> Future[None]:
        """Delete a znode; version -1 is any."""
        return self._session.request(OpCode.DELETE, DeleteRequest(self._full(path), version), path=path)

    def exists(self, path: str, watcher: Watcher | None = None) -> Future[Stat | None]:
        """The Stat, or None where there is no such znode; the watch is left either way."""
        return self._read(OpCode.EXISTS, WatchKind.EXISTS, path, watcher, _stat_or_none)

    def get(self, path: str, watcher: Watcher | None = None) -> Future[tuple[bytes, Stat]]:
        """Data (null reads as empty) and Stat."""
        return self._read(OpCode.GET_DATA, WatchKind.DATA, path, watcher, _data)

    def set(self, path: str, data: bytes | None, version: int = -1) -> Future[Stat]:
        """Set the data; version -1 is any."""
        body = SetDataRequest(self._full(path), data, version)
        return self._session.request(OpCode.SET_DATA, body, path=path, convert=_stat)

    def get_children(self, path: str, watcher: Watcher | None = None) -> Future[list[str]]:
        """Children names, sorted."""
        return self._read(OpCode.GET_CHILDREN, WatchKind.CHILDREN, path, watcher, _children)

    def get_acl(self, path: str) -> Future[tuple[list[ACL], Stat]]:
        """The access control list and the Stat."""
        return self._session.request(OpCode.GET_ACL, PathRequest(self._full(path)), path=path, convert=_acl)

    def set_acl(self, path: str, acl: Sequence[ACL], version: int = -1) -> Future[Stat]:
        """Set the access control list; `version` is the Stat's aversion, -1 is any."""
        body = SetACLRequest(self._full(path), acl, version)
        return self._session.request(OpCode.SET_ACL, body, path=path, convert=_stat)

    def multi(self, ops: Sequence[Op]) -> Future[list[OpResult]]:
        """All or nothing.  A failed op is a value here, not an exception; loss and expiry still raise."""
        body = MultiRequest([self._multi_op(op) for op in ops])
        return self._session.request(OpCode.MULTI, body, convert=self._multi_results)

    def sync(self, path: str) -> Future[None]:
        """Wait until this session's server has seen everything committed before now."""
        return self._session.request(OpCode.SYNC, PathRequest(self._full(path)), path=path, convert=lambda _: None)

    # -- to the wire and back

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
