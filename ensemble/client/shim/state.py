"""Session part of `KazooClient`: arguments, start and stop, connection states, listeners, watches."""

from __future__ import annotations

import inspect
import logging
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConfigurationError,
    ConnectionClosedError,
    SessionExpiredError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.protocol.paths import normpath
from kazoo.protocol.states import Callback, KazooState, KeeperState, WatchedEvent
from kazoo.protocol.states import EventType as KazooEventType
from kazoo.retry import KazooRetry

from zabka.ensemble.client.hosts import join_host
from zabka.ensemble.client.service import SessionState, WatchEvent
from zabka.ensemble.client.session import NO_PASSWORD, Session
from zabka.ensemble.client.shim.engine import Engine, EngineSettings, Work
from zabka.ensemble.client.shim.types import EVENT_TYPES, client_ssl_context, sasl_login
from zabka.ensemble.records import EventType

_CLOSED_STATES = (KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED, KeeperState.CLOSED)
_STOP_TIMEOUT_MIN_S = 10.0
_OLD_RETRY_ARGUMENTS = {
    "max_retries": ("max_tries", None),
    "retry_delay": ("delay", 0.1),
    "retry_backoff": ("backoff", 2),
    "retry_max_delay": ("max_delay", 3600),
}


class KazooSession:
    """Base of `zabka.ensemble.client.kazoo.KazooClient`, which documents the arguments."""

    def __init__(
        self,
        hosts: str | list[str] = "127.0.0.1:2181",
        timeout: float = 10.0,
        client_id: tuple[int, bytes] | None = None,
        handler: Any = None,
        default_acl: Any = None,
        auth_data: Any = None,
        sasl_options: Any = None,
        read_only: bool | None = None,
        randomize_hosts: bool = True,
        connection_retry: Any = None,
        command_retry: Any = None,
        logger: logging.Logger | None = None,
        keyfile: str | None = None,
        keyfile_password: str | None = None,
        certfile: str | None = None,
        ca: str | None = None,
        use_ssl: bool = False,
        verify_certs: bool = True,
        check_hostname: bool = False,
        **kwargs: Any,
    ) -> None:
        self.logger = logger or logging.getLogger(__name__)
        self.handler: Any = handler if handler else SequentialThreadingHandler()
        if inspect.isclass(self.handler):
            raise ConfigurationError(f"Handler must be an instance of a class, not the class: {self.handler}")
        if not isinstance(self.handler, SequentialThreadingHandler):
            raise ConfigurationError("only SequentialThreadingHandler is supported")
        given = set(auth_data) if auth_data else set()
        self._login = sasl_login(sasl_options, [credential for scheme, credential in given if scheme == "sasl"])
        self.auth_data: set[tuple[str, str]] = {auth for auth in given if auth[0] != "sasl"}
        self.default_acl = default_acl
        self.read_only = read_only
        self.randomize_hosts = randomize_hosts
        self.hosts: list[tuple[str, int]] = []
        self.chroot: str | None = None
        self.set_hosts(hosts)
        self.use_ssl = use_ssl
        self.verify_certs = verify_certs
        self.check_hostname = check_hostname
        self.certfile = certfile
        self.keyfile = keyfile
        self.keyfile_password = keyfile_password
        self.ca = ca
        self._state: Any = KeeperState.CLOSED
        self.state: Any = KazooState.LOST
        self.state_listeners: set[Callable[[Any], Any]] = set()
        self._child_watchers: defaultdict[str, set[Callable[..., Any]]] = defaultdict(set)
        self._data_watchers: defaultdict[str, set[Callable[..., Any]]] = defaultdict(set)
        self._session_id: int | None = client_id[0] if client_id else None
        self._session_passwd: bytes = client_id[1] if client_id else NO_PASSWORD
        self._session_timeout = int(timeout * 1000)
        self._live: threading.Event = self.handler.event_object()
        self._settled: threading.Event = self.handler.event_object()
        """Set when the attempt to connect that `start` began has succeeded or failed."""
        self._stopped: threading.Event = self.handler.event_object()
        self._stopped.set()
        self._engine: Engine | None = None
        self._set_up_retries(connection_retry, command_retry, kwargs)
        if kwargs:
            raise TypeError(f"__init__() got unexpected keyword arguments: {list(kwargs)}")

    def _set_up_retries(self, connection_retry: Any, command_retry: Any, kwargs: dict[str, Any]) -> None:
        options: dict[str, Any] = {}
        for old, (new, default) in _OLD_RETRY_ARGUMENTS.items():
            if old in kwargs and None in (connection_retry, command_retry):
                warnings.warn(
                    f"Passing retry configuration param {old} to the client directly is deprecated, please pass a "
                    f"configured retry object (using param {new})",
                    DeprecationWarning,
                    stacklevel=4,
                )
                options[new] = kwargs.pop(old)
            else:
                options[new] = default

        def made(given: Any) -> Any:
            if isinstance(given, dict):
                given = KazooRetry(**given)
            if given is None:
                return KazooRetry(sleep_func=self.handler.sleep_func, **options)
            if given.sleep_func != self.handler.sleep_func:
                raise ConfigurationError("Retry handler and event handler must use the same sleep func")
            return given

        self._conn_retry = made(connection_retry)
        self._retry = made(command_retry)

    def retry(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `func`; repeat the call if the connection or the session is lost, as kazoo's KazooRetry does.

        Each call of `retry` counts its own attempts.
        """
        return self._retry.copy()(func, *args, **kwargs)

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def client_state(self) -> Any:
        """The last connection state, as kazoo's KeeperState."""
        return self._state

    @property
    def client_id(self) -> tuple[int | None, bytes] | None:
        """(session id, password) while connected, otherwise None."""
        return (self._session_id, self._session_passwd) if self._live.is_set() else None

    @property
    def connected(self) -> bool:
        """Whether the client is connected."""
        return self._live.is_set()

    @property
    def last_zxid(self) -> int:
        """Highest zxid in any reply that the session received."""
        return self._engine.last_zxid if self._engine is not None else 0

    def set_hosts(self, hosts: str | list[str], randomize_hosts: bool | None = None) -> None:
        """Set the servers for later connections.

        Raises ConfigurationError if the chroot in `hosts` differs from the current chroot.
        """
        if randomize_hosts is not None:
            self.randomize_hosts = randomize_hosts
        found, chroot = collect_hosts(hosts)
        new_chroot = normpath(chroot) if chroot else ""
        if self.chroot is not None and new_chroot != self.chroot:
            raise ConfigurationError("Changing chroot at runtime is not currently supported")
        self.hosts, self.chroot = found, new_chroot
        servers = self._servers()
        if getattr(self, "_engine", None) is not None:
            self._submit(lambda session: session.set_servers(servers, shuffle=self.randomize_hosts))

    def _servers(self) -> list[str]:
        return [join_host(host, port) for host, port in self.hosts]

    def unchroot(self, path: str) -> str:
        """Return a path received from a server, without the chroot."""
        if not self.chroot or not path.startswith(self.chroot):
            return path
        return path[len(self.chroot) :] or "/"

    def _prefixed(self, path: str, *, trailing: bool = False) -> str:
        full: str = normpath(f"{self.chroot}/{path.lstrip('/')}", trailing=trailing)
        return full

    # -- starting and stopping

    def start(self, timeout: float = 15) -> None:
        """Connect; return when the session exists.

        Raises the handler's timeout_exception if this takes longer than `timeout` seconds, and AuthFailedError if the
        server rejects the SASL login.
        """
        self.start_async()
        self._settled.wait(timeout=timeout)
        if self._state == KeeperState.AUTH_FAILED:
            raise AuthFailedError
        if not self.connected:
            self.stop()
            self.close()
            raise self.handler.timeout_exception("Connection time-out")

    def start_async(self) -> threading.Event:
        """Begin to connect; return an event that is set whenever the client is connected."""
        if self._live.is_set():
            return self._live
        self.stop()
        self._stopped.clear()
        self._settled.clear()
        self.handler.start()
        self._session_callback(KeeperState.CONNECTING)
        self._engine = Engine(
            self._settings(), on_state=self._on_state, on_event=self._on_event, on_failure=self._on_failure
        )
        self._engine.start()
        return self._live

    def _settings(self) -> EngineSettings:
        context = None
        if self.use_ssl:
            context = client_ssl_context(
                ca=self.ca,
                certfile=self.certfile,
                keyfile=self.keyfile,
                keyfile_password=self.keyfile_password,
                verify_certs=self.verify_certs,
                check_hostname=self.check_hostname,
            )
        return EngineSettings(
            servers=self._servers(),
            timeout_ms=self._session_timeout,
            shuffle=self.randomize_hosts,
            read_only=bool(self.read_only),
            attempts_max=max(0, self._conn_retry.max_tries or 0) * len(self.hosts),
            resume=(self._session_id, self._session_passwd) if self._session_id else None,
            auths=[(scheme, credential.encode()) for scheme, credential in sorted(self.auth_data)],
            login=self._login,
            ssl_context=context,
        )

    def stop(self) -> None:
        """End the session and disconnect; the client can be started again."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.handler.stop()
        timeout_s = max(_STOP_TIMEOUT_MIN_S, self._session_timeout / 1000)
        if self._engine is not None and not self._engine.stop(timeout_s):
            raise WriterNotClosedException(f"The connection did not close within {timeout_s:g} seconds")
        self._engine = None

    def restart(self) -> None:
        """Stop, then start with a new session."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Free resources after `stop`. Raises Exception, as kazoo does, if the client was not stopped."""
        if not self._stopped.is_set():
            raise Exception("Cannot close connection until it is stopped")

    # -- states: the transitions of kazoo's _session_callback

    def add_listener(self, listener: Callable[[Any], Any]) -> None:
        """Call `listener` with each new KazooState, on the thread that runs the connection.

        The listener is removed when it returns True.
        """
        if not callable(listener):
            raise ConfigurationError("listener must be callable")
        self.state_listeners.add(listener)

    def remove_listener(self, listener: Callable[[Any], Any]) -> None:
        """Remove a listener added by `add_listener`."""
        self.state_listeners.discard(listener)

    def _on_state(self, session: Session, state: SessionState) -> None:
        if session.is_connected:
            self._session_id, self._session_passwd = session.session_id, session.password
            read_only = state is SessionState.CONNECTED_READ_ONLY
            self._session_callback(KeeperState.CONNECTED_RO if read_only else KeeperState.CONNECTED)
        elif state is SessionState.EXPIRED:
            self._session_callback(KeeperState.EXPIRED_SESSION)
        elif state is SessionState.CLOSED:
            refused = session.auth_failed and not self._stopped.is_set()
            self._session_callback(KeeperState.AUTH_FAILED if refused else KeeperState.CLOSED)
        else:
            self._session_callback(KeeperState.CONNECTING)

    def _session_callback(self, state: Any) -> None:
        if state == self._state:
            return
        was_closed = self._state in _CLOSED_STATES
        self._state = state
        if state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            self._live.set()
            self._settled.set()
            self._make_state_change(KazooState.CONNECTED)
        elif state in _CLOSED_STATES:
            self._live.clear()
            if state == KeeperState.AUTH_FAILED:
                self._settled.set()
            self._session_id, self._session_passwd = None, NO_PASSWORD
            self._make_state_change(KazooState.LOST)
            self._reset_watchers()
        elif not (was_closed and state == KeeperState.CONNECTING):
            self._live.clear()
            self._make_state_change(KazooState.SUSPENDED)
            self._reset_watchers()

    def _make_state_change(self, state: Any) -> None:
        if self.state == state:
            return
        self.state = state
        for listener in list(self.state_listeners):
            try:
                if listener(state) is True:
                    self.remove_listener(listener)
            except Exception:
                self.logger.exception("Error in connection state listener")

    # -- watches: like kazoo, drop them at every disconnect, after one event of type NONE

    def _on_event(self, event: WatchEvent) -> None:
        tables: tuple[defaultdict[str, set[Callable[..., Any]]], ...]
        if event.type is EventType.CHILDREN_CHANGED:
            tables = (self._child_watchers,)
        elif event.type is EventType.DELETED:
            tables = (self._data_watchers, self._child_watchers)
        else:
            tables = (self._data_watchers,)
        watchers = [watcher for table in tables for watcher in table.pop(event.path, ())]
        if event.type not in EVENT_TYPES or self._stopped.is_set():
            return
        seen = WatchedEvent(EVENT_TYPES[event.type], self._state, self.unchroot(event.path))
        for watcher in watchers:
            self.handler.dispatch_callback(Callback("watch", watcher, (seen,)))

    def _reset_watchers(self) -> None:
        tables = (self._child_watchers, self._data_watchers)
        watchers = [watcher for table in tables for found in list(table.values()) for watcher in found]
        self._child_watchers, self._data_watchers = defaultdict(set), defaultdict(set)
        event = WatchedEvent(KazooEventType.NONE, self._state, None)
        for watcher in watchers:
            self.handler.dispatch_callback(Callback("watch", watcher, (event,)))

    # -- requests

    def _submit(self, work: Work) -> bool:
        engine = self._engine
        return engine is not None and engine.submit(work)

    def _refusal(self) -> Exception | None:
        """Return the error for a call that cannot even be queued in the present state, or None if it can."""
        refusal: Exception | None = None
        if self._state == KeeperState.AUTH_FAILED:
            refusal = AuthFailedError()
        elif self._state == KeeperState.CLOSED:
            refusal = ConnectionClosedError("Connection has been closed")
        elif self._state == KeeperState.EXPIRED_SESSION:
            refusal = SessionExpiredError()
        return refusal

    def _on_failure(self, name: str, failure: BaseException) -> None:
        self.logger.error("Unhandled exception in %s", name, exc_info=failure)
