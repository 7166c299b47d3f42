"""Scripted ZooKeeper for tests of the client's logic, on virtual time. Each test sets the replies."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import Receiver, SessionState, WatchEvent
from zabka.ensemble.records import (
    AUTH_XID,
    PING_XID,
    SET_WATCHES_XID,
    ClientMessage,
    ConnectRequest,
    ConnectResponse,
    Create2Response,
    EventType,
    GetChildrenResponse,
    GetDataResponse,
    OpCode,
    Reply,
    Request,
    Stat,
    StatResponse,
    SyncResponse,
)
from zabka.simulation.engine.scheduler import Scheduler

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10)
PASSWORD = b"p" * 16
NETWORK_US = 1_000


class FakeConnection:
    """One connection to the fake ensemble.

    `sent` contains what the client sent. With `deliver` and `drop`, the test acts as the server.
    """

    def __init__(self, world: FakeEnsemble, host: str, receiver: Receiver) -> None:
        self.world = world
        self.host = host
        self.receiver = receiver
        self.sent: list[ClientMessage] = []
        self.closed = False

    def send(self, message: ClientMessage) -> None:
        assert not self.closed
        # Record the message itself. The ensemble receives it after the network delay.
        self.sent.append(message)
        self.world.scheduler.after(NETWORK_US, lambda: self.world.on_frame(self, message))

    def close(self) -> None:
        self.closed = True

    def deliver(self, message: ConnectResponse | Reply) -> None:
        self._later(lambda: self.receiver.on_message(message))

    def event(self, kind: EventType, path: str, zxid: int = -1) -> None:
        self._later(lambda: self.receiver.on_watch(WatchEvent(kind, path), zxid))

    def drop(self, reason: str = "reset") -> None:
        def lose() -> None:
            self.closed = True
            self.receiver.on_disconnected(reason)

        self._later(lose)

    def _later(self, callback: Callable[[], None]) -> None:
        self.world.scheduler.after(NETWORK_US, lambda: None if self.closed else callback())

    def requests(self) -> list[Request]:
        return [m for m in self.sent if isinstance(m, Request) and m.xid > 0]

    def pings(self) -> int:
        return sum(isinstance(m, Request) and m.xid == PING_XID for m in self.sent)


class FakeEnsemble:
    """Fake connector and servers. By default, they accept connections, open sessions, and reply to all requests with
    success.
    """

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(seed), on_crash=self._on_crash)
        self.connections: list[FakeConnection] = []
        self.attempts: list[tuple[int, str]] = []
        self.crashes: list[BaseException] = []
        self.refusing: set[str] = set()
        self.silent = False
        self.muted = False
        self.dropping = False
        self.negotiated_ms: int | None = None
        self.live_sessions: set[int] = set()
        self.next_session = 0x1000
        self.zxid = 0
        self.scripted: dict[OpCode, Callable[[FakeConnection, Request], Reply | None]] = {}

    def _on_crash(self, name: str, crash: BaseException) -> None:
        self.crashes.append(crash)

    def connect(self, host: str, receiver: Receiver) -> FakeConnection:
        connection = FakeConnection(self, host, receiver)
        self.attempts.append((self.now_ms, host))
        self.connections.append(connection)
        if host in self.refusing:
            connection.drop("refused")
        elif not self.silent:
            connection._later(receiver.on_connected)
        return connection

    @property
    def last(self) -> FakeConnection:
        return self.connections[-1]

    @property
    def now_ms(self) -> int:
        return self.scheduler.now_us // 1000

    def on_frame(self, connection: FakeConnection, message: ClientMessage) -> None:
        if connection.closed or self.muted:
            return
        if isinstance(message, ConnectRequest):
            connection.deliver(self.open_session(message))
            if self.dropping:
                connection.drop()
            return
        scripted = self.scripted.get(OpCode(message.op))
        reply = scripted(connection, message) if scripted else self.answer(message)
        if reply is not None:
            connection.deliver(reply)

    def open_session(self, request: ConnectRequest) -> ConnectResponse:
        session = request.session_id
        if not session:
            session = self.next_session
            self.next_session += 1
            self.live_sessions.add(session)
        if session not in self.live_sessions:
            return ConnectResponse(0, 0, 0, bytes(16))
        return ConnectResponse(0, self.negotiated_ms or request.timeout_ms, session, PASSWORD)

    def answer(self, request: Request, err: int = 0) -> Reply:
        if request.xid in (PING_XID, AUTH_XID, SET_WATCHES_XID):
            return Reply(request.xid, self.zxid, err)
        self.zxid += 1
        return Reply(request.xid, self.zxid, err, None if err else _body(request))

    def fail_with(self, err: int) -> Callable[[FakeConnection, Request], Reply]:
        return lambda connection, request: self.answer(request, err)

    # -- steps of a test

    def run(self, awaitable: Any, limit_ms: int = 60_000) -> Any:
        async def wait() -> Any:
            return await awaitable

        return run_task(self.scheduler, self.runtime, wait(), limit_ms)

    def advance(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)

    def client(self, hosts: str = "a:1,b:2,c:3", session_timeout_ms: int = 6_000) -> Client:
        return Client(hosts, self, self.runtime, session_timeout_ms=session_timeout_ms)

    def started(self, hosts: str = "a:1,b:2,c:3", session_timeout_ms: int = 6_000) -> tuple[Client, list[SessionState]]:
        client = self.client(hosts, session_timeout_ms)
        states: list[SessionState] = []
        client.add_listener(states.append)
        self.run(client.start())
        return client, states


def _body(request: Request) -> Any:
    path = getattr(request.body, "path", "")
    match request.op:
        case OpCode.CREATE2:
            return Create2Response(path, STAT)
        case OpCode.GET_DATA:
            return GetDataResponse(path.encode(), STAT)
        case OpCode.SET_DATA | OpCode.EXISTS:
            return StatResponse(STAT)
        case OpCode.GET_CHILDREN:
            return GetChildrenResponse(["b", "a"])
        case OpCode.SYNC:
            return SyncResponse(path)
    return None
