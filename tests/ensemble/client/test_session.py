"""The client's connection and session logic with scripted servers, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ensemble.client.client_fakes import PASSWORD, FakeEnsemble
from zabka.ensemble.client.service import SessionState, WatchEvent
from zabka.ensemble.errors import AuthFailed, ConnectionLoss, ErrorCode, SessionExpired, ZooKeeperError
from zabka.ensemble.records import (
    AUTH_XID,
    PING_XID,
    SET_WATCHES_XID,
    AuthPacket,
    ConnectRequest,
    EventType,
    OpCode,
    Reply,
    Request,
    SetWatches,
)

CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


async def outcome(awaitable: Any) -> Any:
    """Return the result of an awaitable, or the type of the exception that it raised."""
    try:
        return await awaitable
    except ZooKeeperError as error:
        return type(error)


def test_client_start_returns_after_the_session_is_established() -> None:
    world = FakeEnsemble()
    world.negotiated_ms = 4_000
    client, states = world.started()
    assert (client.session_id, client.state, client.session_timeout_ms) == (0x1000, CONNECTED, 4_000)
    assert states == [CONNECTED]
    assert world.last.sent[0] == ConnectRequest(0, 0, 6_000, 0, bytes(16), False)


def test_calls_before_the_session_exists_wait_for_it() -> None:
    world = FakeEnsemble()
    client = world.client()
    early = client.get("/early")
    world.run(client.start())
    assert world.run(outcome(early))[0] == b"/early"


def test_requests_are_sent_immediately_and_in_call_order() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    futures: list[Any] = [client.get("/a"), client.set("/b", b""), client.delete("/c"), client.sync("/")]
    ops = [(request.xid, OpCode(request.op)) for request in world.last.requests()]
    assert ops == [(1, OpCode.GET_DATA), (2, OpCode.SET_DATA), (3, OpCode.DELETE), (4, OpCode.SYNC)]
    world.advance(10)
    assert all(future.done() for future in futures)


def test_servers_are_tried_in_random_order() -> None:
    orders = set()
    for seed in range(12):
        world = FakeEnsemble(seed)
        world.refusing = {"a:1", "b:2", "c:3"}
        client = world.client()
        world.runtime.spawn(client.start(), "start")
        world.advance(20)
        orders.add(tuple(host for _, host in world.attempts[:3]))
        assert sorted(orders.copy().pop()) == ["a:1", "b:2", "c:3"]
    assert len(orders) > 3


def test_client_tries_servers_in_rounds_with_growing_pauses() -> None:
    world = FakeEnsemble()
    world.refusing = {"a:1", "b:2", "c:3"}
    client = world.client()
    world.runtime.spawn(client.start(), "start")
    world.advance(30_000)
    times = [at for at, _ in world.attempts]
    assert times[2] - times[0] <= 5
    pauses = [times[i * 3] - times[i * 3 - 1] for i in range(1, 8)]
    assert 25 <= pauses[0] <= 60
    assert pauses[4] > pauses[1] > 50
    assert all(pause <= 1_100 for pause in pauses)
    assert client.last_failure.endswith("refused")


def test_silent_server_is_left_after_its_share_of_the_timeout() -> None:
    world = FakeEnsemble()
    world.silent = True
    client = world.client()
    world.runtime.spawn(client.start(), "start")
    world.advance(4_500)
    assert [at for at, _ in world.attempts] == [0, 2_000, 4_000]


def test_session_moves_to_the_next_server_after_connection_loss() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    world.run(client.set("/a", b""))
    first = world.last
    first.drop()
    world.advance(10)
    assert states == [CONNECTED, SUSPENDED, CONNECTED]
    assert world.last.host != first.host
    assert world.last.sent[0] == ConnectRequest(0, 1, 6_000, 0x1000, PASSWORD, False)
    assert client.session_id == 0x1000


def test_connection_loss_fails_only_the_calls_in_flight() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.muted = True
    in_flight = [client.set("/a", b""), client.get("/b")]
    world.last.drop()
    world.advance(2)
    assert client.state is SUSPENDED
    waiting = client.get("/later")
    world.muted = False
    assert [world.run(outcome(future)) for future in in_flight] == [ConnectionLoss, ConnectionLoss]
    assert world.run(outcome(waiting))[0] == b"/later"
    assert [request.xid for request in world.last.requests()] == [3], "xids go on, as ClientCnxn's do"


def test_idle_client_pings_after_a_third_of_the_timeout() -> None:
    world = FakeEnsemble()
    _client, states = world.started()
    world.advance(1_990)
    assert world.last.pings() == 0
    world.advance(30)
    assert world.last.pings() == 1
    world.advance(60_000)
    assert world.last.pings() == pytest.approx(31, abs=1)
    assert states == [CONNECTED]


def test_client_with_regular_requests_sends_no_pings() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    for _ in range(10):
        world.advance(1_000)
        world.run(client.get("/a"))
    assert world.last.pings() == 0


def test_client_leaves_server_silent_for_two_thirds_of_timeout() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    world.muted = True
    future = client.get("/a")
    world.advance(3_990)
    assert states == [CONNECTED]
    world.advance(20)
    assert states == [CONNECTED, SUSPENDED]
    assert world.run(outcome(future)) is ConnectionLoss
    assert "nothing heard" in client.last_failure


def test_stalled_client_reads_waiting_replies_before_timing_out() -> None:
    world = FakeEnsemble()
    _client, states = world.started()
    world.runtime.pause()
    world.advance(5_500)
    world.runtime.resume()
    world.advance(10_000)
    assert states == [CONNECTED]
    assert len(world.connections) == 1


def test_session_expiry_fails_all_calls_until_renewal() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    events: list[WatchEvent] = []
    world.run(client.get("/a", events.append))
    world.run(client.get_children("/a", events.append))
    world.live_sessions.clear()
    world.last.drop()
    world.advance(2)
    waiting = client.get("/waiting")
    world.advance(60_000)
    assert states == [CONNECTED, SUSPENDED, EXPIRED]
    assert world.run(outcome(waiting)) is SessionExpired
    assert world.run(outcome(client.get("/later"))) is SessionExpired
    assert events == [WatchEvent(EventType.NONE, "/a")]
    assert client.session_id == 0

    world.run(client.renew())
    assert (client.session_id, client.state) == (0x1001, CONNECTED)
    assert world.run(outcome(client.get("/a")))[0] == b"/a"
    assert events == [WatchEvent(EventType.NONE, "/a")]
    # The connect request contains the last zxid that the client has seen, so that the new session cannot read an older
    # state.
    assert world.last.sent[0] == ConnectRequest(0, 2, 6_000, 0, bytes(16), False)


def test_session_expired_reply_ends_the_session() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    world.scripted[OpCode.SET_DATA] = world.fail_with(ErrorCode.SESSION_EXPIRED)
    assert world.run(outcome(client.set("/a", b""))) is SessionExpired
    assert states == [CONNECTED, EXPIRED]


def test_moved_session_is_resumed_at_the_next_server() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    world.scripted[OpCode.SET_DATA] = world.fail_with(ErrorCode.SESSION_MOVED)
    world.run(outcome(client.set("/a", b"")))
    world.advance(10)
    assert states == [CONNECTED, SUSPENDED, CONNECTED]


def test_watches_are_rearmed_before_later_requests_are_sent() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    events: list[WatchEvent] = []
    world.scripted[OpCode.EXISTS] = world.fail_with(ErrorCode.NO_NODE)
    world.run(client.get("/data", events.append))
    assert world.run(client.exists("/absent", events.append)) is None
    world.run(client.get_children("/parent", events.append))
    world.last.drop()
    world.advance(2)
    waiting = client.get("/waiting")
    world.run(outcome(waiting))
    assert world.last.sent[1] == Request(
        SET_WATCHES_XID, OpCode.SET_WATCHES, SetWatches(3, ["/data"], ["/absent"], ["/parent"])
    )
    world.last.event(EventType.DATA_CHANGED, "/data")
    world.last.event(EventType.CREATED, "/absent")
    world.last.event(EventType.CHILDREN_CHANGED, "/parent")
    world.last.event(EventType.DATA_CHANGED, "/data")
    world.advance(5)
    assert [event[:2] for event in events] == [
        (EventType.DATA_CHANGED, "/data"),
        (EventType.CREATED, "/absent"),
        (EventType.CHILDREN_CHANGED, "/parent"),
    ]


def test_many_watches_are_rearmed_below_the_packet_limit() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    paths = [f"/watched/{'x' * 200}{i:05}" for i in range(3_000)]
    for path in paths:
        client.get(path, lambda event: None)
    world.advance(100)
    world.last.drop()
    world.advance(10)
    batches = [m for m in world.last.sent if isinstance(m, Request) and m.xid == SET_WATCHES_XID]
    assert len(batches) > 4
    assert max(len(batch.encode()) for batch in batches) < 140_000
    armed = [path for batch in batches for path in batch.body.data_watches]  # type: ignore[union-attr]
    assert armed == paths


def test_read_whose_reply_is_lost_leaves_no_watch() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.muted = True
    lost = client.get("/a", lambda event: None)
    world.last.drop()
    world.advance(2)
    world.muted = False
    world.run(client.get("/b"))
    assert world.run(outcome(lost)) is ConnectionLoss
    assert all(not isinstance(m, Request) or m.xid != SET_WATCHES_XID for m in world.last.sent)


def test_last_seen_zxid_advances_only_with_request_replies() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.run(client.get("/a", lambda event: None))
    world.last.event(EventType.DATA_CHANGED, "/other", zxid=500)
    world.last.deliver(Reply(PING_XID, 600, 0))
    world.advance(5)
    assert client.last_zxid == 1


def test_watcher_registered_repeatedly_is_called_once() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    events: list[WatchEvent] = []
    watcher = events.append
    world.run(client.get("/a", watcher))
    world.run(client.exists("/a", watcher))
    world.run(client.get_children("/a", watcher))
    world.last.event(EventType.DELETED, "/a")
    world.advance(5)
    assert [event[:2] for event in events] == [(EventType.DELETED, "/a")]


def test_reply_with_an_unexpected_xid_closes_the_connection() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    world.scripted[OpCode.GET_DATA] = lambda connection, request: Reply(request.xid + 7, 1, 0)
    assert world.run(outcome(client.get("/a"))) is ConnectionLoss
    world.advance(10)
    assert states == [CONNECTED, SUSPENDED, CONNECTED]


def test_client_backs_off_if_every_new_connection_is_dropped() -> None:
    world = FakeEnsemble()
    world.dropping = True
    _client, states = world.started("a:1")
    world.advance(10_000)
    assert 10 < len(world.attempts) < 30
    assert set(states) == {CONNECTED, SUSPENDED}


def test_closing_the_client_ends_its_session_and_disconnects() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    last_write = client.set("/a", b"")
    world.run(client.close())
    assert last_write.done()
    assert [request.op for request in world.connections[0].requests()] == [OpCode.SET_DATA, OpCode.CLOSE_SESSION]
    assert world.connections[0].closed
    assert states == [CONNECTED, SessionState.CLOSED]
    assert world.run(outcome(client.get("/a"))) is SessionExpired
    world.advance(60_000)
    assert len(world.connections) == 1


def test_client_close_without_a_server_returns_after_its_timeout() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.refusing = {"a:1", "b:2", "c:3"}
    world.last.drop()
    world.advance(5)
    before_ms = world.now_ms
    world.run(client.close(500))
    assert world.now_ms - before_ms == 500
    assert client.state is SessionState.CLOSED


def test_session_closed_while_disconnected_ends_at_next_server() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.last.drop()
    world.advance(1)
    world.run(client.close())
    assert [request.op for request in world.last.requests()] == [OpCode.CLOSE_SESSION]


def test_closing_session_cannot_be_renewed() -> None:
    """A client that is being closed cannot renew its session.

    Otherwise a program that renews the session after each SessionExpired would loop without ever waiting (seed 300074).
    """
    world = FakeEnsemble()
    client, _ = world.started()
    closing = world.runtime.spawn(client.close(), "close")
    world.advance(0)
    assert not closing.done()
    assert world.run(outcome(client.renew())) is SessionExpired
    world.advance(10)
    assert closing.done()


def test_concurrent_close_calls_send_one_request() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    first = world.runtime.spawn(client.close(), "first")
    second = world.runtime.spawn(client.close(), "second")
    world.advance(10)
    assert first.done() and second.done()
    assert len(world.last.requests()) == 1


def test_start_raises_if_the_client_is_closed_concurrently() -> None:
    world = FakeEnsemble()
    world.silent = True
    client = world.client()
    starting = world.runtime.spawn(outcome(client.start()), "start")
    world.advance(10)
    world.run(client.close())
    world.advance(1)
    assert starting.done() and starting.result is SessionExpired


def test_auth_packets_are_sent_first_on_every_connection() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.run(client.add_auth("digest", b"u:p"))
    world.last.drop()
    world.advance(2)
    world.run(client.get("/a"))
    assert world.last.sent[1] == Request(AUTH_XID, OpCode.AUTH, AuthPacket(0, "digest", b"u:p"))


def test_rejected_auth_packet_ends_the_session_with_auth_failed() -> None:
    world = FakeEnsemble()
    client, states = world.started()
    world.scripted[OpCode.AUTH] = lambda connection, request: Reply(AUTH_XID, 0, ErrorCode.AUTH_FAILED)
    assert world.run(outcome(client.add_auth("nonsense", b""))) is AuthFailed
    assert world.run(outcome(client.get("/a"))) is AuthFailed
    assert states[-1] is SessionState.CLOSED


def test_rejected_set_watches_is_retried_with_pauses() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    world.run(client.get("/data", lambda event: None))
    world.scripted[OpCode.SET_WATCHES] = lambda connection, request: Reply(
        request.xid, 1, ErrorCode.SESSION_CLOSED_REQUIRE_SASL
    )
    before = len(world.connections)
    world.last.drop()
    world.advance(10_000)
    assert 10 < len(world.connections) - before < 100, "two thousand without pauses"
    del world.scripted[OpCode.SET_WATCHES]
    world.run(client.get("/data"))


def test_error_in_a_watcher_stops_its_node_but_not_other_nodes() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    events: list[WatchEvent] = []

    def broken(event: WatchEvent) -> None:
        raise RuntimeError("broken watcher")

    world.run(client.get("/a", broken))
    world.run(client.get("/a", events.append))
    world.last.event(EventType.DATA_CHANGED, "/a")
    world.advance(5)
    assert len(events) == 1
    assert [str(crash) for crash in world.crashes] == ["broken watcher"]
    assert client.state is CONNECTED


def test_cancelled_call_does_not_disturb_reply_order() -> None:
    world = FakeEnsemble()
    client, _ = world.started()
    task = world.runtime.spawn(outcome(client.get("/a")), "cancelled")
    task.cancel()
    assert world.run(outcome(client.get("/b")))[0] == b"/b"


def test_same_seed_gives_the_same_history() -> None:
    def history() -> list[tuple[int, str]]:
        world = FakeEnsemble(7)
        world.refusing = {"a:1", "b:2", "c:3"}
        world.runtime.spawn(world.client().start(), "start")
        world.advance(5_000)
        return world.attempts

    assert history() == history()
