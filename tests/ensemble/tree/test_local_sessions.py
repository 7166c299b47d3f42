"""Local sessions: only their server knows them, until their first ephemeral makes them global.

The replies are the same as ZooKeeper 3.9.5's.
"""

import pytest

from tests.ensemble.tree.tree_driver import CLOSE, PING, Ensemble, create, exists, multi, set_data, sync
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import PeerId, SessionId
from zabka.ensemble.records import OPEN_ACL, ConnectResponse, CreateFlag, CreateTTLRequest, Frames, OpCode, Request
from zabka.ensemble.tree.local_sessions import LocalSessions
from zabka.ensemble.txn import CreateSessionTxn

EPHEMERAL = CreateFlag.EPHEMERAL
OK = ErrorCode.OK
LEADER, LEARNER = 0, 1
GONE = (0, 0)


def ensemble(upgrading=True, **options):
    return Ensemble(2, local_sessions=True, local_sessions_upgrading=upgrading, **options)


def answer_to_connect(e, connection):
    response = e.sent[connection][0]
    assert isinstance(response, ConnectResponse)
    return response.session_id, response.timeout_ms


@pytest.mark.parametrize("server", [LEADER, LEARNER])
def test_local_session_opens_and_closes_without_a_transaction(server):
    e = ensemble()
    client = e.connect(server)
    assert answer_to_connect(e, client)[0] >> 56 == server + 1
    assert e.ask(client, CLOSE).err == OK
    assert client in e.closed and e.history == []


@pytest.mark.parametrize("server", [LEADER, LEARNER])
def test_local_session_reads_and_writes_like_a_global_session(server):
    e = ensemble()
    client = e.connect(server)
    assert e.ask(client, create("/a", b"1")).err == OK
    assert e.ask(client, multi(create("/b"), set_data("/a", b"2"))).err == OK
    assert e.ask(client, sync("/a")).err == OK
    assert e.ask(client, exists("/a")).body.stat.version == 1
    assert [txn.type for txn in e.history] == [OpCode.CREATE2, OpCode.MULTI]


@pytest.mark.parametrize("server", [LEADER, LEARNER])
def test_local_session_reconnects_only_to_its_own_server(server):
    e = ensemble()
    first = e.connect(server)
    session = e.session(first)
    assert answer_to_connect(e, e.connect(1 - server, session)) == GONE
    again = e.connect(server, session)
    assert answer_to_connect(e, again)[0] == session[0]
    assert first in e.closed, "a session has one connection"
    assert answer_to_connect(e, e.connect(server, (session[0], b"x" * 16))) == GONE
    assert again not in e.closed, "a wrong password closes no other connection"


@pytest.mark.parametrize("server", [LEADER, LEARNER])
@pytest.mark.parametrize(
    "request_",
    [
        create("/e", flags=EPHEMERAL),
        multi(create("/p"), create("/e", flags=EPHEMERAL, op=OpCode.CREATE)),
        multi(create("/p"), (OpCode.CREATE_TTL, CreateTTLRequest("/e", b"", OPEN_ACL, EPHEMERAL, 9))),
    ],
)
def test_first_ephemeral_upgrades_a_local_session(server, request_):
    e = ensemble()
    client = e.connect(server, timeout_ms=8_000)
    session = e.session(client)
    assert e.ask(client, request_).err == OK
    opening, making = e.history
    assert (opening.type, opening.session_id, opening.body) == (
        OpCode.CREATE_SESSION,
        session[0],
        CreateSessionTxn(8_000),
    )
    assert making.session_id == session[0]
    assert e.ask(client, exists("/e")).body.stat.ephemeral_owner == session[0]
    moved = e.connect(1 - server, session)
    assert answer_to_connect(e, moved)[0] == session[0], "any server takes up a global session"
    assert e.ask(moved, CLOSE).err == OK
    assert e.ask(e.connect(server), exists("/e")).err == ErrorCode.NO_NODE


@pytest.mark.parametrize("server", [LEADER, LEARNER])
def test_requests_sent_with_an_ephemeral_create_get_replies(server):
    """Requests sent together with the first ephemeral create, which makes the session global, also get replies."""
    e = ensemble()
    client = e.connect(server)
    ops = [create("/a"), create("/e", flags=EPHEMERAL), exists("/e"), CLOSE]
    e.message(client, Frames([Request(xid, op, body).encode() for xid, (op, body) in enumerate(ops, 1)]))
    assert [txn.type for txn in e.history] == [
        OpCode.CREATE2, OpCode.CREATE_SESSION, OpCode.CREATE2, OpCode.CLOSE_SESSION,
    ]  # fmt: skip
    assert client in e.closed


def test_leader_tracks_a_session_after_it_becomes_global():
    e = ensemble()
    client = e.connect(LEARNER, timeout_ms=4_000)
    e.ask(client, create("/e", flags=EPHEMERAL))
    for _ in range(4):
        e.advance(2_000)
        e.send(client, PING)
    assert client not in e.closed
    e.advance(6_000)
    assert client in e.closed
    assert e.history[-1].type == OpCode.CLOSE_SESSION
    assert e.ask(e.connect(LEADER), exists("/e")).err == ErrorCode.NO_NODE


@pytest.mark.parametrize("server", [LEADER, LEARNER])
def test_local_session_without_upgrading_creates_no_ephemeral(server):
    e = ensemble(upgrading=False)
    client = e.connect(server)
    refused = ErrorCode.EPHEMERAL_ON_LOCAL_SESSION
    assert e.ask(client, create("/e", flags=EPHEMERAL)).err == refused
    assert e.ask(client, create("no path", flags=EPHEMERAL)).err == refused, "before anything else is looked at"
    results = e.ask(client, multi(create("/p"), create("/e", flags=EPHEMERAL))).body.results
    assert [result.error for result in results] == [OK, refused]
    assert e.ask(client, create("/p")).err == OK, "the failed multi left nothing"


@pytest.mark.parametrize("server", [LEADER, LEARNER])
def test_silent_local_session_expires_within_a_tick_of_timeout(server):
    e = ensemble()
    silent, lively = e.connect(server, timeout_ms=4_000), e.connect(server, timeout_ms=4_000)
    session = e.session(silent)
    for _ in range(4):
        e.advance(1_000)
        e.send(lively, PING)
    assert silent not in e.closed
    e.advance(1_000)
    assert silent in e.closed and lively not in e.closed
    assert answer_to_connect(e, e.connect(server, session)) == GONE
    assert e.history == []


def test_learner_does_not_report_local_sessions_to_the_leader():
    e = ensemble()
    local, other = e.connect(LEARNER), e.connect(LEARNER)
    e.ask(other, create("/e", flags=EPHEMERAL))
    e.services[LEARNER].drain_touched()
    e.send(local, PING)
    e.send(other, PING)
    assert [session_id for session_id, _ in e.services[LEARNER].drain_touched()] == [e.session(other)[0]]


def test_closing_a_local_session_waits_for_its_write():
    e = ensemble(auto=False)
    client = e.connect(LEARNER)
    e.take(client)
    e.send(client, create("/a"))
    e.send(client, CLOSE)
    assert e.take(client) == []
    e.commit()
    assert [reply.xid for reply in e.take(client)] == [1, 2]
    assert client in e.closed


def test_local_sessions_end_when_their_server_stops_serving():
    e = ensemble()
    client = e.connect(LEARNER)
    session = e.session(client)
    e.run(LEARNER, e.services[LEARNER].stop_serving(e.now))
    e.run(LEARNER, e.services[LEARNER].start_serving(e.now, False))
    assert answer_to_connect(e, e.connect(LEARNER, session)) == GONE


def test_late_write_of_an_ended_local_session_is_rejected():
    e = ensemble(auto=False)
    client = e.connect(LEADER, timeout_ms=4_000)
    e.advance(6_000)
    assert client in e.closed
    e.send(client, create("/a"))
    assert not e.proposed


def test_connect_reply_to_an_old_client_has_no_read_only_flag():
    e = ensemble()
    old, new = e.connect(read_only=None), e.connect(read_only=True)
    assert (len(e.sent[old][0].encode()), len(e.sent[new][0].encode())) == (36, 37)
    assert e.sent[new][0].read_only is False


def test_leader_accepts_writes_of_other_servers_local_sessions() -> None:
    """A leader accepts writes of a session that only another server knows.

    The first byte of a session id is its server's id (LeaderSessionTracker.checkSession).
    """
    sessions = LocalSessions(PeerId(3), 100, upgrading=True)
    assert sessions.admits(SessionId(2 << 56 | 5)) and sessions.admits(SessionId((200 << 56 | 5) - (1 << 64)))
    assert not sessions.admits(SessionId(3 << 56 | 5))
