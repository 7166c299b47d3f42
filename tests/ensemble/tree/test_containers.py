"""Container and TTL znodes: how they are created, when they are deleted, and their format on disk."""

import pytest

from tests.ensemble.tree.tree_driver import CLOSE, PING, Ensemble, create, delete, exists, get, multi, set_data
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import SessionId
from zabka.ensemble.records import ACL, OPEN_ACL, AuthPacket, CreateFlag, CreateTTLRequest, OpCode, PathRequest
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree_rules import TreeRules
from zabka.ensemble.txn import CreateContainerTxn, CreateTTLTxn, DeleteTxn, Txn
from zabka.ensemble.txnlog.snapshots import list_snapshots, read_snapshot, write_snapshot
from zabka.ensemble.zab.messages import ForwardedRequest

CONTAINER_OWNER = 0x8000000000000000
TTL_OWNER = 0xFF00000000000000
CHECK_MS = 60_000
EXTENDED = TreeRules(extended_types=True)
UNKNOWN = -2
"""Create flags that no znode type will ever have, because ZooKeeper's CreateMode numbers its types from 0 upward."""


def container(path, flags=CreateFlag.CONTAINER):
    return create(path, b"", flags, op=OpCode.CREATE_CONTAINER)


def with_ttl(path, ttl_ms, flags=CreateFlag.PERSISTENT_WITH_TTL, data=b""):
    return OpCode.CREATE_TTL, CreateTTLRequest(path, data, OPEN_ACL, flags, ttl_ms)


def delete_container(path):
    return OpCode.DELETE_CONTAINER, PathRequest(path)


def owner(ensemble, path):
    return ensemble.services[0].tree.nodes[path].ephemeral_owner & 0xFFFFFFFFFFFFFFFF


def exist(ensemble, *paths):
    return [path for path in paths if path in ensemble.services[0].tree.nodes]


# -- creation --------------------------------------------------------------------------------------------------------


def test_create_container_reply_has_a_stat_with_owner_zero():
    ensemble = Ensemble()
    client = ensemble.connect()
    reply = ensemble.ask(client, container("/c"))
    assert reply.err == 0 and reply.body.path == "/c" and reply.body.stat.ephemeral_owner == 0
    assert ensemble.ask(client, exists("/c")).body.stat == reply.body.stat
    assert owner(ensemble, "/c") == CONTAINER_OWNER
    assert ensemble.ask(client, create("/c/x")).err == 0, "a container can have children"


def test_only_create_container_creates_a_container():
    """createContainer creates a container with any flags; create with the container flag creates a plain znode.

    Measurements show that ZooKeeper does the same.
    """
    ensemble = Ensemble()
    client = ensemble.connect()
    for flags in (0, 1, 2, 3):
        made = ensemble.ask(client, container(f"/c{flags}-", flags)).body.path
        assert owner(ensemble, made) == CONTAINER_OWNER
        assert made.endswith("-") == (flags < 2)
    for op in (OpCode.CREATE, OpCode.CREATE2):
        assert ensemble.ask(client, create(f"/plain{op}", b"", CreateFlag.CONTAINER, op=op)).err == 0
        assert owner(ensemble, f"/plain{op}") == 0


REFUSED = [
    (with_ttl("/t", 1000), ErrorCode.UNIMPLEMENTED, 0),
    (with_ttl("/t", 1000, 6), ErrorCode.UNIMPLEMENTED, 0),
    (with_ttl("/t", 0), ErrorCode.UNIMPLEMENTED, ErrorCode.BAD_ARGUMENTS),
    (with_ttl("/t", -5), ErrorCode.UNIMPLEMENTED, ErrorCode.BAD_ARGUMENTS),
    (with_ttl("/t", 1 << 40), ErrorCode.UNIMPLEMENTED, ErrorCode.BAD_ARGUMENTS),
    (with_ttl("/t", (1 << 40) - 1), ErrorCode.UNIMPLEMENTED, 0),
    (with_ttl("/t", 1000, 0), ErrorCode.BAD_ARGUMENTS, ErrorCode.BAD_ARGUMENTS),
    (with_ttl("/t", 1000, UNKNOWN), ErrorCode.BAD_ARGUMENTS, ErrorCode.BAD_ARGUMENTS),
    (with_ttl("/t", -1, 0), ErrorCode.BAD_ARGUMENTS, ErrorCode.BAD_ARGUMENTS),
    (create("/t", b"", 5), ErrorCode.UNIMPLEMENTED, ErrorCode.BAD_ARGUMENTS),
    (container("/t", 6), ErrorCode.UNIMPLEMENTED, ErrorCode.BAD_ARGUMENTS),
    (container("/t", UNKNOWN), ErrorCode.BAD_ARGUMENTS, ErrorCode.BAD_ARGUMENTS),
    (container("/no/t"), ErrorCode.NO_NODE, ErrorCode.NO_NODE),
]


@pytest.mark.parametrize(("request_", "off", "on"), REFUSED)
def test_create_replies_equal_zookeepers_with_or_without_ttl(request_, off, on):
    """The replies to create requests are the same as ZooKeeper's, with TTL znodes enabled or not.

    The exception is the plain flag with a negative TTL: every ZooKeeper server that applies such a create crashes.
    """
    for rules, expected in ((TreeRules(), off), (EXTENDED, on)):
        ensemble = Ensemble(tree=rules)
        assert ensemble.ask(ensemble.connect(), request_).err == expected


def test_ttl_is_stored_in_the_ephemeral_owner():
    ensemble = Ensemble(tree=EXTENDED)
    client = ensemble.connect()
    assert ensemble.ask(client, with_ttl("/t", 12_345, data=b"x")).body.stat.ephemeral_owner == 0
    assert owner(ensemble, "/t") == TTL_OWNER | 12_345
    assert ensemble.ask(client, with_ttl("/s", 777, 6)).body.path == "/s0000000001"
    ensemble.ask(client, CLOSE)
    assert exist(ensemble, "/t", "/s0000000001") == ["/t", "/s0000000001"], "no session owns them"


# -- in a multi ------------------------------------------------------------------------------------------------------


def test_container_in_a_multi_returns_a_create2_result():
    ensemble = Ensemble(tree=EXTENDED)
    client = ensemble.connect()
    reply = ensemble.ask(client, multi(container("/c"), with_ttl("/t", 9), create("/c/x", op=OpCode.CREATE)))
    assert [result.op for result in reply.body.results] == [OpCode.CREATE2, OpCode.CREATE2, OpCode.CREATE]
    stat = reply.body.results[0].body.stat
    assert (stat.czxid, stat.num_children) == (ensemble.zxid, 0), "as it was when its turn came"
    assert (owner(ensemble, "/c"), owner(ensemble, "/t")) == (CONTAINER_OWNER, TTL_OWNER | 9)


def test_create_flags_in_a_multi_determine_the_kind_of_znode():
    ensemble = Ensemble(tree=EXTENDED)
    client = ensemble.connect()
    for op in (OpCode.CREATE, OpCode.CREATE2):
        reply = ensemble.ask(client, multi(create(f"/c{op}", b"", CreateFlag.CONTAINER, op=op)))
        assert reply.body.results[0].op == OpCode.CREATE2 and owner(ensemble, f"/c{op}") == CONTAINER_OWNER
    assert ensemble.ask(client, multi(container("/c", 0))).body.results[0].op == OpCode.CREATE2
    reply = ensemble.ask(client, multi(with_ttl("/t", 9, CreateFlag.CONTAINER)))
    assert reply.body.results[0].op == OpCode.CREATE2 and owner(ensemble, "/t") == CONTAINER_OWNER
    reply = ensemble.ask(client, multi(with_ttl("/plain", 9, 0)))
    assert reply.body.results[0].op == OpCode.CREATE and owner(ensemble, "/plain") == 0


@pytest.mark.parametrize("operation", [create("/x", b"", UNKNOWN), create("/x", b"", 5), container("/x", 6)])
def test_multi_with_invalid_flags_is_a_marshalling_error(operation):
    ensemble = Ensemble(tree=EXTENDED)
    client = ensemble.connect()
    assert ensemble.ask(client, multi(create("/before"), operation)).err == ErrorCode.MARSHALLING_ERROR
    assert exist(ensemble, "/before", "/x") == []
    assert ensemble.ask(client, multi(create("/before"))).err == 0, "the failed multi left no state"


def test_multi_with_a_rejected_ttl_is_rolled_back():
    ensemble = Ensemble()
    client = ensemble.connect()
    reply = ensemble.ask(client, multi(container("/c"), with_ttl("/t", 9)))
    assert [result.error for result in reply.body.results] == [0, ErrorCode.UNIMPLEMENTED]
    reply = ensemble.ask(client, multi(with_ttl("/t", 9, UNKNOWN)))
    assert reply.body.results[0].error == ErrorCode.BAD_ARGUMENTS
    assert exist(ensemble, "/c", "/t") == []


# -- deleteContainer -------------------------------------------------------------------------------------------------


def test_delete_container_keeps_znodes_with_children_or_owner():
    ensemble = Ensemble()
    client = ensemble.connect()
    for request in (container("/c"), create("/c/x"), create("/e", b"", 1), container("/empty")):
        ensemble.ask(client, request)
    for path, error in (
        ("/c", ErrorCode.NOT_EMPTY), ("/e", ErrorCode.BAD_VERSION), ("/no", ErrorCode.NO_NODE),
        ("/no/x", ErrorCode.NO_NODE), ("/zookeeper", ErrorCode.BAD_ARGUMENTS), ("/empty", 0), ("/c/x", 0),
    ):  # fmt: skip
        assert ensemble.ask(client, delete_container(path)).err == error, path


def test_delete_container_request_needs_delete_permission():
    """A client needs delete permission for deleteContainer.

    ZooKeeper checks neither ACL nor session for this request, so any client can delete any znode without children.
    """
    ensemble = Ensemble()
    owner_, other = ensemble.connect(), ensemble.connect()
    ensemble.ask(owner_, (OpCode.AUTH, AuthPacket(0, "digest", b"ann:secret")))
    mine = (ACL(31, "auth", ""),)
    ensemble.ask(owner_, create("/mine", acl=mine))
    ensemble.ask(owner_, create("/mine/x", acl=mine))
    assert ensemble.ask(other, delete_container("/mine/x")).err == ErrorCode.NO_AUTH
    assert ensemble.ask(other, delete_container("/mine/no")).err == ErrorCode.NO_AUTH
    assert ensemble.ask(owner_, delete_container("/mine/x")).err == 0


@pytest.mark.parametrize("asking", ["the leader", "a session", "one that is over"])
def test_expired_session_cannot_delete_containers_but_leader_can(asking):
    ensemble = Ensemble()
    client = ensemble.connect()
    for used in (container("/c"), create("/c/x"), delete("/c/x")):
        ensemble.ask(client, used)
    session_id = {"the leader": 0, "a session": ensemble.session(client)[0], "one that is over": 99}[asking]
    request = ForwardedRequest(SessionId(session_id), 1, OpCode.DELETE_CONTAINER, PathRequest("/c").encode())
    (txn,) = ensemble.services[0].prepare_all(ensemble.now, [request], ensemble.zxid + 1, None)
    assert txn.type == (OpCode.ERROR if asking == "one that is over" else OpCode.DELETE_CONTAINER)


# -- deletion --------------------------------------------------------------------------------------------------------


def test_emptied_container_is_deleted_at_the_next_check():
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=1, timeout_ms=20_000)
    for request in (container("/c"), create("/c/x"), container("/unused")):
        ensemble.ask(client, request)
    keep_alive(ensemble, client, CHECK_MS)
    assert exist(ensemble, "/c", "/unused") == ["/c", "/unused"]
    keep_alive(ensemble, client, 5_000)
    ensemble.ask(client, delete("/c/x"))
    ensemble.ask(client, exists("/c", True))
    ensemble.take(client)
    keep_alive(ensemble, client, CHECK_MS - 6_000)
    assert exist(ensemble, "/c") == ["/c"]
    keep_alive(ensemble, client, 1_000)
    assert exist(ensemble, "/c", "/unused") == ["/unused"], "a container without a first child is kept"
    assert [m.body.path for m in ensemble.take(client) if m.xid == -1] == ["/c"], "watches get its deletion"
    txn = ensemble.history[-1]
    assert (txn.type, txn.session_id, txn.cxid, txn.body) == (OpCode.DELETE_CONTAINER, 0, 0, DeleteTxn("/c"))


def keep_alive(ensemble, client, ms):
    for _ in range(ms // 1000):
        if client not in ensemble.closed:
            ensemble.send(client, get("/"))
        ensemble.advance(1000)


def test_never_used_container_is_deleted_only_if_configured():
    ensemble = Ensemble(tree=TreeRules(container_never_used_max_ms=90_000, container_check_interval_ms=1_000))
    ensemble.ask(ensemble.connect(), container("/c"))
    ensemble.advance(90_000)
    assert exist(ensemble, "/c") == ["/c"]
    ensemble.advance(1_000)
    assert exist(ensemble, "/c") == []


def test_ttl_restarts_with_each_change_and_waits_for_children():
    rules = TreeRules(extended_types=True, container_check_interval_ms=1_000)
    ensemble = Ensemble(tree=rules)
    client = ensemble.connect()
    for request in (with_ttl("/t", 5_000), with_ttl("/parent", 2_000), create("/parent/x"), create("/plain")):
        ensemble.ask(client, request)
    ensemble.advance(3_000)
    ensemble.ask(client, set_data("/t"))
    ensemble.advance(5_000)
    assert exist(ensemble, "/t", "/parent") == ["/t", "/parent"]
    ensemble.advance(1_000)
    assert exist(ensemble, "/t", "/parent") == ["/parent"]
    ensemble.ask(client, delete("/parent/x"))
    ensemble.advance(1_000)
    assert exist(ensemble, "/parent", "/plain") == ["/plain"]


def test_ttl_nodes_do_not_expire_without_extended_types():
    ensemble = Ensemble(tree=TreeRules(container_check_interval_ms=1_000))
    body = CreateTTLTxn("/t", b"", OPEN_ACL, 1, 10)
    txn = Txn(SessionId(1), 1, ensemble.zxid + 1, ensemble.now.wall_ms, OpCode.CREATE_TTL, body)
    ensemble.zxid += 1
    ensemble.run(0, ensemble.services[0].apply(ensemble.now, [txn]))
    ensemble.advance(30_000)
    assert exist(ensemble, "/t") == ["/t"]


def test_containers_are_deleted_within_the_limit_per_minute():
    rules = TreeRules(container_check_interval_ms=1_000, container_deletes_per_minute=120)
    ensemble = Ensemble(tree=rules)
    client = ensemble.connect()
    for i in range(10):
        ensemble.ask(client, multi(container(f"/c{i}"), create(f"/c{i}/x"), delete(f"/c{i}/x")))
    for left in (8, 6, 4, 2, 0, 0):
        ensemble.advance(1_000)
        assert len(ensemble.services[0].tree.lapsing) == left


def test_ttl_check_interval_can_be_shorter_than_a_tick():
    """TTL znodes can be checked more often than once a tick.

    Java's ContainerManager has its own timer with the interval checkIntervalMs.
    """
    rules = TreeRules(extended_types=True, container_check_interval_ms=50)
    ensemble = Ensemble(tree=rules, tick_ms=2_000)
    client = ensemble.connect()
    ensemble.ask(client, with_ttl("/t", 120))
    ensemble.ask(client, multi(container("/c"), create("/c/x"), delete("/c/x")))
    ensemble.advance(50)
    assert exist(ensemble, "/t", "/c") == ["/t"]
    ensemble.advance(50)
    assert exist(ensemble, "/t") == ["/t"]
    ensemble.advance(50)
    assert exist(ensemble, "/t") == []


def test_short_ttl_checks_stop_when_the_leader_resigns():
    ensemble = Ensemble(tree=TreeRules(container_check_interval_ms=50), tick_ms=2_000)
    ensemble.run(0, ensemble.services[0].stop_serving(ensemble.now))
    ensemble.advance(50)
    assert ensemble.lapsing_check_ms is None


def test_deletion_over_the_rate_limit_is_delayed():
    """If the number of deletions per minute is limited, one znode is deleted at a time.

    Java sleeps for 60,000 / maxPerMinute milliseconds after each deletion. With the limit in this test, that is 10
    seconds, which is many check intervals.
    """
    rules = TreeRules(container_check_interval_ms=500, container_deletes_per_minute=6)
    ensemble = Ensemble(tree=rules, tick_ms=2_000)
    client = ensemble.connect(timeout_ms=60_000)
    for i in range(3):
        ensemble.ask(client, multi(container(f"/c{i}"), create(f"/c{i}/x"), delete(f"/c{i}/x")))
    for passed_ms, left in ((500, 2), (9_000, 2), (1_500, 1), (9_000, 1), (1_500, 0)):
        ensemble.advance(passed_ms)
        assert len(ensemble.services[0].tree.lapsing) == left


def test_container_in_use_again_is_not_deleted():
    rules = TreeRules(container_check_interval_ms=2_000, container_deletes_per_minute=60)
    ensemble = Ensemble(tree=rules)
    client = ensemble.connect()
    for i in range(2):
        ensemble.ask(client, multi(container(f"/c{i}"), create(f"/c{i}/x"), delete(f"/c{i}/x")))
    ensemble.advance(2_000)
    assert exist(ensemble, "/c0", "/c1") == ["/c1"]
    ensemble.ask(client, create("/c1/again"))
    before = ensemble.zxid
    ensemble.advance(1_000)
    assert exist(ensemble, "/c1") == ["/c1"] and ensemble.zxid == before, "no deletion is proposed"


def test_container_with_a_child_creation_in_flight_is_kept():
    ensemble = Ensemble(auto=False, tree=TreeRules(container_check_interval_ms=1_000))
    client = ensemble.connect()
    ensemble.commit()
    ensemble.send(client, multi(container("/c"), create("/c/x"), delete("/c/x")))
    ensemble.commit()
    ensemble.send(client, create("/c/y"))
    ensemble.advance(1_000)
    ensemble.commit()
    assert exist(ensemble, "/c", "/c/y") == ["/c", "/c/y"]
    assert ensemble.history[-1].type == OpCode.ERROR and ensemble.history[-1].body.err == ErrorCode.NOT_EMPTY


@pytest.mark.parametrize(
    ("first", "meanwhile"),
    [
        ([with_ttl("/n", 50_000)], [set_data("/n", b"kept")]),
        ([with_ttl("/n", 50_000)], [delete("/n"), create("/n", b"kept")]),
        ([container("/n"), create("/n/x"), delete("/n/x")], [delete("/n"), create("/n", b"kept")]),
    ],
)
def test_renewed_or_replaced_znode_outlives_its_old_deadline(first, meanwhile):
    """A TTL znode that is changed or replaced just before its deadline is not deleted.

    The leader requests the deletion because of the tree's state, but the change in flight is applied first.
    """
    ensemble = Ensemble(tree=EXTENDED)
    client = ensemble.connect(timeout_ms=20_000)
    for request in first:
        assert ensemble.ask(client, request).err == 0
    for _ in range(11):
        ensemble.advance(5000)
        ensemble.send(client, PING)
    ensemble.auto = False
    ensemble.advance(4000)
    for request in meanwhile:
        ensemble.send(client, request)
    ensemble.advance(1000)
    assert len(ensemble.proposed) > len(meanwhile), "the leader asked for its end"
    ensemble.auto = True
    ensemble.commit()
    assert ensemble.ask(client, get("/n")).body.data == b"kept"


# -- on disk -----------------------------------------------------------------------------------------------------------


def test_containers_and_ttl_nodes_survive_a_snapshot(tmp_path):
    ensemble = Ensemble(tree=EXTENDED)
    client = ensemble.connect()
    ensemble.ask(client, container("/c"))
    ensemble.ask(client, with_ttl("/t", 4_242))
    tree = ensemble.services[0].tree
    write_snapshot(tmp_path, tree.to_snapshot())
    again = DataTree.from_snapshot(read_snapshot(list_snapshots(tmp_path)[0][1]))
    assert again.digest == tree.digest and sorted(again.lapsing) == ["/c", "/t"]
    assert [again.nodes[path].ephemeral_owner for path in ("/c", "/t")] == [-(1 << 63), (TTL_OWNER | 4_242) - (1 << 64)]
    assert again.ephemeral_count == 0 and again.stat("/t") == tree.stat("/t")


@pytest.mark.parametrize("ttl_ms", [-1, 0, 1 << 40])
def test_impossible_ttl_in_a_log_creates_a_plain_znode(ttl_ms):
    """A logged transaction with an impossible TTL creates a plain znode.

    ZooKeeper writes such a transaction, but then cannot start with a log that contains it. Our server recovers the rest
    of the log.
    """
    tree = DataTree()
    body = CreateTTLTxn("/t", b"", OPEN_ACL, 1, ttl_ms)
    assert tree.apply(Txn(SessionId(1), 1, 0x100000001, 7, OpCode.CREATE_TTL, body)).error == 0
    assert tree.nodes["/t"].ephemeral_owner == 0 and not tree.lapsing


def test_container_and_ttl_transactions_equal_zookeepers_bytes():
    acl = OPEN_ACL
    made = Txn(SessionId(0x10), 3, 0x100000002, 7, OpCode.CREATE_CONTAINER, CreateContainerTxn("/c", b"d", acl, 1))
    assert made.encoded()[32:].hex() == (
        "000000022f63" "0000000164" "000000010000001f00000005776f726c6400000006616e796f6e65" "00000001"
    )  # fmt: skip
    made = Txn(SessionId(0x10), 3, 0x100000002, 7, OpCode.CREATE_TTL, CreateTTLTxn("/t", None, acl, 1, 5000))
    assert made.encoded()[32:].hex() == (
        "000000022f74" "ffffffff" "000000010000001f00000005776f726c6400000006616e796f6e65" "00000001" "0000000000001388"
    )  # fmt: skip
    assert Txn.decode(made.encoded()).body == made.body


def test_zero_deletes_per_minute_keep_every_container():
    """With a limit of zero deletions per minute, no container is deleted.

    Java's ContainerManager divides a minute by the limit, and fails.
    """
    ensemble = Ensemble(tree=TreeRules(container_deletes_per_minute=0))
    client = ensemble.connect()
    ensemble.ask(client, container("/c"))
    ensemble.ask(client, create("/c/x"))
    ensemble.ask(client, delete("/c/x"))
    ensemble.advance(3 * CHECK_MS)
    assert exist(ensemble, "/c") == ["/c"]


def test_negative_never_used_limit_deletes_at_the_next_check():
    """With a negative limit, containers that were never used are deleted at the next check.

    ContainerManager.getCandidates treats any limit except 0 as set.
    """
    ensemble = Ensemble(tree=TreeRules(container_never_used_max_ms=-1))
    ensemble.ask(ensemble.connect(), container("/c"))
    ensemble.advance(CHECK_MS)
    assert exist(ensemble, "/c") == []
