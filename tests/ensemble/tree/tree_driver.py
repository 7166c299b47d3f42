"""Run Services without ZAB: the first is the leader, the others are learners, and the test commits transactions."""

from __future__ import annotations

from collections import defaultdict, deque

from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import (
    OPEN_ACL,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    DeleteRequest,
    EmptyRequest,
    MultiOp,
    MultiRequest,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Reply,
    Request,
    SetACLRequest,
    SetDataRequest,
)
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import AskRevalidate, EnsembleConfig, Submit, SubmitSync, TreeDiffers
from zabka.ensemble.zab.effects import Answer, CloseConnection, Effect, Emit, SetTimer


def create(path, data=b"", flags=0, acl=OPEN_ACL, op=OpCode.CREATE2):
    return op, CreateRequest(path, data, acl, flags)


def delete(path, version=-1):
    return OpCode.DELETE, DeleteRequest(path, version)


def set_data(path, data=b"", version=-1):
    return OpCode.SET_DATA, SetDataRequest(path, data, version)


def set_acl(path, acl, version=-1):
    return OpCode.SET_ACL, SetACLRequest(path, acl, version)


def exists(path, watch=False):
    return OpCode.EXISTS, PathWatchRequest(path, watch)


def get(path, watch=False):
    return OpCode.GET_DATA, PathWatchRequest(path, watch)


def children(path, watch=False):
    return OpCode.GET_CHILDREN2, PathWatchRequest(path, watch)


def sync(path="/"):
    return OpCode.SYNC, PathRequest(path)


def multi(*ops):
    return OpCode.MULTI, MultiRequest([MultiOp(op, body) for op, body in ops])


CLOSE = (OpCode.CLOSE_SESSION, EmptyRequest())
PING = (OpCode.PING, EmptyRequest())


class Ensemble:
    """Services of several servers. With `auto`, each proposal is committed immediately, else when the test calls
    `commit()`.
    """

    def __init__(self, servers=1, auto=True, tick_ms=1000, **config):
        self.tick_ms = tick_ms
        self.services = [
            Service(
                EnsembleConfig(i + 1, tuple(range(1, servers + 1)), tick_time_ms=tick_ms, **config), lambda: "nonce"
            )
            for i in range(servers)
        ]
        self.auto = auto
        self.now_ms = 5_000
        self.zxid = make_zxid(1, 0)
        self.proposed: deque[Txn] = deque()
        self.history: list[Txn] = []
        self.syncs: deque = deque()
        self.asked: deque = deque()
        self.differed = 0
        self.sent: dict[int, list] = defaultdict(list)
        self.closed: set[int] = set()
        self.refusals: list[str] = []
        self.events: list = []
        self.timers: dict[int, int] = {}
        self.lapsing_check_ms: int | None = None
        self._connections = 0
        self._at: dict[int, int] = {}
        self._xids: dict[int, int] = defaultdict(int)
        self.services[0].start_leading(self.now, Epoch(1))
        for i, service in enumerate(self.services):
            self.run(i, service.start_serving(self.now, i == 0))

    @property
    def now(self):
        return Instant(self.now_ms, 1_700_000_000_000 + self.now_ms)

    def run(self, server: int, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(connection=connection, message=message):
                    assert connection not in self.closed, "answered after closing"
                    self.sent[connection].append(message)
                case CloseConnection(connection=connection, reason=reason):
                    assert connection not in self.closed, "closed twice"
                    self.closed.add(connection)
                    self.refusals += [reason] if reason else []
                case SetTimer(name="local-sessions.expiry", delay_ms=delay_ms):
                    self.timers[server] = self.now_ms + delay_ms
                case SetTimer(name="lapsing-nodes.check", delay_ms=delay_ms):
                    assert server == 0, "only the leader deletes"
                    self.lapsing_check_ms = self.now_ms + delay_ms
                case Emit(event=event):
                    self.events.append((server, event))
                case Submit(request=request):
                    self.zxid += 1
                    origin = LinkId(server) if server else None
                    self.proposed += self.services[0].prepare_all(self.now, [request], self.zxid, origin)
                    if self.auto:
                        self.commit()
                case SubmitSync(request=request):
                    self.syncs.append((server, request))
                    if self.auto:
                        self.finish_sync()
                case AskRevalidate(session_id=session_id, timeout_ms=timeout_ms):
                    self.asked.append((server, session_id, timeout_ms))
                    if self.auto:
                        self.revalidate()
                case TreeDiffers():
                    self.differed += 1
                case _:
                    raise AssertionError(f"unexpected {effect!r}")

    def commit(self, count=None):
        count = len(self.proposed) if count is None else count
        for _ in range(count):
            txn = Txn.decode(self.proposed.popleft().encoded())
            self.history.append(txn)
            for i, service in enumerate(self.services):
                self.run(i, service.apply(self.now, [txn]))

    def commit_together(self, count=None):
        """Commit `count` transactions or all. Each server applies them in one turn."""
        count = len(self.proposed) if count is None else count
        txns = [Txn.decode(self.proposed.popleft().encoded()) for _ in range(count)]
        self.history += txns
        for i, service in enumerate(self.services):
            if txns:
                self.run(i, service.apply(self.now, txns))

    def finish_sync(self):
        server, request = self.syncs.popleft()
        self.run(server, self.services[server].sync_done(self.now, request))

    def revalidate(self):
        server, session_id, timeout_ms = self.asked.popleft()
        valid = self.services[0].revalidate(
            self.now, session_id, timeout_ms, LinkId(server) if server else None, PeerId(server + 1)
        )
        self.run(server, self.services[server].revalidated(self.now, session_id, valid, self.zxid))

    def advance(self, ms):
        """Advance the time by `ms`. In every tick, the leader checks sessions and the learners send pings."""
        end = self.now_ms + ms
        while self.now_ms < end:
            tick_ms = min(self.now_ms + self.tick_ms, end)
            while self.lapsing_check_ms is not None and self.lapsing_check_ms <= tick_ms:
                self.now_ms, self.lapsing_check_ms = self.lapsing_check_ms, None
                self.run(0, self.services[0].delete_lapsed(self.now))
            self.now_ms = tick_ms
            for server, service in enumerate(self.services[1:], 1):
                for session_id, timeout_ms in service.drain_touched():
                    self.services[0].touch(self.now, session_id, timeout_ms, PeerId(server + 1))
            self.run(0, self.services[0].expire_sessions(self.now))
            for server in [server for server, due_ms in self.timers.items() if due_ms <= self.now_ms]:
                del self.timers[server]
                self.run(server, self.services[server].expire_local_sessions(self.now))

    def dial(self, server=0, identities=()) -> int:
        self._connections += 1
        connection = ConnectionId(self._connections)
        self._at[connection] = server
        self.run(server, self.services[server].on_client_connected(self.now, connection, identities))
        return connection

    def connect(self, server=0, session=(0, None), timeout_ms=10_000, seen=0, read_only=False, identities=()) -> int:
        """Open a connection and send its ConnectRequest. `session` is (id, password)."""
        connection = self.dial(server, identities)
        self.message(connection, ConnectRequest(0, seen, timeout_ms, session[0], session[1], read_only))
        return connection

    def message(self, connection, message):
        server = self._at[connection]
        self.run(server, self.services[server].on_client(self.now, connection, message))

    def hang_up(self, connection):
        server = self._at[connection]
        self.run(server, self.services[server].on_client_closed(self.now, connection))

    def send(self, connection, request, xid=None) -> int:
        """Send (op, body) and return the xid."""
        op, body = request
        if xid is None:
            self._xids[connection] += op != OpCode.PING
            xid = -2 if op == OpCode.PING else self._xids[connection]
        self.message(connection, Request.decode(Request(xid, op, body).encode()))
        return xid

    def ask(self, connection, request) -> Reply:
        """Send a request and return its reply, which must be the last message."""
        xid = self.send(connection, request)
        reply = self.sent[connection][-1]
        assert isinstance(reply, Reply) and reply.xid == xid, f"no reply to {xid}: {self.sent[connection]}"
        return reply

    def session(self, connection) -> tuple[int, bytes]:
        """Return the (id, password) of a connection's session."""
        response = self.sent[connection][0]
        assert isinstance(response, ConnectResponse)
        return response.session_id, response.password

    def take(self, connection) -> list:
        """Return the messages since the previous call."""
        messages, self.sent[connection] = self.sent[connection], []
        return messages

    def facts(self, kind):
        return [event for _, event in self.events if isinstance(event, kind)]
