"""A `KazooClient` with kazoo's names, arguments, states, listeners and exceptions, over this package's client.

    from zabka.ensemble.client.kazoo import KazooClient

kazoo's recipes (Lock, Election, DataWatch, ...) run on it unchanged and are its attributes, as in kazoo. The session
runs on a background thread with its own event loop; watches and completions are called by kazoo's
`SequentialThreadingHandler`. Differences from kazoo: no SASL, no gevent and eventlet handlers, and this package's
client chooses the pauses between attempts to connect.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from zabka.ensemble.runtime.extras import Lacking

try:
    from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, NoNodeError
except ModuleNotFoundError:
    raise Lacking("kazoo", "kazoo, whose recipes run on this client, is") from None
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.counter import Counter
from kazoo.recipe.election import Election
from kazoo.recipe.lease import MultiNonBlockingLease, NonBlockingLease
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from kazoo.recipe.partitioner import SetPartitioner
from kazoo.recipe.party import Party, ShallowParty
from kazoo.recipe.queue import LockingQueue, Queue
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import ACL as KazooACL
from kazoo.security import OPEN_ACL_UNSAFE

from zabka.ensemble.client.call import Call
from zabka.ensemble.client.hosts import split_host
from zabka.ensemble.client.session import Session
from zabka.ensemble.client.shim.state import KazooSession
from zabka.ensemble.client.shim.transaction import TransactionRequest
from zabka.ensemble.client.shim.types import from_acl, from_stat, to_acls, translate_error
from zabka.ensemble.errors import NodeExists, NoNode, ZooKeeperError
from zabka.ensemble.jute import Record
from zabka.ensemble.records import (
    CreateRequest,
    DeleteRequest,
    MultiRequest,
    OpCode,
    PathRequest,
    PathWatchRequest,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
)

Watch = Callable[[Any], Any]
_RECIPES: dict[str, Any] = {
    "Barrier": Barrier,
    "ChildrenWatch": ChildrenWatch,
    "Counter": Counter,
    "DataWatch": DataWatch,
    "DoubleBarrier": DoubleBarrier,
    "Election": Election,
    "Lock": Lock,
    "LockingQueue": LockingQueue,
    "MultiNonBlockingLease": MultiNonBlockingLease,
    "NonBlockingLease": NonBlockingLease,
    "Party": Party,
    "Queue": Queue,
    "ReadLock": ReadLock,
    "Semaphore": Semaphore,
    "SetPartitioner": SetPartitioner,
    "ShallowParty": ShallowParty,
    "WriteLock": WriteLock,
}
_VERSION_LINE = re.compile(r"zookeeper[. ]version\s*[=:]\s*([\d.]+)", re.IGNORECASE)
_REPLY_BYTES_MAX = 65_536


class _Answer:
    """Sink that sets the result of one of kazoo's IAsyncResults.

    `rescue`, if given, is called with an error first, and returns True if it handles the error.
    """

    __slots__ = ("_done", "_rescue", "_result", "_session")

    def __init__(self, session: Session, result: Any, rescue: Callable[[BaseException], bool] | None = None) -> None:
        self._session = session
        self._result = result
        self._rescue = rescue
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, value: Any, /) -> None:
        self._done = True
        self._result.set(value)

    def set_exception(self, error: BaseException, /) -> None:
        self._done = True
        if self._rescue is None or not self._rescue(error):
            self._result.set_exception(_translated(self._session, error))


def _translated(session: Session, error: BaseException) -> BaseException:
    return translate_error(error, closed=session.is_closed)


def _expect(name: str, value: object, kinds: type | tuple[type, ...], what: str) -> None:
    if not isinstance(value, kinds):
        raise TypeError(f"Invalid type for '{name}' ({what} expected)")


def _expect_watch(watch: object) -> None:
    if watch and not callable(watch):
        raise TypeError("Invalid type for 'watch' (must be a callable)")


def _expect_acls(acls: object) -> None:
    if isinstance(acls, KazooACL) or not isinstance(acls, tuple | list):
        raise TypeError("Invalid type for 'acl' (acl must be a tuple/list of ACL's)")


def _expect_value(value: object) -> None:
    if value is not None and not isinstance(value, bytes):
        raise TypeError("Invalid type for 'value' (must be a byte string)")


def _probe(session: Session, full: str) -> Awaitable[Any]:
    return session.request(OpCode.EXISTS, PathWatchRequest(full or "/", False))


class KazooClient(KazooSession):
    """The public interface of kazoo.client.KazooClient. Times are in seconds.

    `hosts`, `timeout`, `client_id`, `default_acl`, `auth_data`, `read_only`, `randomize_hosts`, `command_retry`,
    `logger` and the TLS arguments are as in kazoo. Of `connection_retry`, only `max_tries` is used. `sasl_options`
    accepts only the mechanism DIGEST-MD5. Other mechanisms, and handlers other than SequentialThreadingHandler, raise
    ConfigurationError.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, recipe in _RECIPES.items():
            setattr(self, name, partial(recipe, self))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return kazoo's recipe of that name, bound to this client."""

    def start(self, timeout: float = 15) -> None:
        """Connect; return when the session exists.

        Raises the handler's timeout_exception if this takes longer than `timeout` seconds.
        """
        super().start(timeout)
        if self.chroot and not self.exists("/"):
            warnings.warn("No chroot path exists, the chroot path should be created before normal use.", stacklevel=2)

    # -- four-letter words ---------------------------------------------------------------------------------------------

    def command(self, cmd: bytes = b"ruok") -> str:
        """Return the connected server's reply to a four-letter word. Raises ConnectionLoss while disconnected."""
        engine = self._engine
        if not self._live.is_set() or engine is None:
            raise ConnectionLoss("No connection to server")
        host, port = split_host(engine.server)
        sock = self.handler.create_connection(
            (host, port),
            hostname=host,
            timeout=self._session_timeout / 1000,
            use_ssl=self.use_ssl,
            ca=self.ca,
            certfile=self.certfile,
            keyfile=self.keyfile,
            keyfile_password=self.keyfile_password,
            verify_certs=self.verify_certs,
            check_hostname=self.check_hostname,
        )
        with sock:
            sock.sendall(cmd)
            reply = b""
            while len(reply) < _REPLY_BYTES_MAX and (part := sock.recv(8192)):
                reply += part
        return reply.decode("utf-8", "replace")

    def server_version(self, retries: int = 3) -> tuple[int, ...]:
        """Return the connected server's version, such as (3, 9, 5).

        Raises KazooException if the server does not report it.
        """
        for _ in range(1 + max(0, retries)):
            text = self.command(b"envi")
            if "whitelist" in text:
                # Use `srvr`, because the default configuration of a server allows it, but not `envi`.
                text = self.command(b"srvr")
            found = _VERSION_LINE.search(text)
            digits = found.group(1).strip(".") if found else ""
            if "." in digits:
                return tuple(int(part) for part in digits.split("."))
        raise KazooException(f"Unable to fetch useable server version after trying {1 + max(0, retries)} times")

    # -- operations: each as a blocking call, and as a call that returns kazoo's IAsyncResult --------------------------

    def add_auth(self, scheme: str, credential: str) -> bool:
        """Authenticate on this connection and on later ones."""
        done: bool = self.add_auth_async(scheme, credential).get()
        return done

    def add_auth_async(self, scheme: str, credential: str) -> Any:
        """Call `add_auth` without waiting."""
        _expect("scheme", scheme, str, "string")
        _expect("credential", credential, str, "string")
        self.auth_data.add((scheme, credential))
        result = self.handler.async_result()

        async def wait(answer: Awaitable[None]) -> bool:
            await answer
            return True

        def send(session: Session) -> None:
            self._follow(session, result, wait(session.add_auth(scheme, credential.encode())))

        self._start(result, send)
        return result

    def sync(self, path: str) -> str:
        """Wait until the server has applied everything that was committed before this call."""
        synced: str = self.sync_async(path).get()
        return synced

    def sync_async(self, path: str) -> Any:
        """Call `sync` without waiting."""
        body = PathRequest(self._prefixed(path))
        return self._request(OpCode.SYNC, body, lambda response: self.unchroot(response.path))

    def create(
        self, path: str, value: bytes | None = b"", acl: Any = None, ephemeral: bool = False, sequence: bool = False,
        makepath: bool = False, include_data: bool = False,
    ) -> Any:  # fmt: skip
        """Create a znode; return its path, or with `include_data` (path, ZnodeStat)."""
        return self.create_async(
            path, value, acl, ephemeral=ephemeral, sequence=sequence, makepath=makepath, include_data=include_data
        ).get()

    def create_async(
        self, path: str, value: bytes | None = b"", acl: Any = None, ephemeral: bool = False, sequence: bool = False,
        makepath: bool = False, include_data: bool = False,
    ) -> Any:  # fmt: skip
        """Call `create` without waiting."""
        acl = acl or self.default_acl
        _expect("path", path, str, "string")
        if acl:
            _expect_acls(acl)
        _expect_value(value)
        flags = {"ephemeral": ephemeral, "sequence": sequence, "makepath": makepath, "include_data": include_data}
        for name, flag in flags.items():
            _expect(name, flag, bool, "bool")
        full = self._prefixed(path, trailing=sequence)
        acls = to_acls(OPEN_ACL_UNSAFE if acl is None else acl)
        body = CreateRequest(full, value, acls, (1 if ephemeral else 0) | (2 if sequence else 0))
        op = OpCode.CREATE2 if include_data else OpCode.CREATE
        result = self.handler.async_result()

        def made(response: Any) -> Any:
            short = self.unchroot(response.path)
            return (short, from_stat(response.stat)) if include_data else short

        async def with_parents(session: Session) -> Any:
            parent = full.rstrip("/") if sequence and full.endswith("/") else full.rpartition("/")[0]
            while True:
                await self._ensure(session, _probe(session, parent), parent, acls)
                try:
                    return made(await session.request(op, body))
                except NoNode:
                    continue  # another client deleted a parent again

        def send(session: Session) -> None:
            def rescue(error: BaseException) -> bool:
                if not makepath or not isinstance(error, NoNode):
                    return False
                self._follow(session, result, with_parents(session))
                return True

            session.submit(Call(op, body, _Answer(session, result, rescue), convert=made))

        self._start(result, send)
        return result

    def ensure_path(self, path: str, acl: Any = None) -> Any:
        """Create a znode and its missing parents."""
        return self.ensure_path_async(path, acl).get()

    def ensure_path_async(self, path: str, acl: Any = None) -> Any:
        """Call `ensure_path` without waiting."""
        _expect("path", path, str, "string")
        acl = acl or self.default_acl
        full, acls = self._prefixed(path), to_acls(OPEN_ACL_UNSAFE if acl is None else acl)
        result = self.handler.async_result()

        def send(session: Session) -> None:
            self._follow(session, result, self._ensure(session, _probe(session, full), full, acls))

        self._start(result, send)
        return result

    async def _ensure(self, session: Session, probe: Awaitable[Any], full: str, acls: Sequence[Any]) -> Any:
        """Create a znode and its missing parents. Skip every znode that a read finds.

        If a znode exists already, the caller may not be allowed to create a child of its parent; ZooKeeper would then
        return NoAuth instead of NodeExists.
        """
        try:
            if await probe is not None:
                return True
            parent = full.rpartition("/")[0]
            if parent and full != self.chroot:
                await self._ensure(session, _probe(session, parent), parent, acls)
            made = await session.request(OpCode.CREATE, CreateRequest(full, b"", acls, 0))
            return self.unchroot(made.path)
        except NodeExists:
            return True

    def exists(self, path: str, watch: Watch | None = None) -> Any:
        """Return the ZnodeStat, or None if the znode does not exist."""
        return self.exists_async(path, watch).get()

    def exists_async(self, path: str, watch: Watch | None = None) -> Any:
        """Call `exists` without waiting."""
        return self._read(OpCode.EXISTS, path, watch, lambda found: found and from_stat(found.stat))

    def get(self, path: str, watch: Watch | None = None) -> Any:
        """Return (data, ZnodeStat)."""
        return self.get_async(path, watch).get()

    def get_async(self, path: str, watch: Watch | None = None) -> Any:
        """Call `get` without waiting."""
        return self._read(OpCode.GET_DATA, path, watch, lambda found: (found.data, from_stat(found.stat)))

    def get_children(self, path: str, watch: Watch | None = None, include_data: bool = False) -> Any:
        """Return the children's names, or with `include_data` (names, ZnodeStat)."""
        return self.get_children_async(path, watch, include_data).get()

    def get_children_async(self, path: str, watch: Watch | None = None, include_data: bool = False) -> Any:
        """Call `get_children` without waiting."""
        _expect("include_data", include_data, bool, "bool")
        if not include_data:
            return self._read(OpCode.GET_CHILDREN, path, watch, lambda found: found.children)
        return self._read(OpCode.GET_CHILDREN2, path, watch, lambda found: (found.children, from_stat(found.stat)))

    def get_acls(self, path: str) -> Any:
        """Return (ACLs, ZnodeStat)."""
        return self.get_acls_async(path).get()

    def get_acls_async(self, path: str) -> Any:
        """Call `get_acls` without waiting."""
        _expect("path", path, str, "string")
        return self._request(
            OpCode.GET_ACL,
            PathRequest(self._prefixed(path)),
            lambda found: ([from_acl(acl) for acl in found.acl], from_stat(found.stat)),
        )

    def set_acls(self, path: str, acls: Any, version: int = -1) -> Any:
        """Set the ACLs; return the ZnodeStat."""
        return self.set_acls_async(path, acls, version).get()

    def set_acls_async(self, path: str, acls: Any, version: int = -1) -> Any:
        """Call `set_acls` without waiting."""
        _expect("path", path, str, "string")
        _expect_acls(acls)
        _expect("version", version, int, "int")
        body = SetACLRequest(self._prefixed(path), to_acls(acls), version)
        return self._request(OpCode.SET_ACL, body, lambda response: from_stat(response.stat))

    def set(self, path: str, value: bytes | None, version: int = -1) -> Any:
        """Set the data; return the ZnodeStat."""
        return self.set_async(path, value, version).get()

    def set_async(self, path: str, value: bytes | None, version: int = -1) -> Any:
        """Call `set` without waiting for the reply."""
        _expect("path", path, str, "string")
        _expect_value(value)
        _expect("version", version, int, "int")
        body = SetDataRequest(self._prefixed(path), value, version)
        return self._request(OpCode.SET_DATA, body, lambda response: from_stat(response.stat))

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> Any:
        """Delete a znode; with `recursive` also everything below it."""
        _expect("recursive", recursive, bool, "bool")
        if not recursive:
            return self.delete_async(path, version).get()
        try:
            for child in self.get_children(path):
                self.delete(f"{path.rstrip('/')}/{child}", recursive=True)
            self.delete(path)
        except NoNodeError:
            return True  # another client was faster
        return None

    def delete_async(self, path: str, version: int = -1) -> Any:
        """Call `delete` for one znode without waiting for the reply."""
        _expect("path", path, str, "string")
        _expect("version", version, int, "int")
        return self._request(OpCode.DELETE, DeleteRequest(self._prefixed(path), version), lambda _: True)

    def transaction(self) -> TransactionRequest:
        """Return a builder of a transaction: operations that succeed or fail together."""
        return TransactionRequest(self, self._request)

    def reconfig(self, joining: str | None, leaving: str | None, new_members: str | None, from_config: int = -1) -> Any:
        """Change the ensemble's membership; return (configuration, ZnodeStat)."""
        return self.reconfig_async(joining, leaving, new_members, from_config).get()

    def reconfig_async(
        self, joining: str | None, leaving: str | None, new_members: str | None, from_config: int
    ) -> Any:
        """Call `reconfig` without waiting for the reply."""
        given = {"joining": joining, "leaving": leaving, "new_members": new_members}
        for name, servers in given.items():
            _expect(name, servers or "", str, "string")
        _expect("from_config", from_config, int, "int")
        parts = [servers.encode() if servers else None for servers in given.values()]
        body = ReconfigRequest(parts[0], parts[1], parts[2], from_config)
        return self._request(OpCode.RECONFIG, body, lambda found: (found.data, from_stat(found.stat)))

    # -- sending

    def _read(self, op: OpCode, path: str, watch: Watch | None, convert: Callable[[Any], Any]) -> Any:
        _expect("path", path, str, "string")
        _expect_watch(watch)
        full = self._prefixed(path)

        def answered(response: Any) -> Any:
            if watch and not self._stopped.is_set():
                children = op in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
                (self._child_watchers if children else self._data_watchers)[full].add(watch)
            return convert(response)

        return self._request(op, PathWatchRequest(full, bool(watch)), answered)

    def _request(self, op: OpCode, body: Record | MultiRequest, convert: Callable[[Any], Any]) -> Any:
        result = self.handler.async_result()
        self._start(result, lambda session: session.submit(Call(op, body, _Answer(session, result), convert=convert)))
        return result

    def _start(self, result: Any, work: Callable[[Session], object]) -> None:
        refusal = self._refusal()
        if refusal is None and not self._submit(work):
            refusal = ConnectionClosedError("Connection has been closed")
        if refusal is not None:
            result.set_exception(refusal)

    def _follow(self, session: Session, result: Any, steps: Any) -> None:
        """Run the coroutine `steps` as a task, and set `result` to its return value or its exception.

        The task starts only after this call has returned. If the order of requests matters, send them before this call.
        """
        engine = self._engine
        assert engine is not None

        async def run() -> None:
            try:
                value = await steps
            except ZooKeeperError as error:
                result.set_exception(_translated(session, error))
            else:
                result.set(value)

        engine.spawn(run(), "kazoo call")
