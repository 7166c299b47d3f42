"""Client requests: their order, invalid requests, multi, and the events for the journal and for operators."""

import struct

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
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    AuthPacket,
    CheckVersionRequest,
    ConnectResponse,
    CreateFlag,
    EmptyRequest,
    EventType,
    Frames,
    OpCode,
    PathRequest,
    PathWatchRequest,
    Reply,
    Request,
    SetWatches,
)
from zabka.ensemble.tree.requests import OUTSTANDING_MAX
from zabka.ensemble.txn import CreateTxn, Txn
from zabka.journal.events import (
    EphemeralCreated,
    EphemeralDeleted,
    InvariantViolated,
    SessionClosed,
    SessionCreated,
    TxnCommitted,
    WriteAcknowledged,
    ZxidCheckpoint,
)


def errors(messages):
    return [message.err for message in messages]


# -- order -----------------------------------------------------------------------------------------------


def test_reads_and_pings_wait_for_earlier_writes_of_the_session():
    ensemble = Ensemble(auto=False)
    client, other = ensemble.connect(), ensemble.connect()
    ensemble.commit()
    ensemble.take(client), ensemble.take(other)
    for request in (create("/a", b"1"), get("/a"), PING, set_data("/a", b"2"), get("/a")):
        ensemble.send(client, request)
    assert ensemble.take(client) == [] and len(ensemble.proposed) == 2, "both writes are under way"
    assert ensemble.ask(other, exists("/a")).err == ErrorCode.NO_NODE, "others do not wait"
    ensemble.commit(1)
    created, read, pong = ensemble.take(client)
    assert (created.xid, read.xid, pong.xid) == (1, 2, -2)
    assert read.body.data == b"1" and read.zxid == pong.zxid == created.zxid
    ensemble.commit(1)
    written, read = ensemble.take(client)
    assert (written.xid, read.xid, read.body.data) == (3, 4, b"2")


def test_replies_keep_request_order_when_a_sync_is_slow():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.commit()
    ensemble.take(client)
    for request in (sync("/x"), create("/a"), get("/a"), sync("/y")):
        ensemble.send(client, request)
    ensemble.commit()
    # The first sync is complete, because all writes before it are committed.
    assert [(m.xid, m.err) for m in ensemble.take(client)] == [(1, 0), (2, 0), (3, 0)]
    ensemble.finish_sync()
    assert ensemble.take(client) == []
    ensemble.finish_sync()
    assert ensemble.take(client)[0].body.path == "/y"


def test_rejected_write_gets_its_reply_in_request_order():
    ensemble = Ensemble(servers=2, auto=False)
    client = ensemble.connect(server=1)
    ensemble.commit()
    ensemble.take(client)
    for request in (create("/a"), create("/a"), delete("/no"), exists("/a")):
        ensemble.send(client, request)
    ensemble.commit()
    assert errors(ensemble.take(client)) == [0, ErrorCode.NODE_EXISTS, ErrorCode.NO_NODE, 0]


def test_replies_for_an_old_connection_do_not_reach_the_new_one():
    ensemble = Ensemble(auto=False)
    old = ensemble.connect()
    ensemble.commit()
    session = ensemble.session(old)
    ensemble.send(old, create("/old"), xid=1)
    ensemble.hang_up(old)
    new = ensemble.connect(session=session)
    ensemble.revalidate()
    ensemble.take(new)
    ensemble.send(new, create("/new"), xid=1)
    ensemble.send(new, exists("/new"), xid=2)
    ensemble.commit(1)
    assert ensemble.take(new) == []
    ensemble.commit(1)
    created, read = ensemble.take(new)
    assert created.body.path == "/new" and read.err == 0
    assert ensemble.sent[old] == [ConnectResponse(0, 10_000, *session)]


@pytest.mark.parametrize(("request_", "xid"), [(CLOSE, 1), (create("/a"), 0)])
def test_expired_session_gets_no_reply_to_late_requests(request_, xid):
    """Requests of a session that the leader has expired get no reply.

    This applies to a closeSession of the client, and to a write with the same xid as the leader's closeSession.
    """
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=1)
    ensemble.take(client)
    ensemble.auto = False
    ensemble.advance(12_000)
    ensemble.send(client, request_, xid)
    ensemble.commit(1)
    assert ensemble.facts(SessionClosed) and client in ensemble.closed
    assert ensemble.take(client) == []
    ensemble.commit()
    assert "/a" not in ensemble.services[0].tree.nodes


@pytest.mark.parametrize("is_gone", [False, True])
def test_session_ended_with_pending_requests_leaves_no_state(is_gone):
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.commit()
    ensemble.take(client)
    ensemble.send(client, sync())
    ensemble.send(client, exists("/"))
    if is_gone:
        ensemble.hang_up(client)
    ensemble.advance(12_000)
    ensemble.commit()
    clients = ensemble.services[0].clients
    assert not clients.sessions and not clients.syncing
    ensemble.finish_sync()
    assert ensemble.take(client) == []


def test_too_many_waiting_requests_close_the_connection():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.commit()
    ensemble.send(client, create("/a"))
    for _ in range(OUTSTANDING_MAX - 1):
        ensemble.message(client, Request(-2, OpCode.PING, EmptyRequest()))
    assert client not in ensemble.closed
    assert ensemble.services[0].clients.outstanding(client) == OUTSTANDING_MAX
    ensemble.send(client, PING)
    assert client in ensemble.closed


# -- invalid requests ------------------------------------------------------------------------------------


def test_unknown_op_gets_unimplemented_and_closes_connection():
    ensemble = Ensemble(auto=False)
    for op in (999, OpCode.CHECK, -1, -10):
        client = ensemble.connect()
        ensemble.commit()
        ensemble.take(client)
        ensemble.send(client, create(f"/{op}"))
        body = CheckVersionRequest("/", 0) if op == OpCode.CHECK else None
        ensemble.message(client, Request(5, op, body, ErrorCode.UNIMPLEMENTED))
        assert ensemble.take(client) == [] and client not in ensemble.closed
        ensemble.commit()
        assert ensemble.take(client)[1] == Reply(5, -1, ErrorCode.UNIMPLEMENTED) and client in ensemble.closed


def test_malformed_request_body_gets_a_marshalling_error():
    ensemble = Ensemble()
    client = ensemble.connect()
    for op in (OpCode.CREATE, OpCode.GET_DATA, OpCode.MULTI, OpCode.SYNC, OpCode.SET_WATCHES):
        ensemble.message(client, Request.decode(op.to_bytes(4, "big") * 2 + b"\0"))
        assert ensemble.take(client)[-1].err == ErrorCode.MARSHALLING_ERROR
    assert client not in ensemble.closed


def test_unknown_auth_scheme_closes_the_connection():
    ensemble = Ensemble()
    for packet in (AuthPacket(0, "world", b"anyone"), AuthPacket(0, "odd", None), AuthPacket(0, "digest", None)):
        client = ensemble.connect()
        ensemble.send(client, (OpCode.AUTH, packet), xid=-4)
        assert ensemble.take(client)[-1] == Reply(-4, 0, ErrorCode.AUTH_FAILED) and client in ensemble.closed
    client = ensemble.connect()
    ensemble.message(client, Request(-4, OpCode.AUTH, None, ErrorCode.MARSHALLING_ERROR))
    assert len(ensemble.take(client)) == 1 and client in ensemble.closed


def test_client_with_the_digest_password_passes_the_acl():
    ensemble = Ensemble(servers=2)
    ann, bob = ensemble.connect(server=1), ensemble.connect(server=1)
    assert ensemble.ask(ann, create("/a", b"s", acl=(ACL(31, "auth", ""),))).err == ErrorCode.INVALID_ACL
    ensemble.send(ann, (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")), xid=-4)
    assert ensemble.take(ann)[-1] == Reply(-4, 0, 0)
    acl = (ACL(31, "auth", ""), ACL(1, "world", "anyone"))
    assert ensemble.ask(ann, create("/a", b"s", acl=acl)).err == 0
    assert ensemble.ask(ann, set_data("/a")).err == 0
    assert ensemble.ask(bob, set_data("/a")).err == ErrorCode.NO_AUTH
    assert ensemble.ask(bob, get("/a")).err == 0
    hashed = ensemble.ask(ann, (OpCode.GET_ACL, PathRequest("/a"))).body.acl[0].id
    assert hashed.startswith("ann:") and len(hashed) > 20
    assert ensemble.ask(bob, (OpCode.GET_ACL, PathRequest("/a"))).body.acl[0].id == "ann:x", "hashes are hidden"
    assert ensemble.ask(ann, create("/hidden", b"", acl=(ACL(31, "auth", ""),))).err == 0
    for request in (get("/hidden"), children("/hidden"), exists("/hidden"), (OpCode.GET_ACL, PathRequest("/hidden"))):
        assert ensemble.ask(bob, request).err == ErrorCode.NO_AUTH


def test_reads_of_missing_znodes_fail_with_no_node():
    ensemble = Ensemble()
    client = ensemble.connect()
    for request in (exists("/no"), get("/no"), children("/no"), (OpCode.GET_ACL, PathRequest("/no")), exists("no")):
        assert ensemble.ask(client, request).err == ErrorCode.NO_NODE
    assert ensemble.ask(client, exists("/a\0")).err == ErrorCode.BAD_ARGUMENTS


def test_empty_path_reads_the_root():
    """The empty path means the root. For the empty path, getAllChildrenNumber also counts the root itself.

    DataTree stores the root under both paths.
    """
    ensemble = Ensemble()
    client = ensemble.connect()
    for op, kind in (
        (OpCode.EXISTS, PathWatchRequest), (OpCode.GET_DATA, PathWatchRequest), (OpCode.GET_CHILDREN, PathWatchRequest),
        (OpCode.GET_CHILDREN2, PathWatchRequest), (OpCode.GET_ACL, PathRequest),
    ):  # fmt: skip
        of_root, of_empty = (
            ensemble.ask(client, (op, kind(path, False) if kind is PathWatchRequest else kind(path)))
            for path in ("/", "")
        )
        assert of_empty.err == 0 and of_empty.body == of_root.body, op
    count = ensemble.ask(client, (OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(""))).body
    assert count.total_number == len({"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})
    for request in (create(""), delete(""), set_data(""), set_acl("", OPEN_ACL)):
        assert ensemble.ask(client, request).err == ErrorCode.BAD_ARGUMENTS
    ensemble.take(client)
    ensemble.send(client, (OpCode.SET_WATCHES, SetWatches(1 << 62, [""], [""], [""])), xid=-8)
    events = [(message.body.type, message.body.path) for message in ensemble.take(client)[:-1]]
    assert events == [(EventType.CREATED, "")], "a znode that is there; the other two are armed"


def test_read_of_a_null_path_is_rejected():
    ensemble = Ensemble()
    client = ensemble.connect()
    null = b"\xff\xff\xff\xff\0"
    in_a_multi_read = struct.pack(">ibi", OpCode.GET_DATA, 0, -1) + null + struct.pack(">ibi", -1, 1, -1)
    bodies = dict.fromkeys((OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2), null)
    for op, body in (*bodies.items(), (OpCode.MULTI_READ, in_a_multi_read)):
        ensemble.message(client, Frames([struct.pack(">ii", 1, op) + body]))
        assert ensemble.sent[client][-1].err == ErrorCode.MARSHALLING_ERROR, op


# -- multi -----------------------------------------------------------------------------------------------


def test_multi_returns_a_result_for_each_operation():
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=1)
    check = (OpCode.CHECK, CheckVersionRequest("/a", 1))
    request = multi(create("/a"), create("/b", op=OpCode.CREATE), set_data("/a"), check, delete("/b"))
    reply = ensemble.ask(client, request)
    made, plain, written, checked, deleted = reply.body.results
    assert reply.err == 0 and [r.op for r in reply.body.results] == [15, 1, 5, 13, 2]
    assert (made.body.path, plain.body.path, written.body.stat.version) == ("/a", "/b", 1)
    assert checked.body == deleted.body == EmptyRequest()


def test_multi_failure_is_an_ok_reply_with_one_error_per_op():
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=1)
    reply = ensemble.ask(client, multi(create("/a"), delete("/no"), create("/b")))
    assert reply.err == 0
    assert [(r.op, r.error) for r in reply.body.results] == [(-1, 0), (-1, -101), (-1, -2)]
    assert ensemble.ask(client, exists("/a")).err == ErrorCode.NO_NODE
    assert ensemble.ask(client, multi()).body.results == []


# -- events of the service -------------------------------------------------------------------------------


def test_full_journal_contains_commits_ephemerals_and_acks():
    ensemble = Ensemble(servers=2, full_journal=True)
    client = ensemble.connect(server=1)
    ensemble.ask(client, create("/e", b"", 1))
    ensemble.ask(client, multi(create("/s", b"", 2), delete("/e")))
    ensemble.ask(client, set_data("/no"))
    ensemble.ask(client, multi(delete("/no")))
    commits = [event for server, event in ensemble.events if server == 0 and isinstance(event, TxnCommitted)]
    assert [(c.operation, c.path, c.error) for c in commits] == [
        ("createSession", "", 0), ("create2", "/e", 0), ("multi", "/s0000000001", 0), ("error", "", -101),
        ("multi", "", -101),
    ]  # fmt: skip
    assert commits[-1].digest == ensemble.services[0].tree.digest
    assert len(ensemble.facts(EphemeralCreated)) == len(ensemble.facts(EphemeralDeleted)) == 2, "one each peer"
    assert [(server, e.operation, e.path) for server, e in ensemble.events if isinstance(e, WriteAcknowledged)] == [
        (1, "create2", "/e"), (1, "multi", "/s0000000001"),
    ]  # fmt: skip


def test_journal_at_normal_level_contains_only_session_events():
    ensemble = Ensemble()
    client = ensemble.connect()
    ensemble.ask(client, create("/e", b"", 1))
    ensemble.ask(client, CLOSE)
    assert [type(event) for _, event in ensemble.events] == [SessionCreated, SessionClosed]


def test_service_counters_equal_those_of_the_four_letter_words():
    ensemble = Ensemble(auto=False)
    client = ensemble.connect()
    ensemble.commit()
    ensemble.send(client, create("/e", b"abc", 1))
    service = ensemble.services[0]
    ensemble.now_ms += 30
    assert service.views.statistics().outstanding == 1
    ensemble.commit()
    ensemble.send(client, get("/e", True))
    stats = service.views.statistics()
    assert (stats.znodes, stats.ephemerals, stats.watches, stats.sessions, stats.connections) == (6, 1, 1, 1, 1)
    assert stats.approximate_data_size_bytes == 44 + len("/e") + len(b"abc") and stats.outstanding == 0
    assert (stats.packets_received, stats.packets_sent) == (3, 3)
    assert (stats.latency_min_ms, stats.latency_max_ms, stats.latency_avg_ms) == (0, 30, 15.0)
    info = service.views.connections()[0]
    assert (info.last_op, info.last_cxid, info.last_zxid, info.received, info.sent) == (
        "getData",
        2,
        ensemble.zxid,
        3,
        3,
    )
    assert (info.latency_max_ms, info.last_latency_ms, info.outstanding) == (30, 0, 0)
    view = service.views.znode("/e")
    assert (view.data, view.children, view.watchers) == (b"abc", [], [(client, "data")])
    assert service.views.znode("/no") is None
    session = service.views.session_infos()[0]
    assert (session.ephemerals, session.connection, session.timeout_ms) == (["/e"], client, 10_000)
    assert service.checkpoint() == ZxidCheckpoint(ensemble.zxid, service.tree.digest, 5, 1)
    service.counters.reset()
    assert service.views.statistics().packets_received == 0


def test_every_peer_has_the_same_tree_digest_as_the_leader():
    ensemble = Ensemble(servers=3)
    client = ensemble.connect(server=2)
    for i in range(20):
        ensemble.ask(client, create("/n-", b"%d" % i, 2))
    ensemble.ask(client, CLOSE)
    assert len({service.tree.digest for service in ensemble.services}) == 1
    assert all(service.views.statistics().digest_mismatches == 0 for service in ensemble.services)


def test_sequence_numbers_overflow_equally_on_every_peer():
    """The sequence number after 2147483647 is -2147483648 on every peer (ZooKeeper's Programmer's Guide, sequence
    nodes).
    """
    ensemble = Ensemble(2)
    client = ensemble.connect(1)
    ensemble.ask(client, create("/q"))
    ensemble.zxid += 1
    many = Txn(1, 1, ensemble.zxid, 1, OpCode.CREATE, CreateTxn("/q/many", b"", OPEN_ACL, False, 0x7FFFFFFF))
    for server, service in enumerate(ensemble.services):
        ensemble.run(server, service.apply(ensemble.now, [many]))
    paths = [ensemble.ask(client, create("/q/n-", flags=CreateFlag.PERSISTENT_SEQUENTIAL)).body.path for _ in range(3)]
    assert paths == ["/q/n-2147483647", "/q/n--2147483648", "/q/n--2147483647"]
    assert ensemble.ask(client, create("/q/plain")).err == 0
    assert not ensemble.differed


def test_peer_whose_tree_digest_differs_reports_it_once():
    ensemble = Ensemble()
    client = ensemble.connect()
    for _ in range(2):
        requests = [_request(ensemble, client)]
        (txn,) = ensemble.services[0].prepare_all(ensemble.now, requests, ensemble.zxid + 1, None)
        ensemble.zxid += 1
        wrong = Txn(txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type, txn.body, txn.digest ^ 1)
        ensemble.run(0, ensemble.services[0].apply(ensemble.now, [wrong]))
    assert len(ensemble.facts(InvariantViolated)) == 1
    assert ensemble.services[0].views.statistics().digest_mismatches == ensemble.differed == 2


def _request(ensemble, client):
    from zabka.ensemble.zab.messages import ForwardedRequest

    return ForwardedRequest(SessionId(ensemble.session(client)[0]), 9, OpCode.SET_DATA, set_data("/")[1].encode())


def test_config_node_contains_the_membership():
    text = "server.1=localhost:2888:3888:participant;127.0.0.1:2181\nversion=0"
    ensemble = Ensemble()
    ensemble.services[0].describe_membership(ensemble.now, text, 0)
    reply = ensemble.ask(ensemble.connect(), get("/zookeeper/config"))
    assert reply.body.data == text.encode() and (reply.body.stat.version, reply.body.stat.aversion) == (-1, -1)


def test_service_can_be_reset_and_restored_from_a_snapshot():
    ensemble = Ensemble()
    client = ensemble.connect()
    ensemble.ask(client, create("/a"))
    service = ensemble.services[0]
    snapshot = service.snapshot()
    ensemble.run(0, service.stop_serving(ensemble.now))
    service.counters.digests.append((ensemble.zxid, service.tree.digest))
    service.restore(None)
    assert service.last_applied == 0 and service.tree.stat("/a") is None
    assert not service.counters.digests, "those were of another history"
    service.restore(snapshot)
    assert service.last_applied == ensemble.zxid and service.snapshot() == snapshot
