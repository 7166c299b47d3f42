"""The coordination service as its users see it, and the connection port of a client.

`CoordinationService` is what the controller and the brokers await; `zabka.ensemble.client.client.Client` is the only
implementation, over a `Connector` (asyncio sockets, or links of the simulated world). Requests are sent in the order of
the calls, at the call (not at the await), so that callers pipeline by calling first and awaiting later.
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
    """Connected to a server without a leader, which serves only reads; only clients with `read_only` reach this state.
    """
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class WatchEvent(NamedTuple):
    """A watch that fired.

    On expiry every watch fires once with EventType.NONE. A removed watch gets DATA_WATCH_REMOVED, CHILD_WATCH_REMOVED
    or PERSISTENT_WATCH_REMOVED.
    """

    type: EventType
    path: str
    zxid: int = 0
    """The transaction that fired it; 0 if the server did not send it, as before ZooKeeper 3.9."""


Watcher = Callable[[WatchEvent], None]
StateListener = Callable[[SessionState], None]


class Create(NamedTuple):
    """multi: create a znode."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False
    acl: Sequence[ACL] = OPEN_ACL


class SetData(NamedTuple):
    """multi: set a znode's data; version -1 = any."""

    path: str
    data: bytes | None
    version: int = -1


class Delete(NamedTuple):
    """multi: delete a znode; version -1 = any."""

    path: str
    version: int = -1


class Check(NamedTuple):
    """multi: the znode exists at this version."""

    path: str
    version: int


Op = Create | SetData | Delete | Check


class OpResult(NamedTuple):
    """One op's outcome: OK with the path made (Create) or the Stat (Create, SetData), or the error.

    In a failed multi the ops before the failing one carry OK with neither (rolled back), the failing one its error,
    those after it RUNTIME_INCONSISTENCY.
    """

    error: ErrorCode
    path: str | None = None
    stat: Stat | None = None


class GetData(NamedTuple):
    """multi_read: a znode's data."""

    path: str


class GetChildren(NamedTuple):
    """multi_read: the names of a znode's children."""

    path: str


Read = GetData | GetChildren


class ReadResult(NamedTuple):
    """One read's outcome: data (null reads as empty) and Stat, or children, sorted, or the error."""

    error: ErrorCode
    data: bytes = b""
    stat: Stat | None = None
    children: tuple[str, ...] = ()


class CoordinationService(Protocol):
    """One ZooKeeper session.

    A call raises a subclass of `zabka.ensemble.errors.ZooKeeperError` when awaited: NoNode, NodeExists, BadVersion,
    ...; ConnectionLoss when the connection broke with the request in flight (it may have been applied); SessionExpired
    when the session is over.  While SUSPENDED new calls wait for the reconnect. After expiry every call raises
    SessionExpired until `renew()` has opened a new session.
    """

    @property
    def session_id(self) -> SessionId: ...
    @property
    def state(self) -> SessionState: ...

    def add_listener(self, listener: StateListener) -> None:
        """Call back at every change of state, in order, from within the client's own turn."""
        ...

    async def start(self) -> None:
        """Connect; returns once the session exists.  Tries every host in turn, for as long as it takes."""
        ...

    async def renew(self) -> None:
        """After expiry: open a new session (new id), and return once it exists."""
        ...

    async def close(self) -> None:
        """End the session at once (its ephemerals are deleted) and disconnect."""
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
        """The Stat, or None if there is no such znode; the watch is set in both cases."""
        ...

    def get(self, path: str, watcher: Watcher | None = None) -> Awaitable[tuple[bytes, Stat]]: ...
    def set(self, path: str, data: bytes | None, version: int = -1) -> Awaitable[Stat]: ...
    def get_children(self, path: str, watcher: Watcher | None = None) -> Awaitable[list[str]]:
        """Names of the children, sorted."""
        ...

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        """Run all operations or none. A failed op is a value here, not an exception; loss and expiry still raise."""
        ...

    def sync(self, path: str) -> Awaitable[None]:
        """Wait until this session's server has applied everything committed before now."""
        ...


ToServer = ConnectRequest | Request
FromServer = ConnectResponse | Reply


class Receiver(Protocol):
    """Callbacks of a connection to its client."""

    def on_connected(self) -> None: ...
    def on_message(self, message: FromServer) -> None: ...
    def on_watch(self, event: WatchEvent, zxid: int) -> None: ...
    def on_disconnected(self, reason: str) -> None:
        """Called once, also if connecting failed; no callback follows."""
        ...


class Connection(Protocol):
    """One connection to a server, possibly still being made."""

    def send(self, message: ToServer) -> None:
        """Queue a frame."""
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
        """Send a word to the server at "host:port"; `heard` gets the answer in a later turn, empty if there is none."""
        ...
