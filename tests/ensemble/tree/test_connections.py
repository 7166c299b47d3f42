"""Client connections and their sessions: how they connect, move to another server, expire and close."""

import pytest

from tests.ensemble.tree.tree_driver import (
    CLOSE,
    PING,
    Ensemble,
    create,
    exists,
    multi,
    set_data,
    sync,
)
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId
from zabka.ensemble.records import (
    ConnectRequest,
    ConnectResponse,
    EmptyRequest,
    OpCode,
    PathRequest,
    Request,
)
from zabka.ensemble.tree.sessions import NO_PASSWORD, password_of
from zabka.ensemble.zab.effects import CloseConnection
from zabka.journal.cause import expiry_cause
from zabka.journal.events import (
    SessionClosed,
    SessionCreated,
    SessionExpired,
)

GONE = ConnectResponse(0, 0, 0, NO_PASSWORD)


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(1, 2000), (5000, 5000), (10**9, 20_000), (-5, 2000)])
def test_session_timeout_is_clamped_to_two_to_twenty_ticks(asked_ms, granted_ms):
    ensemble = Ensemble(tick_ms=1000)
    client = ensemble.connect(timeout_ms=asked_ms)
    assert ensemble.sent[client][0].timeout_ms == granted_ms
    assert ensemble.facts(SessionCreated)[0].timeout_ms == granted_ms


def test_session_timeout_limits_can_be_configured():
    ensemble = Ensemble(tick_ms=1000, min_session_timeout_ms=7, max_session_timeout_ms=9)
    assert [ensemble.sent[ensemble.connect(timeout_ms=t)][0].timeout_ms for t in (1, 8, 10)] == [7, 8, 9]


def test_new_session_reply_is_sent_after_its_commit():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.send(client, create("/early"))
    assert ensemble.sent[client] == [] and len(ensemble.proposed) == 1, "requests wait until the session exists"
    ensemble.commit()
    response = ensemble.sent[client][0]
    assert response.password == password_of(response.session_id) and not response.read_only
    ensemble.commit()
    assert ensemble.sent[client][1].err == 0


def test_client_with_a_future_zxid_is_disconnected():
    ensemble = Ensemble()
    client = ensemble.connect(session=(-1, bytes(16)), seen=ensemble.zxid + 10)
    assert client in ensemble.closed and ensemble.sent[client] == [] and not ensemble.history
    assert ensemble.refusals == [
        "session 0xffffffffffffffff: the client has seen zxid 0x10000000a, the last one here is 0x0; "
        "it must try another server, or be restarted if no server has that zxid"
    ]


@pytest.mark.parametrize("server", [0, 1])
def test_session_can_reconnect_to_any_server(server):
    ensemble = Ensemble(servers=3)
    session = ensemble.session(first := ensemble.connect(server=2))
    ensemble.ask(first, create("/e", b"", 1))
    ensemble.hang_up(first)
    again = ensemble.connect(server=server, session=session, timeout_ms=4000, seen=ensemble.zxid)
    assert ensemble.sent[again] == [ConnectResponse(0, 4000, *session)]
    assert ensemble.ask(again, exists("/e")).body.stat.ephemeral_owner == session[0]
    assert ensemble.ask(again, set_data("/e")).err == 0


@pytest.mark.parametrize("server", [0, 1])
def test_wrong_password_or_unknown_session_gets_expired_reply(server):
    ensemble = Ensemble(servers=2)
    session_id, _ = ensemble.session(owner := ensemble.connect(server=server))
    for session in ((session_id, b"x" * 16), (session_id, None), (77, password_of(77))):
        client = ensemble.connect(server=server, session=session)
        assert ensemble.sent[client] == [GONE] and client in ensemble.closed
    assert owner not in ensemble.closed, "a stranger cannot throw the owner out"


def test_reconnect_to_same_server_closes_the_older_connection():
    for server in (0, 1):
        ensemble = Ensemble(servers=2)
        session = ensemble.session(old := ensemble.connect(server=server))
        ensemble.ask(old, exists("/x", True))
        new = ensemble.connect(server=server, session=session)
        assert old in ensemble.closed and new not in ensemble.closed
        assert len(ensemble.services[server].watches) == 0
        assert ensemble.ask(new, exists("/")).err == 0


def test_session_reply_from_the_leader_goes_to_newest_connection():
    ensemble = Ensemble(servers=2, auto=False)
    first = ensemble.connect(server=1)
    ensemble.commit()
    session = ensemble.session(first)
    second = ensemble.connect(server=1, session=session)
    third = ensemble.connect(server=1, session=session)
    assert {first, second} <= ensemble.closed and len(ensemble.asked) == 2
    ensemble.revalidate()
    assert ensemble.sent[third][0].session_id == session[0]
    ensemble.revalidate()
    assert len(ensemble.sent[third]) == 1 and ensemble.sent[second] == []


def test_server_validates_unknown_session_with_the_leader():
    ensemble = Ensemble(servers=2, auto=False)
    first = ensemble.connect()
    txn = ensemble.proposed.popleft()
    ensemble.run(0, ensemble.services[0].apply(ensemble.now, [txn]))
    second = ensemble.connect(server=1, session=ensemble.session(first))
    ensemble.run(1, ensemble.services[1].apply(ensemble.now, [txn]))
    assert ensemble.sent[second] == []
    ensemble.revalidate()
    assert ensemble.sent[second][0].session_id == ensemble.session(first)[0]


def test_connect_request_is_allowed_only_as_the_first_frame():
    ensemble = Ensemble()
    rude = ensemble.dial()
    ensemble.message(rude, Request(1, OpCode.EXISTS, PathRequest("/")))
    assert rude in ensemble.closed
    twice = ensemble.connect()
    ensemble.message(twice, ConnectRequest(0, 0, 1000, 0, None))
    assert twice in ensemble.closed
    ensemble.message(twice, Request(1, OpCode.PING, EmptyRequest()))  # dropped: it was in flight at the close


def test_connection_is_closed_if_the_server_is_not_serving():
    ensemble = Ensemble()
    service = ensemble.services[0]
    client = ensemble.connect()
    idle = ensemble.dial()
    effects = service.stop_serving(ensemble.now)
    assert effects == [CloseConnection(client), CloseConnection(idle)]
    ensemble.run(0, effects)
    late = ensemble.connect()
    assert late in ensemble.closed and ensemble.sent[late] == []
    assert service.views.statistics().connections == 0 and service.views.statistics().sessions == 1, "the tree stays"


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 0), (0, 1)])
@pytest.mark.parametrize("request_", [create("/a"), multi(create("/a"))])
def test_write_of_a_moved_session_closes_the_old_connection(before, after, request_):
    ensemble = Ensemble(servers=3)
    session = ensemble.session(old := ensemble.connect(server=before))
    assert ensemble.ask(old, create("/mine")).err == 0
    new = ensemble.connect(server=after, session=session)
    assert old not in ensemble.closed, "the old server does not know yet"
    answers = len(ensemble.sent[old])
    ensemble.send(old, request_)
    assert old in ensemble.closed and len(ensemble.sent[old]) == answers, "SessionMoved is never sent"
    assert ensemble.ask(new, exists("/a")).err == ErrorCode.NO_NODE
    assert ensemble.ask(new, create("/b")).err == 0


def test_silent_session_expires_and_its_ephemerals_are_deleted():
    ensemble = Ensemble(servers=2)
    silent, lively = ensemble.connect(server=1, timeout_ms=4000), ensemble.connect(server=1, timeout_ms=4000)
    session_id, _ = ensemble.session(silent)
    ensemble.ask(silent, create("/e", b"", 1))
    for _ in range(4):
        ensemble.advance(1000)
        ensemble.send(lively, PING)
    assert silent not in ensemble.closed and not ensemble.facts(SessionExpired)
    ensemble.advance(2000)
    assert ensemble.facts(SessionExpired) == [
        # The second server reported the session's last contact to the leader only a second later, with its reply to a
        # ping.
        SessionExpired(session_id, 4000, heard_ms_ago=5000, heard_by=2)
    ]
    assert silent in ensemble.closed and lively not in ensemble.closed
    assert (
        ensemble.facts(SessionClosed)
        == [SessionClosed(session_id, ensemble.zxid, ["/e"], expiry_cause(session_id))] * 2
    )
    assert ensemble.ask(lively, exists("/e")).err == ErrorCode.NO_NODE
    late = ensemble.connect(server=1, session=(session_id, password_of(SessionId(session_id))))
    assert ensemble.sent[late] == [GONE]


def test_disconnected_session_lives_until_its_timeout():
    ensemble = Ensemble()
    client, watcher = ensemble.connect(timeout_ms=3000), ensemble.connect(timeout_ms=20_000)
    session = ensemble.session(client)
    ensemble.ask(client, create("/e", b"", 1))
    ensemble.hang_up(client)
    ensemble.advance(3000)
    assert ensemble.ask(watcher, exists("/e")).err == 0
    again = ensemble.connect(session=session, timeout_ms=3000)
    ensemble.advance(3000)
    assert ensemble.ask(again, exists("/e")).err == 0


def test_new_leader_restarts_the_timeout_of_every_session():
    ensemble = Ensemble()
    session = ensemble.session(ensemble.connect(timeout_ms=5000))
    ensemble.advance(4000)
    service = ensemble.services[0]
    ensemble.run(0, service.stop_serving(ensemble.now))
    service.start_leading(ensemble.now, 2)
    ensemble.run(0, service.start_serving(ensemble.now, True))
    ensemble.advance(5000)
    assert service.tree.sessions == {session[0]: 5000}
    ensemble.advance(1000)
    assert service.tree.sessions == {}


def test_requests_of_an_expired_session_are_dropped():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect(timeout_ms=2000)
    ensemble.commit()
    ensemble.take(client)
    ensemble.advance(4000)
    ensemble.send(client, exists("/"))
    ensemble.send(client, create("/a"))
    assert ensemble.take(client) == [] and len(ensemble.proposed) == 1
    ensemble.commit()
    assert client in ensemble.closed and ensemble.take(client) == []


@pytest.mark.parametrize("server", [0, 1])
def test_reply_to_close_session_is_the_last_before_disconnecting(server):
    ensemble = Ensemble(servers=2, auto=False)
    client = ensemble.connect(server=server)
    ensemble.commit()
    ensemble.take(client)
    ensemble.send(client, create("/e", b"", 1))
    ensemble.send(client, sync())
    xid = ensemble.send(client, CLOSE)
    ensemble.send(client, exists("/e"))
    ensemble.commit()
    assert [(m.xid, m.err) for m in ensemble.take(client)] == [(1, 0), (2, 0), (xid, 0)]
    assert client in ensemble.closed
    ensemble.finish_sync()
    service = ensemble.services[server]
    assert not service.clients.sessions and not service.clients.attaching and service.views.statistics().sessions == 0
    assert not service.clients.drain_touched(), "a closed session is not reported to the leader"


def test_disconnected_client_leaves_no_state_after_its_writes():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.commit()
    ensemble.send(client, create("/a"))
    ensemble.hang_up(client)
    ensemble.hang_up(client)
    ensemble.commit()
    service = ensemble.services[0]
    assert "/a" in service.tree.nodes and not service.clients.sessions and not service.clients.connections


def test_write_reply_is_not_sent_for_the_write_at_another_server() -> None:
    """The reply to a write is not sent for a write with the same xid that came through another server.

    kazoo numbers its requests from 1 again on every connection.
    """
    ensemble = Ensemble(servers=3, auto=False)
    old = ensemble.connect(server=1)
    ensemble.commit()
    ensemble.send(old, create("/old"), xid=1)
    new = ensemble.connect(server=2, session=ensemble.session(old))
    ensemble.revalidate()
    ensemble.take(new)
    ensemble.send(new, create("/new"), xid=1)
    ensemble.commit(1)
    assert ensemble.take(new) == [], "the reply to another server's create is not sent here"
    ensemble.commit(1)
    (reply,) = ensemble.take(new)
    assert (reply.xid, reply.err, reply.body.path) == (1, 0, "/new")


def test_leader_without_clients_closes_client_connections() -> None:
    """A leader with leaderServes=no closes client connections (Leader.lead).

    Clients connect to the learners, and the leader commits the requests that learners forward.
    """
    ensemble = Ensemble(2, leader_serves=False)
    refused = ensemble.connect(0)
    assert refused in ensemble.closed and ensemble.sent[refused] == []
    client = ensemble.connect(1)
    assert ensemble.ask(client, create("/a", b"1")).err == 0
    assert [service.tree.nodes["/a"].data for service in ensemble.services] == [b"1", b"1"]
