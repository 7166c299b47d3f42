"""Interface of the coordination service, and the connection interface that a client uses.

The controller and the brokers use `CoordinationService`; `zabka.ensemble.client.client.Client` is the only
implementation, over a `Connector` (asyncio sockets, or links of the simulated world). Requests are sent in the order
of the calls, when called and not when awaited, so that callers can pipeline by calling first and awaiting later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    ConnectRequest,
    ConnectResponse,
    EventType,
    Reply,
    Request,
    Stat,
)


class SessionState(Enum):
    """State of a client's session."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CONNECTED_READ_ONLY = "connected read-only"
    """Connected to a server without a leader, which accepts only reads. Possible only for `read_only` clients."""
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class WatchEvent(NamedTuple):
    """Event of a watch that fired.

    When the session expires, every watch fires once with EventType.NONE. A removed watch gets DATA_WATCH_REMOVED,
    CHILD_WATCH_REMOVED or PERSISTENT_WATCH_REMOVED.
    """

    type: EventType
    path: str
    zxid: int = 0
    """Zxid of the transaction that fired the watch; 0 if the server did not send it, as before ZooKeeper 3.9."""


Watcher = Callable[[WatchEvent], None]
StateListener = Callable[[SessionState], None]


class Create(NamedTuple):
    """Operation of a multi: create a znode."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False
    acl: Sequence[ACL] = OPEN_ACL


class SetData(NamedTuple):
    """Operation of a multi: set a znode's data; version -1 matches any version."""

    path: str
    data: bytes | None
    version: int = -1


class Delete(NamedTuple):
    """Operation of a multi: delete a znode; version -1 matches any version."""

    path: str
    version: int = -1


class Check(NamedTuple):
    """Operation of a multi: check that the znode exists at this version."""

    path: str
    version: int


Op = Create | SetData | Delete | Check


class OpResult(NamedTuple):
    """Result of one op: OK with the created path (Create) or the Stat (Create, SetData), or the error.

    In a failed multi, the failing op has its error. The ops before it were rolled back and have OK without path or
    Stat. The ops after it have RUNTIME_INCONSISTENCY.
    """

    error: ErrorCode
    path: str | None = None
    stat: Stat | None = None


class GetData(NamedTuple):
    """Operation of a multi_read: read a znode's data."""

    path: str


class GetChildren(NamedTuple):
    """Operation of a multi_read: read the names of a znode's children."""

    path: str


Read = GetData | GetChildren


class ReadResult(NamedTuple):
    """Result of one read in a multi_read: data (empty if null) and Stat, or the sorted children, or the error."""

    error: ErrorCode
    data: bytes = b""
    stat: Stat | None = None
    children: tuple[str, ...] = ()


class CoordinationService(Protocol):
    """One ZooKeeper session.

    Awaiting the result of a call raises a subclass of `zabka.ensemble.errors.ZooKeeperError` if the call failed:
    NoNode, NodeExists, BadVersion and so on; ConnectionLoss if the connection broke before the reply (the operation may
    have been applied); SessionExpired if the session has expired. While the state is SUSPENDED, new calls wait for the
    reconnect. After expiry every call raises SessionExpired until `renew()` has opened a new session.
    """

    @property
    def session_id(self) -> SessionId: ...
    @property
    def state(self) -> SessionState: ...

    def add_listener(self, listener: StateListener) -> None:
        """Call `listener` at every change of the session's state, before the client processes anything else."""
        ...

    async def start(self) -> None:
        """Connect; return when the session exists. Try each host in turn, without a time limit."""
        ...

    async def renew(self) -> None:
        """Open a new session (new id) after expiry; return when it exists."""
        ...

    async def close(self) -> None:
        """Close the session (its ephemerals are deleted) and disconnect."""
        ...

    def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False,
        acl: Sequence[ACL] = OPEN_ACL,
    ) -> Awaitable[tuple[str, Stat]]:  # fmt: skip
        """Create a znode (create2); return its path and its Stat."""
        ...

    async def create_chroot(self) -> None:
        """Create the chroot's znode and its missing ancestors, if the connection string has a chroot."""
        ...

    def delete(self, path: str, version: int = -1) -> Awaitable[None]: ...
    def exists(self, path: str, watcher: Watcher | None = None) -> Awaitable[Stat | None]:
        """Return the Stat, or None if there is no such znode; the watch is set in both cases."""
        ...

    def get(self, path: str, watcher: Watcher | None = None) -> Awaitable[tuple[bytes, Stat]]: ...
    def set(self, path: str, data: bytes | None, version: int = -1) -> Awaitable[Stat]: ...
    def get_children(self, path: str, watcher: Watcher | None = None) -> Awaitable[list[str]]:
        """Return the names of the children, sorted."""
        ...

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        """Run all operations or none. A failed op is returned as a result; ConnectionLoss and SessionExpired are
        raised.
        """
        ...

    def sync(self, path: str) -> Awaitable[None]:
        """Wait until this session's server has applied everything that was committed before this call."""
        ...


ToServer = ConnectRequest | Request
FromServer = ConnectResponse | Reply


class Receiver(Protocol):
    """Callbacks from a connection to its client."""

    def on_connected(self) -> None: ...
    def on_message(self, message: FromServer) -> None: ...
    def on_watch(self, event: WatchEvent, zxid: int) -> None: ...
    def on_disconnected(self, reason: str) -> None:
        """Report, once, that the connection ended or could not be opened; no other callback follows."""
        ...


class Connection(Protocol):
    """One connection to a server; it may not be established yet."""

    def send(self, message: ToServer) -> None:
        """Queue a frame for sending."""
        ...

    def close(self) -> None:
        """Disconnect; `on_disconnected` is not called."""
        ...


class Connector(Protocol):
    """Opens connections: over TCP, or over the simulated world's links."""

    def connect(self, host: str, receiver: Receiver) -> Connection:
        """Begin to connect to "host:port"."""
        ...


class WordAsker(Protocol):
    """Sends four-letter words to servers."""

    def ask_word(self, host: str, word: str, heard: Callable[[str], None]) -> None:
        """Send a four-letter word to the server at "host:port".

        `heard` is called in a later event loop turn, with the reply or with "" if there is none.
        """
        ...
