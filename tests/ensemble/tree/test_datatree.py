"""The tree: Stats, its digest, its snapshots, and replaying logged transactions over a snapshot."""

import pytest

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import ACL, OPEN_ACL, EventType, OpCode
from zabka.ensemble.tree.create_modes import CONTAINER_OWNER, is_ephemeral, ttl_owner
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.znode import next_version
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    SubTxn,
    Txn,
)
from zabka.ensemble.znode_paths import is_valid_path


class Writer:
    """A tree, and the transactions that were applied to it."""

    def __init__(self):
        self.tree = DataTree()
        self.txns = []

    def apply(self, kind, body, session=7):
        zxid = len(self.txns) + 1
        txn = Txn(session, zxid, zxid, 1000 + zxid, kind, body)
        self.txns.append(txn)
        return self.tree.apply(txn)

    def create(self, path, data=b"", ephemeral=False, cversion=-1, session=7):
        return self.apply(OpCode.CREATE2, CreateTxn(path, data, OPEN_ACL, ephemeral, cversion), session)

    def delete(self, path):
        return self.apply(OpCode.DELETE, DeleteTxn(path))

    def set(self, path, data, version):
        return self.apply(OpCode.SET_DATA, SetDataTxn(path, data, version))


def images(tree):
    return {image.path: image for image in tree.to_snapshot().nodes}


def test_new_tree_has_the_system_znodes_of_zookeeper():
    tree = DataTree()
    stats = {path: tree.stat(path) for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")}
    assert [(stat.cversion, stat.num_children) for stat in stats.values()] == [(-1, 1), (-2, 2), (0, 0), (0, 0)]
    assert stats["/zookeeper/config"].aversion == -1
    assert tree.nodes["/zookeeper/config"].acl == (ACL(1, "world", "anyone"),)
    assert all(stat.czxid == stat.mzxid == stat.pzxid == stat.ctime == 0 for stat in stats.values())
    assert tree.data_size_bytes == 44


def test_create_sets_the_stat_of_a_znode_and_updates_its_parent():
    w = Writer()
    w.create("/a", b"xy")
    made = w.create("/a/b", None, ephemeral=True)
    assert made.final_stat()._asdict() == {
        "czxid": 2, "mzxid": 2, "ctime": 1002, "mtime": 1002, "version": 0, "cversion": 0, "aversion": 0,
        "ephemeral_owner": 7, "data_length": 0, "num_children": 0, "pzxid": 2,
    }  # fmt: skip
    parent = w.tree.stat("/a")
    assert (parent.czxid, parent.mzxid, parent.pzxid, parent.version, parent.cversion) == (1, 1, 2, 0, 1)
    assert (parent.num_children, parent.data_length) == (1, 2)


def test_delete_updates_the_parents_pzxid_and_cversion():
    w = Writer()
    w.create("/a")
    w.create("/a/b")
    w.create("/a/c")
    w.delete("/a/b")
    stat = w.tree.stat("/a")
    # cversion is 3, because two creates and a delete have changed the list of children.
    assert (stat.cversion, stat.num_children, stat.pzxid, stat.mzxid) == (3, 1, 4, 1)


def test_set_data_changes_only_version_mzxid_and_mtime():
    w = Writer()
    before = w.create("/a", b"x").final_stat()
    after = w.set("/a", b"longer", 1).final_stat()
    assert after == before._replace(mzxid=2, mtime=1002, version=1, data_length=6)


def test_set_acl_changes_only_aversion():
    w = Writer()
    before = w.create("/a").final_stat()
    acl = (ACL(1, "world", "anyone"),)
    after = w.apply(OpCode.SET_ACL, SetACLTxn("/a", acl, 1)).final_stat()
    assert after == before._replace(aversion=1)
    assert w.tree.nodes["/a"].acl == acl


def test_containers_and_ttl_nodes_are_not_ephemeral():
    w = Writer()
    container = w.apply(OpCode.CREATE_CONTAINER, CreateContainerTxn("/c", b"", OPEN_ACL, 1))
    ttl = w.apply(OpCode.CREATE_TTL, CreateTTLTxn("/t", b"", OPEN_ACL, 2, 5000))
    assert container.final_stat().ephemeral_owner == ttl.final_stat().ephemeral_owner == 0
    assert w.tree.nodes["/c"].ephemeral_owner == CONTAINER_OWNER
    assert w.tree.nodes["/t"].ephemeral_owner == ttl_owner(5000) == -(1 << 56) + 5000
    assert w.tree.ephemeral_count == 0 and not w.tree.ephemerals
    assert is_ephemeral(-(1 << 56) + (0xABCDEF << 32)), "a session of server 255 is no time to live"


def test_closing_a_session_deletes_only_its_ephemerals():
    w = Writer()
    w.apply(OpCode.CREATE_SESSION, CreateSessionTxn(4000), session=7)
    w.create("/a")
    w.create("/a/mine", ephemeral=True)
    w.create("/a/unlisted", ephemeral=True)
    w.create("/a/other", ephemeral=True, session=8)
    w.apply(OpCode.CLOSE_SESSION, CloseSessionTxn(["/a/mine"]), session=7)
    assert w.tree.children("/a") == ["other"]
    assert (w.tree.sessions, w.tree.ephemerals, w.tree.ephemeral_count) == ({}, {8: {"/a/other": None}}, 1)
    assert w.tree.stat("/a").pzxid == 6
    assert [change.event for change in w.tree.changes] == [EventType.DELETED] * 2


def test_failed_multi_changes_no_znode_and_returns_each_error():
    w = Writer()
    digest = w.tree.digest
    subs = [
        SubTxn(OpCode.CREATE, CreateTxn("/a", b"", OPEN_ACL, False, 1).encode()),
        SubTxn(OpCode.ERROR, ErrorTxn(ErrorCode.BAD_VERSION).encode()),
        SubTxn(OpCode.ERROR, ErrorTxn(ErrorCode.RUNTIME_INCONSISTENCY).encode()),
    ]
    applied = w.apply(OpCode.MULTI, MultiTxn(subs))
    assert [(r.type, r.error) for r in applied.results] == [(-1, 0), (-1, -103), (-1, -2)]
    assert applied.error == -103 and w.tree.digest == digest and "/a" not in w.tree.nodes
    assert w.tree.last_zxid == 1, "the failed transaction still uses its zxid"


def test_multi_returns_the_stat_after_each_operation():
    w = Writer()
    subs = [
        SubTxn(OpCode.CREATE2, CreateTxn("/a", b"", OPEN_ACL, False, 1).encode()),
        SubTxn(OpCode.CREATE2, CreateTxn("/a/b", b"", OPEN_ACL, False, 1).encode()),
        SubTxn(OpCode.SET_DATA, SetDataTxn("/a", b"x", 1).encode()),
    ]
    results = w.apply(OpCode.MULTI, MultiTxn(subs)).results
    assert [r.stat.num_children for r in results] == [0, 0, 1]
    assert all(r.stat.czxid == 1 for r in results)


def test_digest_is_the_sum_over_znodes_outside_zookeeper_path():
    w = Writer()
    empty = w.tree.digest
    w.create("/a", b"x")
    w.create("/a/b", b"y", ephemeral=True)
    w.set("/a", b"z", 1)
    assert w.tree.digest == sum(node.digest for node in w.tree.nodes.values()) % 2**64
    assert w.tree.digest == DataTree.from_snapshot(w.tree.to_snapshot()).digest
    tree = DataTree()
    tree.describe_membership(b"server.1=localhost:1:2:participant\nversion=0", 0, 5)
    assert tree.digest == empty and tree.stat("/zookeeper/config").version == -1


def test_snapshot_is_unaffected_by_later_changes():
    w = Writer()
    w.create("/a", b"1")
    w.create("/a/b", b"2", ephemeral=True)
    w.apply(OpCode.CREATE_SESSION, CreateSessionTxn(4000))
    snapshot = w.tree.to_snapshot()
    before = list(snapshot.nodes)
    assert [image.path for image in before[:1]] == [""] and len(snapshot.nodes) == len(before)
    w.set("/a", b"changed", 1)
    w.create("/a/c")
    w.delete("/a/b")
    w.apply(OpCode.SET_ACL, SetACLTxn("/", (ACL(1, "world", "anyone"),), 1))
    w.apply(OpCode.CLOSE_SESSION, CloseSessionTxn([]))
    assert list(snapshot.nodes) == before == list(w_at(w.txns, 3).to_snapshot().nodes)
    assert snapshot.sessions == {7: 4000} and snapshot.zxid == 3
    assert snapshot.nodes[0].path == "" and snapshot.nodes[-1] == before[-1]


def w_at(txns, count):
    tree = DataTree()
    for txn in txns[:count]:
        tree.apply(txn)
    return tree


def test_tree_read_from_a_snapshot_equals_the_original():
    w = Writer()
    w.apply(OpCode.CREATE_SESSION, CreateSessionTxn(4000))
    w.create("/a", None)
    w.create("/a/e", b"x", ephemeral=True)
    twin = DataTree.from_snapshot(w.tree.to_snapshot())
    assert twin.to_snapshot() == w.tree.to_snapshot()
    for name in ("sessions", "ephemerals", "ephemeral_count", "last_zxid", "data_size_bytes", "digest"):
        assert getattr(twin, name) == getattr(w.tree, name), name


def history():
    w = Writer()
    w.apply(OpCode.CREATE_SESSION, CreateSessionTxn(4000))
    w.create("/a", b"1", cversion=1)
    w.create("/a/b", ephemeral=True, cversion=1)
    w.delete("/a/b")
    w.create("/a/b", b"again", cversion=2)
    w.create("/a/b/c", cversion=1)
    w.set("/a", b"2", 1)
    w.delete("/a/b/c")
    w.delete("/a/b")
    w.create("/a/b", b"third", cversion=3)
    w.create("/a/b/d", cversion=1)
    w.create("/e", ephemeral=True, cversion=2)
    w.apply(OpCode.CLOSE_SESSION, CloseSessionTxn(["/e"]))
    w.create("/e", ephemeral=True, cversion=3, session=9)
    return w


@pytest.mark.parametrize("start", range(15))
@pytest.mark.parametrize("held", range(15))
def test_replaying_transactions_over_a_snapshot_gives_same_tree(held, start):
    """Replaying transactions that a snapshot already contains does not change the result.

    The replayed log can begin before the snapshot was taken.
    """
    w = history()
    if start > held:
        return
    tree = DataTree.from_snapshot(w_at(w.txns, held).to_snapshot())
    for txn in w.txns[start:]:
        tree.apply(txn)
    assert images(tree) == images(w.tree)
    assert (tree.digest, tree.sessions, tree.ephemerals) == (w.tree.digest, w.tree.sessions, w.tree.ephemerals)
    assert tree.data_size_bytes == w.tree.data_size_bytes


def test_deleting_a_znode_with_a_child_is_an_assertion_error():
    w = Writer()
    w.create("/a")
    w.create("/a/b")
    with pytest.raises(AssertionError):
        w.delete("/a")


def test_snapshot_with_a_znode_without_parent_is_rejected():
    orphan = NodeImage("/a/b", b"", OPEN_ACL, 1, 1, 1, 1, 0, 0, 0, 0, 1)
    root = NodeImage("", b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="parent"):
        DataTree.from_snapshot(TreeSnapshot(1, {}, [root, orphan], 0))


def test_znode_versions_wrap_around_and_skip_minus_one():
    assert [next_version(v) for v in (0, 0x7FFFFFFF, -2, -1)] == [1, -0x80000000, 0, 0]


@pytest.mark.parametrize(
    ("known", "stored", "then"),
    [(0x7FFFFFFF, -0x80000000, -0x80000000), (-0x80000000, 0x7FFFFFFF, -0x80000000), (0x7FFFFFFF, -1, -0x80000000),
     (5, 5, 5), (5, 4, 5), (5, 7, 7)],
)  # fmt: skip
def test_cversion_overflows_and_replay_does_not_decrease_it(known, stored, then):
    w = Writer()
    w.create("/q")
    for way in (0x7FFFFFFF, known) if known < 0 else (known,):
        w.create(f"/q/{way}", cversion=way)
    w.create("/q/next", cversion=stored)
    assert w.tree.nodes["/q"].cversion == then


@pytest.mark.parametrize(
    ("path", "valid"),
    [("/", True), ("/a", True), ("/a/b-c.d", True), ("/a/...", True), ("/.a", True), ("/é", True), ("", False),
     ("a", False), ("//", False), ("/a/", False), ("/a//b", False), ("/.", False), ("/a/..", False),
     ("/a/../b", False), ("/a/./b", False), ("/a\0", False), ("/a\x1f", False), ("/a\x9f", False),
     ("/\ue000", False), ("/\ufff1", False), ("/\U0001f600", False), ("/a\n", False)],
)  # fmt: skip
def test_paths_are_validated_as_in_zookeeper(path, valid):
    assert is_valid_path(path) is valid


def test_failed_create_transaction_returns_its_error():
    writer = Writer()
    writer.create("/a", b"first")
    again, orphan = writer.create("/a", b"second"), writer.create("/b/c")
    assert (again.error, again.path, again.node) == (ErrorCode.NODE_EXISTS, "/a", None)
    assert (orphan.error, orphan.path, orphan.node) == (ErrorCode.NO_NODE, "/b/c", None)
    assert writer.tree.nodes["/a"].data == b"first"
