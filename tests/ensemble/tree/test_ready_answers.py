"""Requests get the same replies whether they arrive as bytes (fast path) or as objects.

Bytes, order and effects are the same.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ensemble.tree.tree_driver import (
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
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.jute import pack_int
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    AuthPacket,
    EmptyRequest,
    Frames,
    OpCode,
    PathWatchRequest,
    Reply,
    Request,
    SetDataRequest,
)
from zabka.ensemble.tree.answer_queues import PLAIN_READS_MAX
from zabka.ensemble.tree.ready_answers import RESPONSE_BYTES_MAX, RESPONSES_MAX, answer_plain_reads, is_well_formed
from zabka.ensemble.tree.requests import OUTSTANDING_MAX

PATHS = ("/a", "/b", "/a/c", "/ü", "/open", "/closed", "/nowhere", "", "x", "/a/../b")
ADMIN_ONLY = (ACL(31, "digest", "u:x"),)
READABLE = (ACL(1, "world", "anyone"), ACL(30, "digest", "u:x"))
PATH = st.sampled_from(PATHS)
WATCH = st.sampled_from([False, False, False, True])
REQUESTS = st.one_of(
    st.builds(get, PATH, WATCH),
    st.builds(exists, PATH, WATCH),
    st.builds(children, PATH, WATCH),
    st.builds(set_data, PATH, st.one_of(st.none(), st.binary(max_size=3)), st.sampled_from([-1, -1, 0, 1])),
    st.builds(create, PATH, st.binary(max_size=3), st.sampled_from([0, 1, 2, 9]), st.just(OPEN_ACL), st.just(1)),
    st.builds(create, PATH, st.just(b"c2"), st.just(0), st.sampled_from([READABLE, ADMIN_ONLY, ()])),
    st.builds(delete, PATH, st.sampled_from([-1, 0])),
    st.builds(set_acl, PATH, st.sampled_from([READABLE, ADMIN_ONLY, OPEN_ACL])),
    st.builds(sync, PATH),
    st.just((OpCode.PING, EmptyRequest())),
    st.just((OpCode.AUTH, AuthPacket(0, "digest", b"u:p"))),
    st.just(multi(set_data("/a", b"m"), delete("/b"))),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 2), st.lists(REQUESTS, min_size=1, max_size=6)),
        st.tuples(st.just("commit"), st.integers(1, 4), st.just([])),
        st.tuples(st.just("sync"), st.just(0), st.just([])),
        st.tuples(st.just("later"), st.integers(1, 30), st.just([])),
    ),
    max_size=25,
)


def start(full_journal: bool = False) -> tuple[Ensemble, list[int]]:
    ensemble = Ensemble(servers=2, full_journal=full_journal)
    clients = [ensemble.connect(server=server) for server in (0, 1, 1)]
    for path, acl in (
        ("/a", OPEN_ACL),
        ("/b", OPEN_ACL),
        ("/ü", OPEN_ACL),
        ("/open", READABLE),
        ("/closed", ADMIN_ONLY),
    ):
        assert ensemble.ask(clients[0], create(path, b"first", 0, acl)).err == 0
    ensemble.auto = False
    for client in clients:
        ensemble.take(client)
    return ensemble, clients


def framed(messages: list[Reply | bytes]) -> bytes:
    found = b""
    for message in messages:
        frame = message if isinstance(message, bytes) else message.encode()
        found += frame if isinstance(message, bytes) else pack_int(len(frame)) + frame
    return found


def settle(ensemble: Ensemble) -> None:
    while ensemble.proposed or ensemble.syncs:
        ensemble.commit()
        while ensemble.syncs:
            ensemble.finish_sync()


@settings(max_examples=250, deadline=None)
@given(STEPS, st.booleans())
def test_requests_as_bytes_and_as_objects_get_equal_replies(
    steps: list[tuple[str, int, list[tuple[OpCode, object]]]], full_journal: bool
) -> None:
    (typed, clients), (raw, _) = start(full_journal), start(full_journal)
    xid = 100
    for what, which, asked in steps:
        if what == "ask":
            requests = [
                Request(-2 if op == OpCode.PING else xid + i, int(op), body) for i, (op, body) in enumerate(asked)
            ]
            xid += len(requests)
            client = clients[which]
            for request in requests:
                typed.message(client, Request.decode(request.encode()))
            raw.message(client, Frames([request.encode() for request in requests]))
        if what == "commit":
            typed.commit(min(which, len(typed.proposed)))
            raw.commit_together(min(which, len(raw.proposed)))
        for ensemble in (typed, raw):
            if what == "sync" and ensemble.syncs and not ensemble.proposed:
                ensemble.finish_sync()
            elif what == "later":
                ensemble.now_ms += which
    for ensemble in (typed, raw):
        settle(ensemble)
    for client in clients:
        assert framed(raw.sent[client]) == framed(typed.sent[client])
    assert raw.closed == typed.closed
    for server in range(2):
        emitted = [[event for at, event in ensemble.events if at == server] for ensemble in (raw, typed)]
        assert emitted[0] == emitted[1]
    assert [txn.encoded() for txn in raw.history] == [txn.encoded() for txn in typed.history]
    for ours, theirs in zip(raw.services, typed.services, strict=True):
        assert ours.views.statistics() == theirs.views.statistics()
        assert ours.views.connections() == theirs.views.connections()
        assert ours.watches.by_path() == theirs.watches.by_path()


# -- checks that a request is well formed -----------------------------------------------------------------------------


def frame_of(request: tuple[OpCode, object]) -> bytes:
    op, body = request
    return Request(5, int(op), body).encode()


WHOLE = [
    set_data("/a", b"data"), set_data("/ü", b"data"), set_data("/a", b""), set_data("/a", None), set_data("", b"1"),
    create("/a", b"data", op=OpCode.CREATE), create("/a", b"data"), delete("/a"),
]  # fmt: skip


@pytest.mark.parametrize("request_", WHOLE)
def test_truncated_write_request_is_recognised_as_malformed(request_: tuple[OpCode, object]) -> None:
    op, frame = int(request_[0]), frame_of(request_)
    assert is_well_formed(op, frame)
    assert not [size for size in range(9, len(frame)) if is_well_formed(op, frame[:size])]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pack_int(-1) + pack_int(0) + pack_int(-1), id="a null path"),
        pytest.param(pack_int(-2) + pack_int(0) + pack_int(-1), id="a path of length -2"),
        pytest.param(pack_int(2) + b"/a" + pack_int(-2) + pack_int(-1), id="data of length -2"),
        pytest.param(pack_int(2) + b"/a" + pack_int(5) + b"1234" + pack_int(-1)[:3], id="data beyond the end"),
        pytest.param(pack_int(2) + b"/\xff" + pack_int(0) + pack_int(-1), id="a path that is not UTF-8"),
        pytest.param(pack_int(1 << 30) + b"/a" + pack_int(0) + pack_int(-1), id="a path beyond the end"),
    ],
)
def test_malformed_set_data_is_not_forwarded(frame: bytes) -> None:
    assert not is_well_formed(OpCode.SET_DATA, pack_int(5) + pack_int(OpCode.SET_DATA) + frame)


def test_fast_read_path_stops_at_the_first_unsupported_request() -> None:
    ensemble, _ = start()
    tree = ensemble.services[0].tree
    frames = [frame_of(request) for request in (get("/a"), exists("/a"), get("/a"), exists("/a", True), get("/a"))]
    assert answer_plain_reads(tree, frames, 0, bytearray(), 1 << 20) == 3
    assert answer_plain_reads(tree, frames, 4, bytearray(), 1 << 20) == 5
    for odd in (get("/nowhere"), exists("/nowhere"), get("/closed"), get("/a", True), children("/a"), get("")):
        assert answer_plain_reads(tree, [frames[0], frame_of(odd)], 0, bytearray(), 1 << 20) == 1
    for cut in range(1, len(frames[0])):
        assert answer_plain_reads(tree, [frames[0][:cut]], 0, bytearray(), 1 << 20) == 0


# -- rules of the fast path, one by one ---------------------------------------------------------------------------


def frame(xid: int, request: tuple[OpCode, object]) -> bytes:
    return Request(xid, int(request[0]), request[1]).encode()  # type: ignore[arg-type]


def read_back(replies: list[Reply | bytes]) -> list[tuple[int, int]]:
    """Return (xid, error) of each reply."""
    raw, found = framed(replies), []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        found.append((int.from_bytes(raw[4:8], "big", signed=True), int.from_bytes(raw[16:20], "big", signed=True)))
        raw = raw[4 + size :]
    return found


def test_read_waits_for_earlier_writes_of_its_session() -> None:
    ensemble, clients = start()
    for client in clients[:2]:
        ensemble.message(
            client,
            Frames(
                [frame(1, get("/a")), frame(2, set_data("/a", b"mine")), frame(3, get("/a")), frame(4, exists("/a"))]
            ),
        )
        assert read_back(ensemble.sent[client]) == [(1, 0)]
        ensemble.commit()
        assert read_back(ensemble.take(client)) == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_read_after_a_write_does_not_reuse_the_cached_reply() -> None:
    ensemble, (client, *_) = start()
    ensemble.message(client, Frames([frame(1, get("/a")), frame(2, set_data("/a", b"mine")), frame(3, get("/a"))]))
    ensemble.commit()
    sent = framed(ensemble.take(client))
    assert sent.count(b"first") == 1 and sent.count(b"mine") == 1 and sent.index(b"first") < sent.index(b"mine")


def test_cached_reply_is_dropped_when_its_znode_changes() -> None:
    ensemble, (client, other, _) = start()
    ensemble.auto = True
    changes = [
        set_data("/a", b"2"), create("/a/c"), delete("/a/c"), set_acl("/a", READABLE), multi(set_data("/a", b"3")),
        set_acl("/a", ADMIN_ONLY), set_acl("/a", OPEN_ACL), delete("/a"), create("/a", b"again"), set_data("/a", b"4"),
    ]  # fmt: skip
    for xid, change in enumerate(changes, 1):
        for server in (client, other):
            ensemble.message(server, Frames([frame(xid, get("/a"))]))
            kept = framed(ensemble.take(server))
            ensemble.message(server, Request.decode(frame(xid, get("/a"))))
            assert kept == framed(ensemble.take(server))
        session = ensemble.connect()
        ensemble.message(session, Request(xid, OpCode.AUTH, AuthPacket(0, "digest", b"u:p")))
        ensemble.ask(session, change)


def test_reply_cache_is_limited_in_reply_size_and_number() -> None:
    ensemble, (client, *_) = start()
    ensemble.auto = True
    ensemble.ask(client, create("/long", b"x" * RESPONSE_BYTES_MAX))
    ensemble.take(client)
    ensemble.message(client, Frames([frame(1, get("/long")), frame(2, get("/a"))]))
    kept = ensemble.services[0].tree.responses
    assert list(kept) == [b"/a"] and read_back(ensemble.sent[client]) == [(1, 0), (2, 0)]
    kept.update((b"/%d" % n, b"") for n in range(RESPONSES_MAX))
    ensemble.message(client, Frames([frame(3, get("/b"))]))
    assert list(ensemble.services[0].tree.responses) == [b"/b"]


def test_read_with_watch_sets_its_watch() -> None:
    ensemble, (client, writer, _) = start()
    ensemble.auto = True
    ensemble.message(client, Frames([frame(1, get("/a")), frame(2, get("/a", True)), frame(3, get("/a"))]))
    assert len(ensemble.services[0].watches) == 1
    assert read_back(ensemble.take(client)) == [(1, 0), (2, 0), (3, 0)]
    ensemble.message(writer, Frames([frame(1, set_data("/a"))]))
    assert [message.xid for message in ensemble.take(client)] == [-1]


def test_watch_event_precedes_replies_that_show_the_change() -> None:
    ensemble, (client, *_) = start()
    ensemble.message(client, Frames([frame(1, get("/a", True)), frame(2, set_data("/a", b"2")), frame(3, get("/a"))]))
    ensemble.commit()
    assert [xid for xid, _ in read_back(ensemble.take(client))] == [1, -1, 2, 3]


def test_cached_reply_requires_read_permission() -> None:
    ensemble, (client, *_) = start()
    for _ in range(2):
        ensemble.message(
            client, Frames([frame(1, get("/open")), frame(2, get("/closed")), frame(3, exists("/closed"))])
        )
        assert read_back(ensemble.take(client)) == [(1, 0), (2, ErrorCode.NO_AUTH), (3, ErrorCode.NO_AUTH)]


def test_malformed_request_is_rejected_after_earlier_replies() -> None:
    ensemble, clients = start()
    whole = frame(2, set_data("/a", b"data"))
    for client in clients[:2]:
        cut = [
            frame(1, get("/a")),
            whole[:-3],
            frame(3, get("/a"))[:-1],
            frame(4, get("/a")) + b"more",
            frame(5, get("/a")),
        ]
        ensemble.message(client, Frames(cut))
        ensemble.commit()
        bad = int(ErrorCode.MARSHALLING_ERROR)
        assert read_back(ensemble.take(client)) == [(1, 0), (2, bad), (3, bad), (4, 0), (5, 0)]


def test_paths_that_are_not_utf_8_are_malformed() -> None:
    ensemble, (client, *_) = start()
    for op in (OpCode.GET_DATA, OpCode.EXISTS):
        bad = pack_int(7) + pack_int(op) + pack_int(2) + b"/\xff" + b"\0"
        ensemble.message(client, Frames([bad]))
        assert read_back(ensemble.take(client)) == [(7, ErrorCode.MARSHALLING_ERROR)]


def test_requests_wait_while_their_session_is_being_created() -> None:
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.message(client, Frames([frame(1, create("/x")), frame(2, get("/x"))]))
    assert not ensemble.sent[client]
    ensemble.commit(1)
    ensemble.commit()
    assert read_back(ensemble.take(client)[1:]) == [(1, 0), (2, 0)]


def test_connection_without_a_session_gets_no_reply() -> None:
    ensemble = Ensemble()
    client = ensemble.dial()
    ensemble.message(client, Frames([frame(1, get("/"))]))
    assert client in ensemble.closed and not ensemble.sent[client]


def test_requests_after_an_unknown_op_are_not_processed() -> None:
    ensemble, (client, *_) = start()
    ensemble.message(client, Frames([frame(1, get("/a")), pack_int(2) + pack_int(77), frame(3, set_data("/a"))]))
    assert read_back(ensemble.take(client)) == [(1, 0), (2, ErrorCode.UNIMPLEMENTED)]
    assert client in ensemble.closed and not ensemble.proposed


def test_too_many_reads_after_a_write_disconnect_the_client() -> None:
    ensemble, (client, *_) = start()
    ensemble.message(client, Frames([frame(1, set_data("/a"))]))
    ensemble.message(client, Frames([frame(n, get("/a")) for n in range(2, OUTSTANDING_MAX + 1)]))
    assert client not in ensemble.closed
    ensemble.message(client, Frames([frame(0, get("/a"))]))
    assert client in ensemble.closed


def test_many_reads_after_a_write_get_replies_in_order() -> None:
    ensemble, (client, *_) = start()
    count = 3 * PLAIN_READS_MAX
    asked = [get("/nowhere") if n % 50 == 0 else get("/a") for n in range(count)]
    ensemble.message(client, Frames([frame(0, set_data("/a")), *(frame(n + 1, ask) for n, ask in enumerate(asked))]))
    ensemble.commit()
    errors = [int(ErrorCode.NO_NODE) if n % 50 == 0 else 0 for n in range(count)]
    assert read_back(ensemble.take(client)) == [(0, 0), *((n + 1, error) for n, error in enumerate(errors))]


def test_write_is_forwarded_with_the_bytes_the_client_sent() -> None:
    ensemble, (_, client, _) = start()
    body = SetDataRequest("/a", b"data", -1).encode() + b"trailing"
    ensemble.message(client, Frames([pack_int(9) + pack_int(OpCode.SET_DATA) + body]))
    ensemble.commit()
    assert read_back(ensemble.take(client)) == [(9, 0)]
    assert isinstance(ensemble.history[-1].body.data, bytes) and ensemble.history[-1].body.data == b"data"


def test_closed_connection_loses_its_replies_but_not_its_writes() -> None:
    ensemble, (_, client, _) = start()
    ensemble.message(client, Frames([frame(1, set_data("/a", b"lost")), frame(2, get("/a"))]))
    ensemble.hang_up(client)
    ensemble.commit()
    assert not ensemble.sent[client] and ensemble.services[1].tree.nodes["/a"].data == b"lost"


def test_get_data_frame_equals_an_encoded_path_watch_request() -> None:
    assert frame(1, get("/a")) == pack_int(1) + pack_int(4) + PathWatchRequest("/a", False).encode()
