"""Replies to a client that has not read its earlier replies, and requests that wait until the client has read them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ensemble.tree.tree_driver import CLOSE, PING, Ensemble, children, create, exists, get, multi, set_data, sync
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import (
    ACL,
    AddWatchRequest,
    AuthPacket,
    EmptyRequest,
    Frames,
    GetDataResponse,
    MultiOp,
    MultiReadRequest,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Reply,
    Request,
)
from zabka.ensemble.tree import answer_queues
from zabka.ensemble.tree.backlog import MULTI_READ_BYTES_MAX

TAKEN = Frames([])
SETTLED_BYTES_MAX = 8 << 20
LARGE = b"x" * 1000


@pytest.fixture(autouse=True)
def less_is_settled(monkeypatch):
    monkeypatch.setattr(answer_queues, "SETTLED_BYTES_MAX", SETTLED_BYTES_MAX)


def frames(*requests, first=1):
    return [Request(xid, op, body).encode() for xid, (op, body) in enumerate(requests, first)]


def replies(ensemble, client):
    """Return the messages since the previous call as (xid, rest of the frame), whether sent as bytes or as objects."""
    found = []
    for message in ensemble.take(client):
        rest = message if isinstance(message, bytes) else b""
        if isinstance(message, Reply):
            encoded = message.encode()
            rest = len(encoded).to_bytes(4, "big") + encoded
        while rest:
            size = 4 + int.from_bytes(rest[:4], "big")
            found.append((int.from_bytes(rest[4:8], "big", signed=True), rest[8:size]))
            rest = rest[size:]
    return found


def xids(ensemble, client):
    return [xid for xid, _ in replies(ensemble, client)]


def served(answers_bytes_max=3000, **config):
    ensemble = Ensemble(answers_bytes_max=answers_bytes_max, **config)
    client = ensemble.connect()
    ensemble.ask(client, create("/a", LARGE))
    ensemble.take(client)
    return ensemble, client


def test_reads_wait_until_the_client_has_read_earlier_replies() -> None:
    ensemble, client = served()
    ensemble.message(client, Frames(frames(*[get("/a")] * 7)))
    assert xids(ensemble, client) == [1, 2, 3]
    ensemble.message(client, Frames(frames(get("/a", True), PING, first=8)))
    assert xids(ensemble, client) == []
    ensemble.message(client, TAKEN)
    assert xids(ensemble, client) == [4, 5, 6]
    ensemble.message(client, TAKEN)
    assert xids(ensemble, client) == [7, 8, -2]
    assert len(ensemble.services[0].watches) == 1
    ensemble.message(client, TAKEN)
    ensemble.message(client, Frames(frames(*[get("/a")] * 2, first=10)))
    assert xids(ensemble, client) == [10, 11]


def test_long_replies_of_every_type_count_towards_the_backlog() -> None:
    ensemble, client = served(1000)
    ensemble.ask(client, (OpCode.AUTH, AuthPacket(0, "digest", b"u" * 1000 + b":p")))
    long_acl = [ACL(31, "world", "anyone"), ACL(31, "digest", "u" * 1000 + ":hash")]
    ensemble.ask(client, create("/" + "c" * 1000, b"", 1, long_acl))
    for question in (
        get("/a", True), children("/"), (OpCode.GET_CHILDREN, PathWatchRequest("/", False)),
        (OpCode.GET_ACL, PathRequest("/" + "c" * 1000)), (OpCode.GET_EPHEMERALS, PathRequest("/")),
        (OpCode.WHO_AM_I, EmptyRequest()),
        (OpCode.MULTI_READ, MultiReadRequest([MultiOp(OpCode.GET_DATA, PathWatchRequest("/a", False))])),
    ):  # fmt: skip
        ensemble.take(client)
        ensemble.message(client, Frames(frames(question, question)))
        assert xids(ensemble, client) == [1], question
        ensemble.message(client, TAKEN)
        assert xids(ensemble, client) == [2]
        ensemble.message(client, TAKEN)


def test_reads_after_a_write_wait_for_a_slow_client() -> None:
    ensemble, client = served()
    ensemble.auto = False
    ensemble.message(client, Frames(frames(set_data("/a", LARGE), *[get("/a")] * 4, children("/"), exists("/a"))))
    assert xids(ensemble, client) == []
    ensemble.commit()
    assert xids(ensemble, client) == [1, 2, 3, 4]
    ensemble.message(client, TAKEN)
    assert xids(ensemble, client) == [5, 6, 7]


def test_waiting_read_does_not_see_a_later_write_of_the_session() -> None:
    ensemble, client = served()
    ensemble.message(client, Frames(frames(*[get("/a")] * 5, set_data("/a", b"later"), get("/a"))))
    assert xids(ensemble, client) == [1, 2, 3] and not ensemble.proposed
    ensemble.message(client, TAKEN)
    answers = replies(ensemble, client)
    assert [xid for xid, _ in answers] == [4, 5, 6, 7]
    assert LARGE in answers[1][1] and b"later" in answers[3][1]


def test_write_reply_precedes_a_later_event_despite_backlog() -> None:
    ensemble, client = served()
    other = ensemble.connect()
    ensemble.ask(client, (OpCode.ADD_WATCH, AddWatchRequest("/a", 0)))
    ensemble.take(client)
    ensemble.auto = False
    ensemble.message(client, Frames(frames(*[get("/a")] * 3, set_data("/a", b"own"))))
    ensemble.send(other, set_data("/a", b"another's"))
    ensemble.commit()
    assert xids(ensemble, client) == [1, 2, 3, -1, 4, -1]


def test_sync_reply_after_delayed_reads_has_the_newest_zxid() -> None:
    ensemble, client = served()
    other = ensemble.connect()
    ensemble.message(client, Frames(frames(*[get("/a")] * 4, sync())))
    ensemble.ask(other, set_data("/a", b"later"))
    assert xids(ensemble, client) == [1, 2, 3]
    ensemble.message(client, TAKEN)
    zxids = [int.from_bytes(rest[:8], "big") for _, rest in replies(ensemble, client)]
    assert zxids == [ensemble.zxid] * 2


@pytest.mark.parametrize("together", [False, True])
def test_read_after_a_sync_excludes_a_later_write_of_its_session(together: bool) -> None:
    """A read after a sync does not show a later write of the same session.

    A leader commits several transactions at once, and only then replies to the syncs between them.
    """
    ensemble, client = served(1 << 20)
    ensemble.auto = False
    asked = frames(set_data("/a", b"before"), sync(), get("/a"), set_data("/a", b"after"), get("/a"))
    ensemble.message(client, Frames(asked))
    (ensemble.commit_together if together else ensemble.commit)()
    ensemble.finish_sync()
    answers = replies(ensemble, client)
    assert [xid for xid, _ in answers] == [1, 2, 3, 4, 5]
    assert b"before" in answers[2][1] and b"after" in answers[4][1]
    assert not ensemble.services[0].clients.syncing


def test_sync_is_not_confused_with_an_earlier_sync_of_equal_xid() -> None:
    """A sync is not confused with an earlier sync of the session that has the same xid.

    The client reconnected in between, and numbers its requests from 1 again, as kazoo does.
    """
    ensemble, _ = served(1 << 20)
    client = ensemble.connect()
    session = ensemble.session(client)
    ensemble.auto = False
    ensemble.message(client, Frames(frames(sync(), set_data("/a", b"own"))))
    ensemble.commit()
    assert xids(ensemble, client)[-2:] == [1, 2]
    ensemble.hang_up(client)
    back = ensemble.connect(session=session)
    ensemble.revalidate()
    ensemble.take(back)
    ensemble.message(back, Frames(frames(sync(), get("/a"))))
    ensemble.finish_sync()
    assert xids(ensemble, back) == []
    ensemble.finish_sync()
    assert xids(ensemble, back) == [1, 2]
    assert not ensemble.services[0].clients.syncing


@pytest.mark.parametrize("late", [create("/late"), multi(create("/late"))])
def test_sync_ignores_a_write_sent_through_another_server(late) -> None:
    """A sync is not confused with a write of the session that was sent through another server.

    The write was in flight when the session moved, so it is rejected. It has the same xid as a request on the new
    connection.
    """
    ensemble = Ensemble(servers=3)
    client = ensemble.connect(server=1)
    session = ensemble.session(client)
    ensemble.auto = False
    here = ensemble.connect(server=2, session=session)
    ensemble.revalidate()
    ensemble.take(here)
    ensemble.message(client, Frames(frames(late, first=2)))
    ensemble.message(here, Frames(frames(sync(), late)))
    ensemble.commit(1)
    assert xids(ensemble, here) == []


def test_slow_reader_with_writes_receives_every_reply() -> None:
    """A client that reads slowly while it writes receives all replies.

    It reads a thousand znodes at once in one thread, and writes in another.
    """
    ensemble, client = served(1 << 20)
    ensemble.ask(client, set_data("/a", bytes(1 << 20)))
    ensemble.take(client)
    many = 9 + (SETTLED_BYTES_MAX >> 20)
    ensemble.message(client, Frames(frames(*[get("/a")] * many)))
    ensemble.message(client, Frames(frames(set_data("/a", b"done"), get("/a"), first=many + 1)))
    received = []
    while new := xids(ensemble, client):
        received += new
        ensemble.message(client, TAKEN)
    assert received == list(range(1, many + 3)) and client not in ensemble.closed


def test_client_that_never_reads_is_closed_but_keeps_its_writes() -> None:
    """A client that reads no replies is disconnected, but the writes that it has sent are applied.

    The writes were in flight before the unread replies exceeded the limit.
    """
    ensemble, client = served()
    ensemble.auto = False
    many = 2 + (SETTLED_BYTES_MAX >> 20)
    large = set_data("/a", bytes(1 << 20))
    ensemble.message(client, Frames(frames(large, *[get("/a")] * many, set_data("/a", b"done"))))
    ensemble.commit()
    assert client in ensemble.closed
    assert ensemble.services[0].tree.nodes["/a"].data == b"done"


def test_closed_session_receives_all_earlier_replies() -> None:
    ensemble, client = served()
    ensemble.message(client, Frames(frames(*[get("/a")] * 9, CLOSE)))
    received = []
    while client not in ensemble.closed:
        received += xids(ensemble, client)
        ensemble.message(client, TAKEN)
    assert received + xids(ensemble, client) == [*range(1, 11)]


def test_closed_session_receives_replies_only_up_to_a_byte_limit() -> None:
    ensemble, client = served()
    ensemble.ask(client, set_data("/a", bytes(1 << 20)))
    ensemble.take(client)
    ensemble.auto = False
    many = 9 + (SETTLED_BYTES_MAX >> 20)
    ensemble.message(client, Frames(frames(sync(), *[get("/a")] * many, CLOSE)))
    ensemble.commit()
    assert client in ensemble.closed
    assert xids(ensemble, client) == list(range(1, many - 7))


def test_disconnect_discards_waiting_replies_and_the_session() -> None:
    ensemble, client = served(local_sessions=True)
    ensemble.message(client, Frames(frames(*[get("/a")] * 9)))
    clients = ensemble.services[0].clients
    assert clients.held_back
    ensemble.hang_up(client)
    assert not clients.held_back and not clients.sessions


def test_returning_session_does_not_wait_for_its_old_connection() -> None:
    ensemble, _ = served()
    again = ensemble.connect()
    session = ensemble.session(again)
    ensemble.message(again, Frames(frames(*[get("/a")] * 9)))
    ensemble.hang_up(again)
    back = ensemble.connect(session=session)
    ensemble.take(back)
    ensemble.message(back, Frames(frames(get("/a"), set_data("/a", b""), get("/a"))))
    assert xids(ensemble, back) == [1, 2, 3]
    ensemble.message(back, Frames(frames(*[get("/a")] * 2000, first=4)))
    third = ensemble.connect(session=session)
    assert back in ensemble.closed
    ensemble.take(third)
    ensemble.message(third, Frames(frames(get("/a"))))
    assert xids(ensemble, third) == [1]


def test_multi_read_reply_is_limited_in_length() -> None:
    ensemble, client = served()
    ensemble.ask(client, set_data("/a", bytes(1 << 20)))
    many = 5 + (MULTI_READ_BYTES_MAX >> 20)
    reads = [MultiOp(OpCode.GET_DATA, PathWatchRequest("/a", False))] * many
    results = ensemble.ask(client, (OpCode.MULTI_READ, MultiReadRequest(reads))).body.results
    assert [isinstance(result.body, GetDataResponse) for result in results] == [True] * (many - 5) + [False] * 5
    assert {result.error for result in results[-5:]} == {ErrorCode.MARSHALLING_ERROR}


REQUESTS = st.one_of(
    st.builds(get, st.sampled_from(["/a", "/b", "/none"]), st.booleans()),
    st.builds(exists, st.sampled_from(["/a", "/b"]), st.booleans()),
    st.builds(children, st.sampled_from(["/", "/a"]), st.booleans()),
    st.builds(set_data, st.sampled_from(["/a", "/b"]), st.integers(0, 400).map(bytes)),
    st.builds(create, st.just("/b"), st.integers(0, 400).map(bytes)),
    st.builds(sync, st.just("/")),
    st.just(PING),
)
STEPS = st.lists(
    st.one_of(st.lists(REQUESTS, min_size=1, max_size=8), st.sampled_from(["commit", "together", "sync", "taken"])),
    max_size=25,
)


@settings(deadline=None, max_examples=300)
@given(STEPS)
def test_backlog_limit_does_not_affect_replies_and_their_order(steps) -> None:
    received = []
    for answers_bytes_max in (500, 1 << 40):
        ensemble, client = served(answers_bytes_max)
        ensemble.auto = False
        xid = 1
        for step in steps:
            if isinstance(step, list):
                ensemble.message(client, Frames(frames(*step, first=xid)))
                xid += len(step)
            elif step == "sync" and ensemble.syncs:
                ensemble.finish_sync()
            elif step == "taken":
                ensemble.message(client, TAKEN)
            elif step != "sync":
                (ensemble.commit if step == "commit" else ensemble.commit_together)()
        for _ in range(200):
            ensemble.message(client, TAKEN)
            ensemble.commit()
            while ensemble.syncs:
                ensemble.finish_sync()
        assert client not in ensemble.closed
        received.append(replies(ensemble, client))
        assert len([None for answered, _ in received[-1] if answered != -1]) == xid - 1
    assert received[0] == received[1]
