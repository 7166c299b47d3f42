"""One ZooKeeper session: connecting, pipelining, pinging, reconnecting to another server, expiry.

Pure: it uses only a `Connector` and a `Runtime`, so that the same code runs over sockets and in the simulated world.
`zabka.ensemble.client.client.Client` adds the operations. Source: org.apache.zookeeper.ClientCnxn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.client.call import Auth, Call
from zabka.ensemble.client.notices import Notices, fail_all
from zabka.ensemble.client.pipeline import Pipeline
from zabka.ensemble.client.rotation import Rotation
from zabka.ensemble.client.sasl import SaslLogin, SaslNegotiation
from zabka.ensemble.client.service import (
    Connection,
    Connector,
    FromServer,
    SessionState,
    StateListener,
    Watcher,
    WatchEvent,
    WordAsker,
)
from zabka.ensemble.client.watches import Left, Watches
from zabka.ensemble.errors import AuthFailed, ErrorCode, NoWatcher, SessionExpired, ZooKeeperError, error_for
from zabka.ensemble.ids import SessionId
from zabka.ensemble.jute import Record
from zabka.ensemble.ports import Future, Runtime, Timer
from zabka.ensemble.records import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    EmptyRequest,
    MultiRequest,
    OpCode,
    Reply,
    Request,
    SaslRequest,
    SetWatches2,
    WatcherType,
    WatchesRequest,
)

CLOSE_WAIT_MS = 2_000
"""Time that close() waits for the server's reply; includes a reconnect, if one is needed to send the request."""
NO_PASSWORD = bytes(16)
SEARCH_PAUSE_MIN_MS = 100
SEARCH_PAUSE_MAX_MS = 5_000
"""Maximum pause between queries to servers while a read-only client searches for a server with a leader.

The pause doubles each time; ZooKeeper's grows to 60 s.
"""
SEARCH_WORD, READ_WRITE = "isro", "rw"


class Heartbeat:
    """Sends pings on an idle connection, and detects a server that does not reply (ClientCnxn).

    A ping is sent when nothing was sent for a third of the session timeout; the connection is lost when nothing was
    received for two thirds of it. The timers run from `start` to `stop`. `ping` is called to send a ping, `lose` with
    the reason when the connection is lost.
    """

    __slots__ = ("_due_ms", "_heard_ms", "_lose", "_ping", "_runtime", "_sent_ms", "_timeout_ms", "_timer")

    def __init__(self, runtime: Runtime, ping: Callable[[], None], lose: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._ping = ping
        self._lose = lose
        self._timer: Timer | None = None
        self._timeout_ms = 0
        self._due_ms = 0
        self._heard_ms = 0
        self._sent_ms = 0

    def start(self, timeout_ms: int) -> None:
        """Start the timers, for a session with this timeout."""
        self._timeout_ms = timeout_ms
        self._heard_ms = self._sent_ms = self._runtime.now().mono_ms
        self._schedule()

    def stop(self) -> None:
        """Stop the timers, because the connection is lost or closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def received(self) -> None:
        """Record the time at which a frame was received from the server."""
        self._heard_ms = self._runtime.now().mono_ms

    def sent(self) -> None:
        """Record the time at which a frame was sent to the server."""
        self._sent_ms = self._runtime.now().mono_ms

    def _schedule(self) -> None:
        self.stop()
        now_ms = self._runtime.now().mono_ms
        ping_ms = self._sent_ms + self._timeout_ms // 3
        silent_ms = self._heard_ms + self._timeout_ms * 2 // 3
        self._due_ms = max(now_ms + 1, min(ping_ms, silent_ms))
        self._timer = self._runtime.call_later(self._due_ms - now_ms, self._tick)

    def _tick(self) -> None:
        now_ms = self._runtime.now().mono_ms
        third_ms = self._timeout_ms // 3
        if now_ms - self._heard_ms >= self._timeout_ms * 2 // 3:
            if now_ms - self._due_ms < third_ms:
                self._lose(f"nothing heard for {now_ms - self._heard_ms} ms")
                return
            # This process itself was stalled, so replies may be waiting in the socket. Read them before deciding
            # whether the server is silent.
            self._heard_ms = now_ms - third_ms
        if now_ms - self._sent_ms >= third_ms:
            self._ping()
        self._schedule()


class ReadWriteSearch:
    """Search for a server that accepts writes, for a session on a read-only server (ClientCnxn.pingRwServer).

    The search starts when the object is created. It sends a four-letter word to one server after another until one has
    a leader, and then calls `found` with this server. `stop` ends the search.
    """

    def __init__(self, asker: WordAsker, rotation: Rotation, runtime: Runtime, found: Callable[[str], None]) -> None:
        self._asker = asker
        self._rotation = rotation
        self._runtime = runtime
        self._found = found
        self._pause_ms = SEARCH_PAUSE_MIN_MS
        self._over = False
        self._timer: Timer = runtime.call_later(self._pause_ms, self._ask)

    def stop(self) -> None:
        """Stop the search; a reply that arrives later is ignored."""
        self._over = True
        self._timer.cancel()

    def _ask(self) -> None:
        server = self._rotation.next()
        self._asker.ask_word(server, SEARCH_WORD, lambda answer: self._on_answer(server, answer))

    def _on_answer(self, server: str, answer: str) -> None:
        if self._over:
            return
        if answer == READ_WRITE:
            self._over = True
            self._found(server)
            return
        self._pause_ms = min(self._pause_ms * 2, SEARCH_PAUSE_MAX_MS)
        self._timer = self._runtime.call_later(self._pause_ms, self._ask)


class LinkOwner(Protocol):
    """Interface of a link's owner, which receives the link's events.

    The owner must ignore events of any link except its current one.
    """

    def on_link_up(self, link: Link) -> None: ...
    def on_link_message(self, link: Link, message: FromServer) -> None: ...
    def on_link_watch(self, link: Link, event: WatchEvent) -> None: ...
    def on_link_down(self, link: Link, reason: str) -> None: ...


class Link:
    """One attempt to connect to a server, and the connection if the attempt succeeds.

    `served` is True once the server has sent a second frame.
    """

    __slots__ = ("_owner", "connection", "served")

    def __init__(self, owner: LinkOwner) -> None:
        self._owner = owner
        self.connection: Connection | None = None
        self.served = False

    def on_connected(self) -> None:
        """Report to the owner that the transport connection is established."""
        self._owner.on_link_up(self)

    def on_message(self, message: FromServer) -> None:
        """Pass a received frame to the owner."""
        self._owner.on_link_message(self, message)

    def on_watch(self, event: WatchEvent, zxid: int) -> None:
        """Pass a watch event to the link's owner."""
        self._owner.on_link_watch(self, event._replace(zxid=zxid))

    def on_disconnected(self, reason: str) -> None:
        """Report to the owner that the transport connection ended or failed."""
        self._owner.on_link_down(self, reason)


class Session:
    """A ZooKeeper session, on a connection to any of `servers`; after a disconnect it continues on another server.

    Requests are sent in the order of the calls. In the event loop turn in which a reply arrives, its future is
    resolved; in the turn in which a watch event arrives, its watchers are called. So a watcher may run before the
    coroutine that awaited the read resumes, but it never runs after a coroutine that has received newer data.

    `attempts_max`: end the session (CLOSED) after this number of consecutive failed attempts to connect, 0 for never.
    `resume`: id and password of a session to reattach to. `on_event` receives every watch event, with the server's
    path. `login`: authenticate by SASL on every connection, before anything else; if the server rejects it, the session
    ends, as after a rejected auth. `read_only`: accept a server without a leader; then send four-letter words with
    `asker` to find a server with a leader.
    """

    def __init__(
        self,
        servers: Sequence[str],
        connector: Connector,
        runtime: Runtime,
        *,
        session_timeout_ms: int = 10_000,
        name: str = "",
        chroot: str = "",
        shuffle: bool = True,
        read_only: bool = False,
        asker: WordAsker | None = None,
        login: SaslLogin | None = None,
        attempts_max: int = 0,
        resume: tuple[int, bytes] | None = None,
        on_event: Callable[[WatchEvent], None] | None = None,
    ) -> None:
        assert session_timeout_ms > 0
        self.state = SessionState.CONNECTING
        self.session_id = SessionId(resume[0] if resume else 0)
        self.password = resume[1] if resume else NO_PASSWORD
        self.timeout_ms = session_timeout_ms
        self.last_zxid = 0
        self.server = ""
        self.last_failure = ""
        self._requested_timeout_ms = session_timeout_ms
        self._rotation = Rotation(servers, runtime.random, shuffle=shuffle)
        self._connector = connector
        self._runtime = runtime
        self._notices = Notices(runtime, name or "session", chroot, on_event)
        self._attempts_max = attempts_max
        self._read_only = read_only
        self._asker = asker
        self._login = login
        self._negotiation: SaslNegotiation | None = None
        self._server_read_only = False
        self._search: ReadWriteSearch | None = None
        # Whether the session can be resumed on another server. A session that a read-only server created is unknown to
        # every other server.
        self._resumable = resume is not None
        self._connected = False
        self._watches = Watches()
        self._auths: list[Auth] = []
        self._calls = Pipeline(self._send)
        self._link: Link | None = None
        self._timer: Timer | None = None
        self._heartbeat = Heartbeat(runtime, self._ping, self._lose)
        self._closing = False
        self._auth_failed = False

    # -- methods for the caller

    def add_listener(self, listener: StateListener) -> None:
        """Call `listener` at every change of state; listeners are called in the order of registration."""
        self._notices.add_listener(listener)

    def remove_listener(self, listener: StateListener) -> None:
        """Undo `add_listener`; ignore an unknown listener."""
        self._notices.remove_listener(listener)

    def open(self) -> None:
        """Begin to connect; do nothing while connecting or connected."""
        if self.state is SessionState.CONNECTING and self._link is None and self._timer is None:
            self._connect()

    async def connected(self) -> None:
        """Wait until the session is connected. Raises SessionExpired or AuthFailed if the session ends instead."""
        if self._over() or self._closing:
            raise self._ended("")
        if self._connected:
            return
        await self._notices.waiter()

    def reopen(self) -> None:
        """Begin to open a new session if the old one has expired; otherwise do nothing."""
        if self.state is not SessionState.EXPIRED:
            return
        # Keep last_zxid: the new session must not read older data than the old one did. The server that reported the
        # expiry has applied at least this zxid.
        self._set_state(SessionState.CONNECTING)
        self.open()

    def request(
        self,
        op: int,
        body: Record | MultiRequest,
        *,
        path: str = "",
        convert: Callable[[Any], Any] | None = None,
        watch: Left | None = None,
    ) -> Future[Any]:
        """Send a request, now or after the reconnect; the future resolves to `convert(response)`.

        `path` is for error messages. `watch`, with the server's path, is the watch that the request sets if its reply
        has no error.
        """
        future = self._runtime.future()
        self.submit(Call(op, body, future, path, convert, watch))
        return future

    def submit(self, call: Call) -> None:
        """Send a request as `request` does, but pass the result to the call's sink."""
        if self._over() or self._closing:
            call.fail(self._ended(call.path))
        elif self._connected:
            self._calls.send(call)
        else:
            self._calls.queue(call)

    def unwatch(self, kind: WatcherType, path: str, watcher: Watcher | None) -> Future[None]:
        """Remove `watcher`, or every watcher if it is None, of this kind from a path. The path includes the chroot.

        Each removed watcher gets a WATCH_REMOVED event for its kind of watch. Raises NoWatcher if the client or the
        server has no such watch.
        """
        future = self._runtime.future()
        shown = self._notices.unchroot(path)
        # The server has one watch per connection and path, so remove it only with the last local watcher.
        shared = watcher is not None and self._watches.others(kind, path, watcher, self._calls.watches())
        op = OpCode.CHECK_WATCHES if shared else OpCode.REMOVE_WATCHES

        def removed(_: None) -> None:
            self._notices.removed(shown, self._watches.remove(kind, path, watcher))

        if watcher is not None and not self._watches.has(kind, path, watcher):
            future.set_exception(NoWatcher(shown))
        else:
            self.submit(Call(op, WatchesRequest(path, kind), future, shown, removed))
        return future

    def add_auth(self, scheme: str, credential: bytes) -> Future[None]:
        """Authenticate on this connection and on every later one.

        If the server rejects the credentials, the session ends, and every call then raises AuthFailed.
        """
        auth = Auth(AuthPacket(0, scheme, credential), self._runtime.future())
        future = auth.future
        assert future is not None
        if self._over():
            future.set_exception(self._ended(""))
            return future
        self._auths.append(auth)
        if self._connected:
            self._calls.send_auth(auth)
        return future

    @property
    def is_connected(self) -> bool:
        """Whether the session is connected, including to a read-only server."""
        return self._connected

    @property
    def is_closed(self) -> bool:
        """Whether the session is closed or being closed."""
        return self._closing

    @property
    def auth_failed(self) -> bool:
        """Whether the session ended because the server rejected credentials."""
        return self._auth_failed

    def set_servers(self, servers: Sequence[str], *, shuffle: bool = True) -> None:
        """Set the servers for later connections; the current connection stays open."""
        self._rotation = Rotation(servers, self._runtime.random, shuffle=shuffle)

    async def close(self, wait_ms: int = CLOSE_WAIT_MS) -> None:
        """Close the session and disconnect.

        If no reply arrives within `wait_ms`, only disconnect: the session then expires after its timeout.
        """
        if self._over():
            self._finish(SessionState.CLOSED)
            return
        if self._closing:
            await self._notices.until(lambda: self.state is SessionState.CLOSED)
            return
        answer = self._runtime.future()
        timer = self._runtime.call_later(wait_ms, lambda: None if answer.done() else answer.set_result(None))
        try:
            if self.session_id:
                self.submit(Call(OpCode.CLOSE_SESSION, EmptyRequest(), answer))
                self._closing = True
                await answer
        except ZooKeeperError:
            pass  # the reply was lost: the session has ended or will expire
        finally:
            timer.cancel()
            self._finish(SessionState.CLOSED)

    def drop_connection(self, reason: str = "dropped by its owner") -> None:
        """Disconnect as if the network had failed; the session continues on the next server."""
        if self._link is not None:
            self._lose(reason)

    def expire(self) -> None:
        """Treat the session as expired, as if the server had reported it."""
        if not self._over():
            self._finish(SessionState.EXPIRED)

    # -- connecting

    def _connect(self) -> None:
        self._timer = self._runtime.call_later(
            max(1, self.timeout_ms // self._rotation.size), lambda: self._lose("no answer to the connect")
        )
        self.server = self._rotation.next()
        link = self._link = Link(self)
        connection = self._connector.connect(self.server, link)
        if self._link is link:
            link.connection = connection

    def on_link_up(self, link: Link) -> None:
        """Send the ConnectRequest on an established connection. Events of an old link are ignored."""
        if link is not self._link:
            return
        session_id, password = (self.session_id, self.password) if self._resumable else (0, NO_PASSWORD)
        request = ConnectRequest(0, self.last_zxid, self._requested_timeout_ms, session_id, password, self._read_only)
        assert link.connection is not None
        link.connection.send(request)

    def _on_connect_response(self, response: ConnectResponse) -> None:
        if response.timeout_ms <= 0 or response.session_id == 0:
            if self.session_id and self._resumable:
                self._finish(SessionState.EXPIRED)
            else:
                self._lose("the server opened no session")
            return
        self.session_id = SessionId(response.session_id)
        self.password = response.password
        self.timeout_ms = response.timeout_ms
        self._server_read_only = bool(response.read_only)
        self._cancel_timer()
        self._heartbeat.start(self.timeout_ms)
        if self._login is None:
            self._establish()
        else:
            self._negotiation = SaslNegotiation(self._login)
            self._send_sasl(self._negotiation.first())

    def _send_sasl(self, token: SaslRequest) -> None:
        self._send(Request(self._calls.next_xid(), OpCode.SASL, token))

    def _on_sasl_reply(self, negotiation: SaslNegotiation, reply: Reply) -> None:
        if reply.xid == PING_XID:
            return
        try:
            token = negotiation.answer(reply)
        except SaslError:
            self._auth_failed = True
            self._finish(SessionState.CLOSED)
            return
        if token is not None:
            self._send_sasl(token)
        else:
            self._negotiation = None
            self._establish()

    def _establish(self) -> None:
        """Prepare a new connection of the session: send the credentials, the watches and the queued calls."""
        if self._server_read_only:
            self._look_for_read_write()
        else:
            self._resumable = True
        for auth in self._auths:
            self._calls.send_auth(auth)
        for batch in self._watches.rearm(self.last_zxid):
            op = OpCode.SET_WATCHES2 if isinstance(batch, SetWatches2) else OpCode.SET_WATCHES
            self._send(Request(SET_WATCHES_XID, op, batch))
        self._calls.send_queued()
        self._notices.connected()
        self._set_state(SessionState.CONNECTED_READ_ONLY if self._server_read_only else SessionState.CONNECTED)

    def _look_for_read_write(self) -> None:
        def found(server: str) -> None:
            self._rotation.prefer(server)
            self.drop_connection(f"{server} takes writes")

        if self._asker is not None:
            self._search = ReadWriteSearch(self._asker, self._rotation, self._runtime, found)

    def on_link_down(self, link: Link, reason: str) -> None:
        """Handle a lost connection, or a failed attempt to connect."""
        if link is self._link:
            link.connection = None
            self._lose(reason)

    def _hang_up(self) -> Link | None:
        """Close the current connection, if any; stop its timers, search and SASL negotiation; return its link."""
        link, self._link = self._link, None
        if link is not None and link.connection is not None:
            link.connection.close()
        self._cancel_timer()
        self._heartbeat.stop()
        if self._search is not None:
            self._search.stop()
            self._search = None
        self._negotiation = None
        return link

    def _lose(self, reason: str) -> None:
        """Handle a connection that was lost or could not be opened: try the next server."""
        link = self._hang_up()
        assert link is not None
        self.last_failure = f"{self.server}: {reason}"
        was_connected = self._connected
        pause_ms = self._rotation.pause_ms(served=link.served)
        if self._attempts_max and self._rotation.failed >= self._attempts_max:
            self._finish(SessionState.CLOSED)
            return
        self._timer = self._runtime.call_later(pause_ms, self._connect)
        self._calls.lose()
        if was_connected:
            self._set_state(SessionState.SUSPENDED)

    def _finish(self, state: SessionState) -> None:
        """End the session, with the final state EXPIRED or CLOSED."""
        if self.state is SessionState.CLOSED or self.state is state:
            return
        self._closing = self._closing or state is SessionState.CLOSED
        self._hang_up()
        self._resumable = False
        self.session_id, self.password = SessionId(0), NO_PASSWORD
        self.timeout_ms = self._requested_timeout_ms
        calls = self._calls.drain_unanswered()
        waiters = self._notices.take_waiters()
        for auth in self._auths:
            auth.resolve(self._ended(""))
        for call in calls:
            call.fail(self._ended(call.path))
        fail_all(waiters, lambda: self._ended(""))
        watches = self._watches.take_all()
        self._set_state(state)
        if state is SessionState.EXPIRED:
            self._notices.expired(watches)

    def _over(self) -> bool:
        return self.state in (SessionState.EXPIRED, SessionState.CLOSED)

    def _ended(self, path: str) -> ZooKeeperError:
        return AuthFailed(path) if self._auth_failed else SessionExpired(path)

    # -- sending

    def _send(self, request: Request) -> None:
        link = self._link
        assert link is not None and link.connection is not None
        self._heartbeat.sent()
        link.connection.send(request)

    def _ping(self) -> None:
        self._send(Request(PING_XID, OpCode.PING, EmptyRequest()))

    # -- receiving

    def on_link_message(self, link: Link, message: FromServer) -> None:
        """Handle a frame from the server."""
        if link is not self._link:
            return
        if isinstance(message, ConnectResponse):
            self._on_connect_response(message)
            return
        if self._negotiation is not None:
            self._on_sasl_reply(self._negotiation, message)
            return
        if not self._connected:
            self._lose("a reply before the session's answer")
            return
        link.served = message.xid != SET_WATCHES_XID or not message.err  # not served if the watches could not be set
        self._heartbeat.received()
        if message.xid > 0:
            self._on_reply(message)
        elif message.xid == AUTH_XID:
            self._on_auth_reply(message)
        elif message.xid == SET_WATCHES_XID and message.err:
            self._lose(f"setWatches refused with error {message.err}")
        elif message.xid not in (PING_XID, SET_WATCHES_XID, NOTIFICATION_XID):
            self._lose(f"a reply with xid {message.xid}")

    def _on_reply(self, reply: Reply) -> None:
        call = self._calls.match_reply(reply)
        if call is None:
            self._lose(f"a reply with xid {reply.xid} out of order")
            return
        # Only replies advance last_zxid, as in ClientCnxn. One transaction can cause two watch events, and a ping or an
        # event may arrive between them; after a disconnect at that point, setWatches must still find the second.
        if reply.zxid > self.last_zxid:
            self.last_zxid = reply.zxid
        missing = reply.err == ErrorCode.NO_NODE and call.op == OpCode.EXISTS
        if reply.err and not missing:
            call.fail(error_for(reply.err, call.path))
            if reply.err == ErrorCode.SESSION_EXPIRED:
                self.expire()
            elif reply.err == ErrorCode.SESSION_MOVED:
                self._lose("the session has moved to another server")
            return
        if call.watch is not None:
            kind, path, watcher = call.watch
            self._watches.add(kind, path, watcher, exists=not missing)
        result = None if missing else reply.body
        if call.convert is not None:
            result = call.convert(result)
        if not call.sink.done():
            call.sink.set_result(result)

    def _on_auth_reply(self, reply: Reply) -> None:
        auth = self._calls.take_auth()
        if auth is None:
            self._lose("an auth reply to no request")
            return
        if reply.err:
            self._auth_failed = True
            auth.resolve(AuthFailed())
            self._finish(SessionState.CLOSED)
        else:
            auth.resolve(None)

    def on_link_watch(self, link: Link, event: WatchEvent) -> None:
        """Handle a watch that fired."""
        if link is not self._link:
            return
        link.served = True
        self._heartbeat.received()
        self._notices.event(event)
        watchers = self._watches.take_watchers(event)
        if watchers:
            self._notices.fired(event, watchers)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _set_state(self, state: SessionState) -> None:
        if self.state is state:
            return
        self.state = state
        self._connected = state in (SessionState.CONNECTED, SessionState.CONNECTED_READ_ONLY)
        self._notices.state(state)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
