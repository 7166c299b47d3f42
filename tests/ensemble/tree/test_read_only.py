"""A server without a leader answers reads (readonlymode.enabled). Its replies are the same as ZooKeeper 3.9.5's."""

from random import Random

import pytest

from tests.ensemble.tree.tree_driver import (
    CLOSE,
    PING,
    Ensemble,
    children,
    create,
    delete,
    exists,
    get,
    multi,
    set_acl,
    set_data,
    sync,
)
from tests.ensemble.zab import zab_driver
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId, Epoch, PeerId, SessionId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OPEN_ACL, ConnectRequest, ConnectResponse, OpCode, Reply, Request, SetWatches
from zabka.ensemble.server.config.zoo_cfg import parse
from zabka.ensemble.server.operator.words import NOT_SERVING, FourLetterCommands, TraceMask
from zabka.ensemble.tree.service import Service
from zabka.ensemble.tree.sessions import password_of
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import (
    Answer,
    Append,
    Barrier,
    CloseConnection,
    Recovered,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    SendNotification,
    SetTimer,
    TruncateLog,
)
from zabka.ensemble.zab.messages import Notification, PeerState, Vote
from zabka.ensemble.zab.peer import READ_ONLY_TIMER, Peer
from zabka.journal.events import TxnLogTruncated

OK, REFUSED = ErrorCode.OK, ErrorCode.NOT_READ_ONLY
LEADER, ALONE = 0, 1


def cut_off(local_sessions=True):
    """Return two servers. The second is partitioned from the first, has /a, and knows one global session."""
    e = Ensemble(2, local_sessions=local_sessions, local_sessions_upgrading=local_sessions)
    writer = e.connect(ALONE)
    e.ask(writer, create("/a", b"1"))
    e.ask(writer, create("/e", flags=1))
    e.global_session = e.session(writer)
    e.run(ALONE, e.services[ALONE].stop_serving(e.now))
    e.run(ALONE, e.services[ALONE].start_read_only(e.now))
    return e


def ask(e, **options):
    return e.connect(ALONE, read_only=True, **options)


# -- which clients can connect


def test_read_only_client_is_notified_of_a_read_only_server():
    e = cut_off()
    response = e.sent[ask(e)][0]
    assert response.read_only is True and response.session_id >> 56 == ALONE + 1
    assert len(response.encode()) == 37


@pytest.mark.parametrize("asked", [False, None])
def test_read_only_server_rejects_clients_without_read_only_flag(asked):
    e = cut_off()
    client = e.connect(ALONE, read_only=asked)
    assert e.sent[client] == [] and client in e.closed


def test_new_sessions_on_a_read_only_server_need_local_sessions():
    e = cut_off(local_sessions=False)
    client = ask(e)
    assert e.sent[client] == [] and client in e.closed


@pytest.mark.parametrize("local_sessions", [True, False])
@pytest.mark.parametrize("right_password", [True, False])
def test_client_with_global_session_is_disconnected_if_no_leader(local_sessions, right_password):
    e = cut_off(local_sessions)
    session_id, password = e.global_session
    client = ask(e, session=(session_id, password if right_password else b"x" * 16))
    assert e.sent[client] == [] and client in e.closed


def test_local_session_can_reconnect_until_it_expires():
    e = cut_off()
    first = ask(e)
    session = e.session(first)
    again = ask(e, session=session)
    assert e.sent[again][0].session_id == session[0] and first in e.closed
    assert e.ask(again, CLOSE).err == OK and again in e.closed
    late = e.sent[ask(e, session=session)][0]
    assert (late.session_id, late.timeout_ms, late.read_only) == (0, 0, True)


def test_read_only_server_accepts_unknown_global_sessions():
    e = cut_off(local_sessions=False)
    unknown = SessionId((LEADER + 1) << 56 | 77)
    client = ask(e, session=(unknown, password_of(unknown)))
    assert e.sent[client][0].session_id == unknown, "the session may be alive: only a leader knows"
    assert e.ask(client, get("/a")).err == OK
    assert e.ask(client, CLOSE).err == REFUSED and client not in e.closed
    assert e.sent[ask(e, session=(unknown, b"x" * 16))][0].session_id == 0


def test_client_with_a_later_zxid_is_disconnected():
    e = cut_off()
    client = ask(e, seen=e.zxid + 1)
    assert e.sent[client] == [] and client in e.closed


def test_silent_session_on_a_read_only_server_expires():
    e = cut_off()
    client = ask(e, timeout_ms=4_000)
    e.advance(3_000)
    assert client not in e.closed
    e.advance(2_000)
    assert client in e.closed


# -- which requests are allowed


@pytest.mark.parametrize(
    "request_",
    [
        create("/b"), create("/b", op=OpCode.CREATE), delete("/a"), set_data("/a", b"2"), set_acl("/a", OPEN_ACL),
        sync("/a"), multi(create("/b")), multi(),
    ],
)  # fmt: skip
def test_read_only_server_rejects_requests_that_need_a_quorum(request_):
    e = cut_off()
    client = ask(e)
    digest, history = e.services[ALONE].checkpoint(), len(e.history)
    reply = e.ask(client, request_)
    assert (reply.err, reply.zxid, reply.body) == (REFUSED, e.zxid, None)
    assert e.services[ALONE].checkpoint() == digest and len(e.history) == history
    assert client not in e.closed


def test_read_only_server_rejects_malformed_and_valid_writes():
    e = cut_off()
    client = ask(e)
    e.message(client, Request(1, OpCode.CREATE, None, ErrorCode.MARSHALLING_ERROR))
    assert e.sent[client][-1].err == REFUSED


def test_read_only_server_replies_to_reads_watches_and_pings():
    e = cut_off()
    client = ask(e)
    assert e.ask(client, get("/a", watch=True)).body.data == b"1"
    assert e.ask(client, exists("/e")).body.stat.ephemeral_owner == e.global_session[0]
    assert e.ask(client, exists("/none")).err == ErrorCode.NO_NODE
    assert e.ask(client, children("/")).err == OK
    assert e.send(client, PING) == -2 and e.sent[client][-1].err == OK
    e.message(client, Request(-8, OpCode.SET_WATCHES, SetWatches(0, ["/a"], [], [])))
    assert e.sent[client][-1].xid == -8


def test_error_replies_of_a_read_only_server_keep_request_order():
    e = cut_off()
    client = ask(e)
    e.take(client)
    for request in (get("/a"), create("/b"), exists("/a")):
        e.send(client, request)
    assert [(reply.xid, reply.err) for reply in e.take(client)] == [(1, OK), (2, REFUSED), (3, OK)]


# -- when read-only mode begins and ends, in one isolated peer of three

GRACE_MS = 2_000
DISK = (Append, Barrier, SaveAcceptedEpoch, SaveCurrentEpoch, SaveSnapshot, TruncateLog)


class Alone:
    """One peer of three, without connections to the others.

    The test advances the peer's time.
    """

    def __init__(self, **options):
        self.now_ms = 0
        options = {"read_only_mode": True, "local_sessions": True, "tick_time_ms": 500, **options}
        config = EnsembleConfig(1, (1, 2, 3), **options)
        self.service = Service(config)
        self.peer = Peer(config, self.service, Recovered(Epoch(1), Epoch(1), None, []), Random(1))
        self.effects = self.peer.on_start(self.now)

    @property
    def now(self):
        return Instant(self.now_ms, 1_700_000_000_000 + self.now_ms)

    def grace_ms(self):
        found = [e.delay_ms for e in self.effects if isinstance(e, SetTimer) and e.name == READ_ONLY_TIMER]
        return found[-1] if found else None

    def wait(self):
        self.now_ms += self.grace_ms()
        self.effects = self.peer.on_timer(self.now, READ_ONLY_TIMER)

    def connect(self, number, read_only=True):
        connection = ConnectionId(number)
        request = ConnectRequest(0, 0, 10_000, 0, None, read_only)
        self.peer.on_client_connected(self.now, connection)
        return self.peer.on_clients(self.now, [(connection, request)])

    def elect(self, leader):
        vote = Vote(PeerId(leader), Zxid(0), Epoch(1))
        for src in (2, 3):
            self.effects += self.peer.on_notification(
                self.now, PeerId(src), Notification(PeerState.LOOKING, vote, self.peer.round)
            )


def test_read_only_service_starts_after_longer_of_2_s_and_a_tick():
    assert Alone().grace_ms() == GRACE_MS
    assert Alone(tick_time_ms=3_000).grace_ms() == 3_000
    assert Alone(read_only_mode=False).grace_ms() is None
    alone = Alone()
    assert alone.connect(1) == [CloseConnection(1)], "not yet"
    alone.wait()
    status = alone.peer.status()
    assert (status.state, status.serving, status.read_only) == (PeerState.LOOKING, False, True)
    response = next(e.message for e in alone.connect(2) if isinstance(e, Answer))
    assert isinstance(response, ConnectResponse) and response.read_only


def test_read_only_service_stops_when_the_election_ends():
    for leader in (1, 3):
        alone = Alone()
        alone.wait()
        alone.connect(1)
        alone.effects = []
        alone.elect(leader)
        assert CloseConnection(1) in alone.effects
        assert not alone.peer.status().read_only
        alone.peer.on_timer(alone.now, READ_ONLY_TIMER)
        assert not alone.peer.status().read_only, "a late timer changes nothing"


def test_read_only_server_continues_its_leader_election():
    alone = Alone()
    alone.wait()
    effects = alone.peer.on_timer(alone.now, "election.resend")
    assert [e.to for e in effects if isinstance(e, SendNotification)] == [2, 3]


def test_read_only_server_writes_neither_log_nor_snapshots():
    alone = Alone()
    alone.wait()
    effects = alone.effects + alone.connect(1)
    for xid, (op, body) in enumerate([create("/a"), get("/"), multi(create("/b")), sync(), CLOSE], 1):
        effects += alone.peer.on_clients(alone.now, [(ConnectionId(1), Request(xid, op, body))])
    assert not [e for e in effects if isinstance(e, DISK)]
    assert [e.message.err for e in effects if isinstance(e, Answer) and isinstance(e.message, Reply)] == [
        REFUSED, OK, REFUSED, REFUSED, OK,
    ]  # fmt: skip


class NoConnections:
    """Connections of a server without a client port."""

    open_at = None

    def address(self, connection_id):
        return "somewhere"

    def newcomers(self):
        return []


def test_four_letter_words_report_read_only_mode(tmp_path):
    (tmp_path / "myid").write_text("1")
    servers = "\n".join(f"server.{i}=127.0.0.1:{2000 + i}:{3000 + i}" for i in (1, 2, 3))
    keys = "clientPort=2181\ninitLimit=5\nsyncLimit=2\n4lw.commands.whitelist=*\nlocalSessionsEnabled=true"
    alone = Alone()
    config = parse(f"dataDir={tmp_path}\n{keys}\n{servers}")
    no_metrics = None  # these commands do not read them
    words = FourLetterCommands(config, alone.peer, alone.service, NoConnections(), no_metrics, TraceMask())
    assert words.answer("isro") == "null"
    assert words.answer("srvr") == NOT_SERVING
    alone.wait()
    session_id = next(e.message for e in alone.connect(1) if isinstance(e, Answer)).session_id
    assert words.answer("isro") == "ro"
    assert "Mode: read-only\n" in words.answer("srvr")
    assert f"Local Sessions(1):\n0x{session_id:x}\t10000ms\n" in words.answer("dump")


class ReadOnlyList(zab_driver.ListApplication):
    """Replicated list that records whether it is in read-only mode."""

    read_only = False

    def start_read_only(self, now):
        assert not self.serving
        self.serving = self.read_only = True
        return []

    def stop_serving(self, now):
        self.read_only = False
        return super().stop_serving(now)


def test_read_only_minority_later_catches_up_without_loss(monkeypatch):
    """A server that was read-only in a minority loses no committed transactions when it follows a leader again.

    ZOOKEEPER-3526: in ZooKeeper, a read-only server left traces in the history that it offers to others, so that
    committed transactions were truncated.
    """
    monkeypatch.setattr(zab_driver, "ListApplication", ReadOnlyList)
    world = zab_driver.World(7, read_only_mode=True)
    world.start()
    world.run_until(world.settled)
    leader = world.leader()
    minority = next(n for n in world.nodes.values() if n is not leader)
    for _ in range(5):
        world.write(leader.id)
    world.run_until(lambda: len(minority.app.entries) == 5)
    held = list(minority.app.entries)
    world.isolate(minority.id)
    world.run_until(lambda: minority.app.read_only)
    for _ in range(5):
        world.write(leader.id)
    world.run(2_000)
    assert minority.app.entries == held
    world.heal()
    world.run_until(lambda: world.converged() and not minority.app.read_only)
    assert minority.app.entries[: len(held)] == held and len(minority.app.entries) == len(held) + 5
    assert not world.emitted(TxnLogTruncated, minority.id)
